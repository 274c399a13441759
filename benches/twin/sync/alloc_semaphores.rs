//! Turns waits into semaphore counts.

use crate::twin::graph::Program;
use crate::twin::instruction::{Instruction, Registers};
use crate::twin::pass::Pass;
use crate::twin::walk::{Site, Walk};
use murre_components::bir::{InstArgs, InstFrom, InstSync, Opcode};
use murre_components::engine::{RESERVED_SEMAPHORES, SEMAPHORES};
use murre_components::ids::InstId;
use murre_systems::sync::{ENGINES, INCREMENT, WAIT_GE};
use std::cell::Cell;
use std::rc::Rc;

/// The pass.
pub struct AllocSemaphores;

fn semaphore(channel: usize) -> u8 {
    (RESERVED_SEMAPHORES as usize + channel) as u8
}

impl Pass for AllocSemaphores {
    fn name(&self) -> &'static str {
        "alloc_semaphores"
    }

    fn run(&self, program: &mut Program) {
        let channels = ENGINES + program.queues.len();
        if channels > (SEMAPHORES - RESERVED_SEMAPHORES) as usize {
            return program.faults.push("more channels than semaphores".into());
        }
        for queue in &program.queues {
            queue.semaphore.set(semaphore(ENGINES + queue.number as usize));
        }
        let starts = std::mem::take(&mut program.starts);
        let mut next = starts.iter().peekable();
        let mut counts = vec![0u32; channels];
        let (old, mut walk) = Walk::over(program);
        let mut moved = Vec::with_capacity(old.len() + 1);
        for (position, instruction) in (0u32..).zip(&old) {
            while next.next_if(|s| **s <= position).is_some() {
                counts.fill(0);
            }
            moved.push(walk.out.len() as u32);
            let mut sync = wait(&mut walk, &old, instruction);
            let triggers = instruction.op.get() == Opcode::DmaTrigger;
            if (instruction.awaited.get() || triggers)
                && let Some((_, channel)) = instruction.channel()
            {
                counts[channel] += 1;
                instruction.count.set(counts[channel]);
                if !triggers {
                    (sync.update_mode, sync.update_sem) = (INCREMENT, semaphore(channel));
                } else if !complete(instruction, semaphore(channel)) {
                    walk.program.faults.push("a trigger without descriptors".into());
                }
            }
            instruction.sync.set(sync);
            walk.out.push(instruction.clone());
        }
        moved.push(walk.out.len() as u32);
        let at = |p: &u32| moved.get(*p as usize).copied().unwrap_or(*p);
        walk.program.starts = starts.iter().map(at).collect();
        walk.program.loops.iter_mut().for_each(|(a, b)| (*a, *b) = (at(a), at(b)));
        walk.end();
    }
}

/// The wait of a record; further ones go into instructions in front of it.
fn wait(walk: &mut Walk<'_>, old: &[Rc<Instruction>], instruction: &Instruction) -> InstSync {
    let waits = instruction.waits.borrow();
    let value = |producer: u32| old[producer as usize].count.get();
    let Some((&(channel, producer), rest)) = waits.split_last() else { return InstSync::default() };
    for pair in rest.chunks(2) {
        let mut args = InstArgs { op0: pair.len() as u8, ..Default::default() };
        if let [_, (channel, producer)] = pair {
            args.imm0 = u32::from(semaphore(*channel as usize)) << 8 | u32::from(WAIT_GE);
            args.imm1 = value(*producer);
        }
        let sync = InstSync {
            wait_mode: WAIT_GE,
            wait_sem: semaphore(pair[0].0 as usize),
            value: value(pair[0].1),
            ..Default::default()
        };
        let site = Site::before(instruction);
        let from = InstFrom { hlo: site.hlo, owner: InstId(instruction.number) };
        let event = Instruction {
            args: Cell::new(args),
            registers: Registers::default().into(),
            sync: Cell::new(sync),
            ..Instruction::new(walk.program.number(), Opcode::EventSemaphore, site.engine, from)
        };
        walk.out.push(event.share());
    }
    InstSync {
        wait_mode: WAIT_GE,
        wait_sem: semaphore(channel as usize),
        value: value(producer),
        ..Default::default()
    }
}

/// The last descriptor of a trigger's block says that the block has completed. `false`: there is none.
fn complete(trigger: &Instruction, semaphore: u8) -> bool {
    let Some(block) = trigger.transfer.as_ref().and_then(|t| t.block.get()) else { return false };
    match block.descriptors.borrow_mut().last_mut() {
        Some(last) => {
            (last.head.sem, last.head.sem_inc) = (semaphore, 1);
            true
        }
        None => false,
    }
}
