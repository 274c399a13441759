//! Asynchronous actors: five engines and the DMA queues. One step is one record of an engine or one descriptor of a
//! queue.
//!
//! In: a program whose indices were checked, a fresh core, options. Out: the core after every stream ended and every
//! queue ran dry, or the first fault with engine, record and HLO instruction. Which ready actor steps next is round robin
//! or seeded; a correct program gives the same outputs under every order.
//!
//! Completion, in one place: a record's update event happens when its work is done. For engine records that is the step
//! itself; for an inline 0xD4 it is the end of its transfer; for a trigger 0xC1 the end of the last descriptor of its
//! block. A descriptor's own semaphore increment (+0D, +0E) happens when that descriptor ends. A queue is first in, first
//! out; every engine has one more queue of its own for inline transfers.

use super::clocks::{Clock, Clocks};
use super::core::Core;
use super::dma::{self, Transfer};
use super::watch::Watches;
use super::{SimOptions, Stats, TraceStep, compute, control};
use murre_components::diag::{Diagnostic, codes::sim as codes};
use murre_components::engine::EngineId;
use murre_components::isa::{BareOp, Events, Instr, decode};
use murre_components::program::{Program, Record};
use std::collections::VecDeque;

/// A record and what it waits for.
struct Step {
    instr: Instr,
    events: Events,
}

struct Job {
    transfer: Transfer,
    engine: usize,
    /// Update event of the record that issued it, on its last job.
    after: Option<Events>,
    /// Table (stream, or 5 for descriptors) and record, for messages.
    site: (usize, usize),
    /// What the engine knew when it issued the job, for the race check.
    issued: Option<Clock>,
}

/// The scheduler's state.
pub struct Schedule<'a> {
    program: &'a Program,
    /// The core.
    pub core: Core,
    streams: Vec<Vec<Step>>,
    descriptors: Vec<Step>,
    pc: [usize; 5],
    ended: [bool; 5],
    /// Program queues, then one a engine.
    queues: Vec<VecDeque<Job>>,
    outstanding: [usize; 5],
    /// What happened.
    pub stats: Stats,
    /// Steps, when asked for.
    pub trace: Vec<TraceStep>,
    /// Records that are looked at, when any are.
    pub watches: Option<Box<Watches>>,
}

fn step_of(program: &Program, table: usize, at: usize, record: &Record) -> Result<Step, Diagnostic> {
    decode(record).map(|(instr, events)| Step { instr, events }).map_err(|d| locate(program, (table, at), d))
}

/// Names the record and the HLO instruction that a fault concerns.
fn locate(program: &Program, (table, at): (usize, usize), mut d: Diagnostic) -> Diagnostic {
    let (name, list) = match EngineId::STREAMS.get(table) {
        Some(e) => (e.name(), program.provenance.streams.get(table)),
        None => ("descriptor", Some(&program.provenance.descriptors)),
    };
    let records = program.streams.get(table).unwrap_or(&program.descriptors);
    let opcode = records.get(at).map_or(0, |r| r[0]);
    d.message = format!("{} (at {name} record {at}, opcode {opcode:02x})", d.message);
    let index = list.and_then(|l| l.get(at)).copied().unwrap_or(u32::MAX) as usize;
    if let Some(name) = program.provenance.names.get(index) {
        d.instruction = Some(name.to_owned());
        d.source = program.provenance.sources.get(index).filter(|s| !s.is_empty()).map(str::to_owned);
    }
    d
}

impl<'a> Schedule<'a> {
    /// Decodes every record once.
    pub fn new(program: &'a Program, core: Core) -> Result<Self, Diagnostic> {
        let table = |t: usize, records: &[Record]| {
            records.iter().enumerate().map(|(i, r)| step_of(program, t, i, r)).collect::<Result<Vec<_>, _>>()
        };
        let streams =
            program.streams.iter().enumerate().map(|(t, s)| table(t, s)).collect::<Result<Vec<_>, _>>()?;
        Ok(Schedule {
            program,
            core,
            streams,
            descriptors: table(5, &program.descriptors)?,
            pc: [0; 5],
            ended: [false; 5],
            queues: (0..program.queues.len() + 5).map(|_| VecDeque::new()).collect(),
            outstanding: [0; 5],
            stats: Stats::default(),
            trace: Vec::new(),
            watches: None,
        })
    }

