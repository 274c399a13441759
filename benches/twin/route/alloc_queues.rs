//! DMAs get queues, one for every engine and kind in use, and the engine of their queue.

use crate::twin::graph::{Program, Queue};
use crate::twin::pass::Pass;
use murre_components::bir::{DgeType, QueueHead, QueueKind};
use murre_components::engine::EngineId;
use murre_components::isa::Name;
use murre_systems::route::alloc_queues::{check_queues, queue_name, static_kind};
use murre_systems::route::{EngineReason, QueueReason};
use std::cell::Cell;
use std::rc::Rc;

/// The pass.
pub struct AllocQueues;

impl Pass for AllocQueues {
    fn name(&self) -> &'static str {
        "alloc_queues"
    }

    fn run(&self, program: &mut Program) {
        for instruction in &program.instructions {
            let Some((to, from, transfer)) = instruction.copy() else { continue };
            let kind = match transfer.route.get() {
                DgeType::Swdge => {
                    instruction.engine.set(EngineId::Pool);
                    transfer.explain(|why| why.engine = EngineReason::Software);
                    QueueKind::Dynamic
                }
                DgeType::Hwdge => QueueKind::Dynamic,
                DgeType::None | DgeType::Unassigned => static_kind(&to.location.head, &from.location.head),
            };
            if matches!(instruction.engine.get(), EngineId::Dma | EngineId::Unassigned) {
                instruction.engine.set(EngineId::Sp);
                transfer.explain(|why| why.engine = EngineReason::NobodyChose);
            } else if transfer.why.get().engine == EngineReason::NotBound {
                transfer.explain(|why| why.engine = EngineReason::AsLowered);
            }
            let engine = instruction.engine.get();
            let known = program.queues.iter().find(|q| q.engine == engine && q.kind == kind).cloned();
            let reason = QueueReason { kind: Some(kind), opened: known.is_none() };
            transfer.explain(|why| why.queue = reason);
            let queue = match known {
                Some(queue) => queue,
                None => match open(program.queues.len(), engine, kind) {
                    Ok(queue) => {
                        program.queues.push(queue.clone());
                        queue
                    }
                    Err(fault) => return program.faults.push(fault.into()),
                },
            };
            let _ = transfer.queue.set(queue);
        }
        let head = |q: &Rc<Queue>| QueueHead { engine: q.engine, kind: q.kind, instance: 0, semaphore: 0 };
        let heads: Vec<QueueHead> = program.queues.iter().map(head).collect();
        let faults = check_queues(&heads, heads.iter().map(queue_name), program.options.target.arch());
        program.faults.extend(faults.into_iter().map(|f| f.message));
    }
}

fn open(number: usize, engine: EngineId, kind: QueueKind) -> Result<Rc<Queue>, &'static str> {
    let head = QueueHead { engine, kind, instance: 0, semaphore: 0 };
    let name = Name::new(&queue_name(&head)).map_err(|_| "a long name of a queue")?;
    Ok(Rc::new(Queue { number: number as u32, engine, kind, name, semaphore: Cell::new(0) }))
}
