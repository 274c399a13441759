//! Vector clocks: what each actor knows to lie behind it.
//!
//! In: releases (an update, an issue, the end of a transfer) and acquisitions (a wait that held, a drain, a barrier, a
//! queue that starts a job). Out: whether an access by an actor in an epoch is ordered before the present. Actors are
//! numbered as in the trace. Facts: `spec/isa.md 5.8, 8.2`, D15.
//!
//! A wait for "at least n" acquires only the updates up to the one with which the counter first reached n: what came
//! later happened to be early in this interleaving and promises nothing. Other waits acquire every update so far.

use std::collections::VecDeque;
use std::rc::Rc;

/// For each actor the last of its epochs that is known to be past.
pub type Clock = Rc<[u32]>;

/// Steps of a counter that are remembered; an older wait acquires the oldest of them, which orders more, never less.
const HISTORY: usize = 256;

/// What the updates of a semaphore or event released.
struct Released {
    /// Counter after an update, and the join of all clocks up to it; values ascend.
    steps: VecDeque<(u32, Clock)>,
}

impl Released {
    fn new(value: u32, clock: Clock) -> Released {
        Released { steps: VecDeque::from([(value, clock)]) }
    }
}

/// The clocks of all actors and of everything they meet at.
pub struct Clocks {
    actors: Vec<Vec<u32>>,
    semaphores: Vec<Released>,
    events: Vec<Clock>,
    /// Per engine: the ends of the transfers it issued.
    fed: [Vec<u32>; 5],
    zero: Clock,
}

fn join(into: &mut [u32], from: &[u32]) {
    into.iter_mut().zip(from).for_each(|(a, b)| *a = (*a).max(*b));
}

impl Clocks {
    /// Nobody knows of anybody.
    pub fn new(actors: usize) -> Clocks {
        let zero: Clock = vec![0; actors].into();
        let own = |a: usize| (0..actors).map(|b| (a == b) as u32).collect();
        Clocks {
            actors: (0..actors).map(own).collect(),
            semaphores: (0..256).map(|_| Released::new(0, zero.clone())).collect(),
            events: vec![zero.clone(); 256],
            fed: std::array::from_fn(|_| vec![0; actors]),
            zero,
        }
    }

    /// The present epoch of an actor.
    #[inline]
    pub fn epoch(&self, actor: usize) -> u32 {
        self.known(actor, actor)
    }

    /// The last epoch of `other` that lies behind `actor`.
    #[inline]
    pub fn known(&self, actor: usize, other: usize) -> u32 {
        self.actors.get(actor).and_then(|c| c.get(other)).copied().unwrap_or(0)
    }

    fn acquire(&mut self, actor: usize, from: &[u32]) {
        if let Some(mine) = self.actors.get_mut(actor) {
            join(mine, from);
        }
    }

    /// The actor's clock joined with `with`; the actor goes on in a new epoch. An epoch that cannot grow stays: later
    /// accesses then count as ordered too early, never too late.
    fn release(&mut self, actor: usize, with: &[u32]) -> Clock {
        let Some(mine) = self.actors.get_mut(actor) else { return self.zero.clone() };
        let out = mine.iter().zip(with).map(|(a, b)| *a.max(b)).collect();
        if let Some(own) = mine.get_mut(actor) {
            *own = (*own + 1).min(super::race::LAST_EPOCH);
        }
        out
    }

    /// An actor hands its work to another: the clock to be acquired there.
    pub fn issue(&mut self, actor: usize) -> Clock {
        let zero = self.zero.clone();
        self.release(actor, &zero)
    }

    /// A queue starts what an engine issued.
    pub fn start(&mut self, actor: usize, issued: &Clock) {
        self.acquire(actor, issued);
    }

    /// A transfer that `engine` issued ended on `actor`.
    pub fn finish(&mut self, actor: usize, engine: usize) {
        let clock = self.issue(actor);
        if let Some(fed) = self.fed.get_mut(engine) {
            join(fed, &clock);
        }
    }

    /// Nothing that `engine` issued is under way.
    pub fn drain(&mut self, engine: usize) {
        if let (Some(mine), Some(fed)) = (self.actors.get_mut(engine), self.fed.get(engine)) {
            join(mine, fed);
        }
    }