    /// Steps until every stream ended and every queue is empty.
    pub fn run(&mut self, options: &SimOptions) -> Result<(), Diagnostic> {
        let actors = 5 + self.queues.len();
        let mut cursor = 0;
        let mut random = options.interleave;
        let mut ready = Vec::with_capacity(actors);
        self.watches = (!options.watches.is_empty()).then(|| Box::new(Watches::new(&options.watches)));
        loop {
            let chosen = match &mut random {
                None => {
                    let mut found = None;
                    for i in 0..actors {
                        let actor = (cursor + i) % actors;
                        if self.ready(actor)? {
                            found = Some(actor);
                            break;
                        }
                    }
                    found
                }
                Some(state) => {
                    ready.clear();
                    for actor in 0..actors {
                        if self.ready(actor)? {
                            ready.push(actor);
                        }
                    }
                    let pick = split_mix(state) as usize;
                    pick.checked_rem(ready.len()).and_then(|i| ready.get(i)).copied()
                }
            };
            let Some(actor) = chosen else {
                if self.ended == [true; 5] {
                    return Ok(());
                }
                return Err(self.deadlock());
            };
            cursor = actor + 1;
            if self.stats.steps >= options.max_steps {
                let what = format!("{} steps were taken and the program goes on", self.stats.steps);
                let site = (actor.min(4), self.pc[actor.min(4)]);
                return Err(locate(self.program, site, Diagnostic::error(&codes::SIM_STEPS, what)));
            }
            if options.trace {
                let record = self.pc.get(actor).copied().unwrap_or_default() as u32;
                self.trace.push(TraceStep { step: self.stats.steps, actor: actor as u32, record });
            }
            self.stats.steps += 1;
            if actor < 5 { self.step_engine(actor)? } else { self.step_queue(actor - 5)? }
        }
    }

    fn step_at(&self, engine: usize) -> Option<&Step> {
        self.streams.get(engine).and_then(|s| s.get(self.pc[engine]))
    }

    fn at_barrier(&self, engine: usize) -> Result<bool, Diagnostic> {
        match self.step_at(engine) {
            Some(Step { instr: Instr::Bare(x), events }) if x.opcode == BareOp::AllEngineBarrier => {
                self.core.wait_holds(engine, events.wait_mode, events.wait_id, events.value)
            }
            _ => Ok(false),
        }
    }

    fn ready(&self, actor: usize) -> Result<bool, Diagnostic> {
        if actor >= 5 {
            return Ok(self.queues.get(actor - 5).is_some_and(|q| !q.is_empty()));
        }
        if self.ended[actor] {
            return Ok(false);
        }
        let Some(step) = self.step_at(actor) else { return Ok(true) };
        let e = &step.events;
        let holds = self.core.wait_holds(actor, e.wait_mode, e.wait_id, e.value);
        let holds = holds.and_then(|first| {
            Ok(first
                && match &step.instr {
                    Instr::Drain(_) => self.outstanding[actor] == 0,
                    Instr::EventSemaphore(x) => {
                        self.core.wait_holds(actor, x.wait1_mode, x.wait1_id, x.wait1_value)?
                    }
                    Instr::Bare(x) if x.opcode == BareOp::AllEngineBarrier => {
                        let mut all = true;
                        for e in 0..5 {
                            all &= !self.ended[e] && self.at_barrier(e)?;
                        }
                        all
                    }
                    _ => true,
                })
        });
        holds.map_err(|d| locate(self.program, (actor, self.pc[actor]), d))
    }

    fn step_engine(&mut self, engine: usize) -> Result<(), Diagnostic> {
        let site = (engine, self.pc[engine]);
        self.core.memory.enter(engine, site.1);
        self.engine_record(engine).map_err(|d| self.fault(site, d))?;
        if let Some(watches) = &mut self.watches {
            watches.ran(&self.core, engine, site.1, self.pc[engine]);
        }
        Ok(())
    }

    /// A fault of a record that was executed. A race knows both records by number only; here they get names.
    fn fault(&self, site: (usize, usize), mut d: Diagnostic) -> Diagnostic {
        if let Some(race) = self.core.memory.races.as_ref().and_then(|r| r.borrow().found) {
            d.message = race.text(self.program, &d.message);
        }
        locate(self.program, site, d)
    }

