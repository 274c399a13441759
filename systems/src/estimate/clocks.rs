//! The clocks that the program runs through: one an engine, one a queue, one of the DMA engines together, and the front,
//! which is the latest of all. In: events in program order. Out: times; and for every resource and HLO instruction the
//! time by which it moved the front. Those add up to the whole time.
//!
//! An engine runs its instructions one after the other. A DMA starts [`Rates::start`] after its issue and moves its
//! bytes when the engines are free; starts overlap, a queue stays in order. A loop begins and ends with all clocks equal,
//! as the fences of the program make them, and its body counts `trips` times.
//!
//! [`Rates::start`]: super::transfer::Rates

use super::nest::{Label, MOST};
use murre_components::engine::SEMAPHORES;
use murre_components::ids::HloId;

/// Resources: the five streams, then these.
pub const DMA: usize = 5;
/// The start of DMAs: generation in hardware, and latency.
pub const DMA_START: usize = 6;
/// Drains, barriers and resets of semaphores, on all engines together.
pub const FENCES: usize = 7;
/// Number of resources.
pub const RESOURCES: usize = 8;

/// All clocks, in nanoseconds.
#[derive(Debug)]
pub struct Clocks {
    /// By stream: when its next instruction may begin.
    pub engines: [f64; 5],
    /// By stream: when the last DMA that it issued is done.
    issued: [f64; 5],
    /// By queue: when its last transfer is done.
    queues: Vec<f64>,
    dma_free: f64,
    /// When anything is done at last.
    pub front: f64,
    /// By semaphore, since the last fence: the time of each increment.
    semaphores: Vec<Vec<f64>>,
    used: Vec<u8>,
    arrived: [bool; 5],
    starts: Vec<f64>,
    /// Time of each resource at work.
    pub busy: [f64; RESOURCES],
    /// Time of each queue with a transfer under way.
    pub queue_busy: Vec<f64>,
    /// By resource: what it added to the front.
    pub added: [f64; RESOURCES],
    /// By HLO instruction, those of none at the end: what it added to the front.
    pub added_by: Vec<f64>,
    weight: f64,
}

/// A DMA as the clocks see it.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Start {
    pub queue: usize,
    /// From the issue to the first byte.
    pub delay: f64,
    pub duration: f64,
    pub occupancy: f64,
}

impl Clocks {
    /// All at 0.
    pub fn new(queues: usize, instructions: usize) -> Self {
        Clocks {
            engines: [0.0; 5],
            issued: [0.0; 5],
            queues: vec![0.0; queues],
            dma_free: 0.0,
            front: 0.0,
            semaphores: vec![Vec::new(); SEMAPHORES as usize],
            used: Vec::new(),
            arrived: [false; 5],
            starts: Vec::new(),
            busy: [0.0; RESOURCES],
            queue_busy: vec![0.0; queues],
            added: [0.0; RESOURCES],
            added_by: vec![0.0; instructions + 1],
            weight: 1.0,
        }
    }

    /// Moves the front to `to`.
    #[inline]
    fn push(&mut self, to: f64, resource: usize, hlo: HloId) {
        let more = to - self.front;
        if more > 0.0 {
            self.front = to;
            self.added[resource] += more * self.weight;
            let last = self.added_by.len() - 1;
            self.added_by[hlo.index().min(last)] += more * self.weight;
        }
    }

    /// Enters or leaves a loop; `weight` is how often what follows runs.
    pub fn label(&mut self, label: Label, weight: f64) {
        match label {
            Label::None => return,
            Label::Open => self.starts.push(self.front),
            Label::Close(trips) => {
                let start = self.starts.pop().unwrap_or(self.front);
                self.front = (start + (self.front - start) * trips).min(MOST);
            }
        }
        self.join(self.front);
        self.weight = weight;
    }

    fn join(&mut self, at: f64) {
        self.engines = [at; 5];
        self.issued = [at; 5];
        self.queues.fill(at);
        self.dma_free = at;
    }

    /// Waits on `stream` until the semaphore has seen `value` increments.
    #[inline]
    pub fn wait(&mut self, stream: usize, semaphore: u8, value: u32) {
        let seen = self.semaphores.get(usize::from(semaphore));
        if let Some(&at) = seen.and_then(|s| s.get((value as usize).wrapping_sub(1))) {
            self.engines[stream] = self.engines[stream].max(at);
        }
    }

    /// Increments a semaphore at a time.
    #[inline]
    pub fn increment(&mut self, semaphore: u8, at: f64) {
        if let Some(s) = self.semaphores.get_mut(usize::from(semaphore)) {
            if s.is_empty() {
                self.used.push(semaphore);
            }
            s.push(at);
        }
    }

    /// An instruction of `busy` on a stream; its result is seen `result` later. Gives that time.
    #[inline]
    pub fn run(&mut self, stream: usize, busy: f64, result: f64, hlo: HloId) -> f64 {
        self.busy[stream] += busy * self.weight;
        self.engines[stream] += busy;
        let end = self.engines[stream] + result;
        self.push(end, stream, hlo);
        end
    }

    /// A part of a fence on a stream.
    pub fn fence(&mut self, stream: usize, busy: f64, hlo: HloId) {
        self.busy[FENCES] += busy * self.weight;
        self.engines[stream] += busy;
        self.push(self.engines[stream], FENCES, hlo);
    }

    /// A DMA that `stream` has issued. Gives the time when it is done.
    pub fn transfer(&mut self, stream: usize, start: Start, hlo: HloId) -> f64 {
        let begin = (self.engines[stream] + start.delay).max(self.dma_free);
        self.dma_free = begin + start.occupancy;
        let mut end = begin + start.duration;
        self.busy[DMA] += start.occupancy * self.weight;
        self.busy[DMA_START] += start.delay * self.weight;
        if let (Some(queue), Some(busy)) =
            (self.queues.get_mut(start.queue), self.queue_busy.get_mut(start.queue))
        {
            end = end.max(*queue);
            *busy += (end - begin.max(*queue)) * self.weight;
            *queue = end;
        }
        self.issued[stream] = self.issued[stream].max(end);
        self.push(begin.min(end), DMA_START, hlo);
        self.push(end, DMA, hlo);
        end
    }

    /// `stream` waits for all DMAs that it has issued.
    pub fn drain(&mut self, stream: usize) {
        self.engines[stream] = self.engines[stream].max(self.issued[stream]);
    }

    /// `stream` arrives at a barrier; the last one lets all go on, `cost` later.
    pub fn barrier(&mut self, stream: usize, cost: f64, hlo: HloId) {
        self.arrived[stream] = true;
        if self.arrived != [true; 5] {
            return;
        }
        self.arrived = [false; 5];
        let at = self.engines.iter().copied().fold(0.0, f64::max) + cost;
        self.engines = [at; 5];
        self.busy[FENCES] += cost * self.weight;
        self.push(at, FENCES, hlo);
    }

    /// Sets all semaphores back.
    pub fn reset(&mut self) {
        for semaphore in self.used.drain(..) {
            self.semaphores[usize::from(semaphore)].clear();
        }
    }
}