    /// The five engines stand at a barrier.
    pub fn barrier(&mut self) {
        let mut all = vec![0; self.zero.len()];
        self.actors.iter().take(5).for_each(|c| join(&mut all, c));
        for engine in 0..5 {
            self.acquire(engine, &all);
            self.issue(engine);
        }
    }

    /// An update of semaphore `id` that took its counter from `before` to `after`.
    pub fn update(&mut self, actor: usize, id: u8, before: u32, after: u32, adds: bool) {
        let Some(last) = self.semaphores.get(id as usize).and_then(|s| s.steps.back()) else { return };
        let clock = self.release(actor, &last.1.clone());
        let Some(s) = self.semaphores.get_mut(id as usize) else { return };
        if !adds || after < before {
            *s = Released::new(after, clock);
            return;
        }
        if s.steps.len() == HISTORY {
            s.steps.pop_front();
        }
        s.steps.push_back((after, clock));
    }

    /// A wait on semaphore `id` held; `least` is the value that the counter had to reach, where it was such a wait.
    pub fn wait(&mut self, actor: usize, id: u8, least: Option<u32>) {
        let Some(s) = self.semaphores.get(id as usize) else { return };
        let at = least.map_or(s.steps.len(), |n| s.steps.partition_point(|(value, _)| *value < n));
        let clock = s.steps.get(at).or(s.steps.back()).map(|(_, clock)| clock.clone());
        if let Some(clock) = clock {
            self.acquire(actor, &clock);
        }
    }

    /// An event was set or cleared.
    pub fn update_event(&mut self, actor: usize, id: u8) {
        let before = self.events.get(id as usize).cloned().unwrap_or_else(|| self.zero.clone());
        let clock = self.release(actor, &before);
        if let Some(e) = self.events.get_mut(id as usize) {
            *e = clock;
        }
    }

    /// A wait on an event held.
    pub fn wait_event(&mut self, actor: usize, id: u8) {
        if let Some(clock) = self.events.get(id as usize).cloned() {
            self.acquire(actor, &clock);
        }
    }

    /// Semaphore `id` was reset: what it released is forgotten.
    pub fn reset(&mut self, id: usize) {
        if let Some(s) = self.semaphores.get_mut(id) {
            *s = Released::new(0, self.zero.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_acquires_the_updates_it_needed_and_no_more() {
        let mut c = Clocks::new(15);
        let first = c.epoch(0);
        c.update(0, 9, 0, 1, true);
        let second = c.epoch(0);
        c.update(0, 9, 1, 2, true);
        c.wait(1, 9, Some(0));
        assert_eq!(c.known(1, 0), 0);
        c.wait(1, 9, Some(1));
        assert_eq!(c.known(1, 0), first);
        c.wait(2, 9, Some(2));
        assert_eq!(c.known(2, 0), second);
        c.wait(3, 9, None);
        assert_eq!(c.known(3, 0), second);
        c.reset(9);
        c.wait(4, 9, None);
        assert_eq!(c.known(4, 0), 0);
    }

    #[test]
    fn updates_that_do_not_add_release_everything() {
        let mut c = Clocks::new(15);
        c.update(0, 9, 0, 1, true);
        let last = c.epoch(1);
        c.update(1, 9, 1, 0, false);
        c.wait(2, 9, Some(0));
        assert_eq!((c.known(2, 0), c.known(2, 1)), (1, last));
    }

    #[test]
    fn issues_drains_and_barriers_order() {
        let mut c = Clocks::new(15);
        let issued = c.issue(4);
        c.start(14, &issued);
        assert_eq!((c.known(14, 4), c.epoch(4)), (1, 2));
        c.finish(14, 4);
        assert_eq!(c.known(4, 14), 0);
        c.drain(4);
        assert_eq!(c.known(4, 14), 1);
        c.barrier();
        assert_eq!((c.known(0, 14), c.known(0, 4), c.known(4, 0)), (1, 2, 1));
        c.update_event(0, 3);
        c.wait_event(14, 3);
        assert_eq!(c.known(14, 0), 2);
    }
}