    fn clocks(&mut self) -> Option<&mut Clocks> {
        self.core.memory.races.as_mut().map(|r| &mut r.get_mut().clocks)
    }

    fn engine_record(&mut self, engine: usize) -> Result<(), Diagnostic> {
        let at = self.pc[engine];
        let Some(Step { instr, events }) = self.step_at(engine) else {
            if self.streams.get(engine).is_some_and(|s| s.is_empty()) {
                self.ended[engine] = true;
                return Ok(());
            }
            return Err(Diagnostic::error(
                &codes::SIM_RECORD,
                format!("the stream runs past its last record to {at}"),
            ));
        };
        let (instr, events) = (*instr, *events);
        self.stats.records[engine] += 1;
        if matches!(&instr, Instr::Bare(x) if x.opcode == BareOp::AllEngineBarrier) {
            // All five stand here: they pass together.
            for e in 0..5 {
                let Some(events) = self.step_at(e).map(|s| s.events) else { continue };
                self.core.wait_taken(e, events.wait_mode, events.wait_id, events.value)?;
            }
            if let Some(clocks) = self.clocks() {
                clocks.barrier();
            }
            for e in 0..5 {
                let Some(events) = self.step_at(e).map(|s| s.events) else { continue };
                self.core.memory.enter(e, self.pc[e]);
                self.core.complete(&events)?;
                self.pc[e] += 1;
            }
            return Ok(());
        }
        self.core.wait_taken(engine, events.wait_mode, events.wait_id, events.value)?;
        self.pc[engine] += 1;
        match &instr {
            Instr::DmaDirect(d) => {
                let next = self.step_at(engine).map(|s| s.instr);
                let ext = if let Some(Instr::DmaExtension(x)) = &next { Some(x) } else { None };
                let transfer = dma::resolve(self.program, &self.core.registers[engine], d, ext)?;
                if ext.is_some() {
                    self.pc[engine] += 1;
                }
                let issued = self.clocks().map(|c| c.issue(engine));
                let job = Job { transfer, engine, after: Some(events), site: (engine, at), issued };
                self.enqueue(self.program.queues.len() + engine, job);
                return Ok(());
            }
            Instr::DmaTrigger(t) => return self.trigger(engine, t, events),
            Instr::Drain(_) => {
                if let Some(clocks) = self.clocks() {
                    clocks.drain(engine);
                }
            }
            Instr::EventSemaphore(x) => {
                self.core.wait_taken(engine, x.wait1_mode, x.wait1_id, x.wait1_value)?;
                self.core.update(x.update_mode, x.update_id, x.update_value)?;
            }
            _ => match compute::execute(&mut self.core, engine, &instr) {
                Some(done) => done?,
                None => match control::execute(&mut self.core, engine, &instr)? {
                    control::Next::Fall => {}
                    control::Next::End => self.ended[engine] = true,
                    control::Next::Jump(to) => {
                        let n = self.streams.get(engine).map_or(0, |s| s.len());
                        if to >= n as u64 {
                            let what = format!("a branch to record {to} of {n}");
                            return Err(Diagnostic::error(&codes::SIM_RECORD, what));
                        }
                        self.pc[engine] = to as usize;
                    }
                },
            },
        }
        self.core.complete(&events)
    }

    fn enqueue(&mut self, queue: usize, job: Job) {
        if let Some(q) = self.queues.get_mut(queue) {
            self.outstanding[job.engine] += 1;
            q.push_back(job);
        }
    }

    fn trigger(
        &mut self,
        engine: usize,
        t: &murre_components::isa::DmaTrigger,
        events: Events,
    ) -> Result<(), Diagnostic> {
        let fault = |what: String| Err(Diagnostic::error(&codes::SIM_RECORD, what));
        let Some(block) = self.program.blocks.get(t.block as usize).copied() else {
            return fault(format!("block {} of {}", t.block, self.program.blocks.len()));
        };
        match self.program.queues.get(block.queue as usize) {
            Some(q) if q.name == t.queue.as_str() => {}
            _ => return fault(format!("block {} is not on queue '{}'", t.block, t.queue.as_str())),
        }
        let (first, end) = (block.first as usize, (block.first + block.count) as usize);
        let mut jobs = Vec::new();
        let mut i = first;
        while i < end {
            let Some(Step { instr: Instr::DmaDirect(d), .. }) = self.descriptors.get(i) else {
                return fault(format!("descriptor {i} is no transfer"));
            };
            let next = self.descriptors.get(i + 1).filter(|_| i + 1 < end);
            let ext =
                if let Some(Step { instr: Instr::DmaExtension(x), .. }) = next { Some(x) } else { None };
            let transfer = dma::resolve(self.program, &self.core.registers[engine], d, ext);
            jobs.push((transfer.map_err(|d| locate(self.program, (5, i), d))?, i));
            i += 1 + ext.is_some() as usize;
        }
        let count = jobs.len();
        let issued = self.clocks().map(|c| c.issue(engine));
        for (k, (transfer, at)) in jobs.into_iter().enumerate() {
            let after = (k + 1 == count).then_some(events);
            let job = Job { transfer, engine, after, site: (5, at), issued: issued.clone() };
            self.enqueue(block.queue as usize, job);
        }
        if count == 0 { self.core.complete(&events) } else { Ok(()) }
    }

    fn step_queue(&mut self, queue: usize) -> Result<(), Diagnostic> {
        let Some(job) = self.queues.get_mut(queue).and_then(|q| q.pop_front()) else { return Ok(()) };
        self.core.memory.enter(5 + queue, job.site.1);
        if let (Some(issued), Some(clocks)) = (&job.issued, self.clocks()) {
            clocks.start(5 + queue, issued);
        }
        let moved = dma::execute(&mut self.core, &job.transfer).map_err(|d| self.fault(job.site, d))?;
        self.stats.descriptors += 1;
        self.stats.dma_bytes += moved;
        self.outstanding[job.engine] -= 1;
        let (semaphore, increment) = job.transfer.completion;
        self.core.update(5, semaphore, increment as u32)?;
        if let Some(events) = job.after {
            self.core.complete(&events).map_err(|d| locate(self.program, job.site, d))?;
        }
        if let Some(clocks) = self.clocks() {
            clocks.finish(5 + queue, job.engine);
        }
        Ok(())
    }

    fn deadlock(&self) -> Diagnostic {
        let mut lines = Vec::new();
        let mut first = None;
        for (engine, id) in EngineId::STREAMS.into_iter().enumerate() {
            if self.ended[engine] {
                lines.push(format!("{} has ended", id.name()));
                continue;
            }
            let Some(step) = self.step_at(engine) else { continue };
            first.get_or_insert(engine);
            let e = &step.events;
            let counter = |id: u8| self.core.semaphores[id as usize];
            let why = match (&step.instr, e.wait_mode) {
                (Instr::Bare(x), 0) if x.opcode == BareOp::AllEngineBarrier => "the barrier".to_string(),
                (Instr::Drain(_), 0) => format!("{} transfers to end", self.outstanding[engine]),
                (Instr::EventSemaphore(x), 0) => {
                    format!(
                        "semaphore {} (now {}) against {}",
                        x.wait1_id,
                        counter(x.wait1_id),
                        x.wait1_value
                    )
                }
                (_, mode) if matches!(mode & 0x7F, 1..=5) => {
                    let what = if mode & 0x80 != 0 { "register " } else { "" };
                    format!("semaphore {} (now {}) against {what}{}", e.wait_id, counter(e.wait_id), e.value)
                }
                _ => format!("event {}", e.wait_id),
            };
            let name = self.program.provenance.streams[engine].get(self.pc[engine]);
            let name = name.and_then(|n| self.program.provenance.names.get(*n as usize));
            let of = name.map_or(String::new(), |n| format!(" of '{n}'"));
            lines.push(format!("{} record {}{of} waits for {why}", id.name(), self.pc[engine]));
        }
        let d = Diagnostic::error(&codes::SIM_DEADLOCK, lines.join("; "));
        let engine = first.unwrap_or(0);
        locate(self.program, (engine, self.pc[engine]), d)
    }
}

/// SplitMix64: the next number of a seeded order.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
