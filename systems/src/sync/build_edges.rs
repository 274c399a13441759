//! `build_edges`: what each instruction has to wait for, by location.
//!
//! One walk keeps, for every location, its last writer and the last reader of each channel, as positions. A reader
//! waits for the writer, a writer for the writer and the readers; the first access of a location that stands on bytes of
//! earlier ones ([`Reuse`]) waits for everything that touched those and counts as a write, so that later accesses are
//! ordered behind them through it. Left out is a wait for
//! * the own channel and, for a DMA, the issuing engine: both complete in order;
//! * a producer of an earlier block: a fence stands between;
//! * a producer not later than one of its channel that this engine has waited for.

use super::{ENGINES, Edges, channel};
use crate::columns;
use crate::place::Reuse;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::codes::internal::INTERNAL;
use murre_components::diag::{Diagnostic, Diagnostics};
use murre_components::ids::LocId;

const NONE: u32 = u32::MAX;

/// Last reader of a channel, in a list by location.
#[derive(Clone, Copy)]
struct Reader {
    channel: u32,
    position: u32,
    next: u32,
}

/// What is known of the accesses of a location so far.
#[derive(Clone, Copy)]
struct Seen {
    /// Channel and position of the last writer.
    writer: (u32, u32),
    /// First of its readers.
    readers: u32,
    touched: bool,
}

/// What is known of all accesses so far.
struct Accesses {
    locs: Vec<Seen>,
    pool: Vec<Reader>,
    spare: u32,
}

impl Accesses {
    fn new(locs: usize) -> Self {
        let locs = vec![Seen { writer: (NONE, NONE), readers: NONE, touched: false }; locs];
        Accesses { locs, pool: Vec::new(), spare: NONE }
    }

    fn for_each_reader(&self, first: u32, mut f: impl FnMut(u32, u32)) {
        let mut at = first;
        while let Some(r) = self.pool.get(at as usize) {
            f(r.channel, r.position);
            at = r.next;
        }
    }

    fn read(&mut self, loc: usize, channel: u32, position: u32) {
        let first = &mut self.locs[loc].readers;
        let mut at = *first;
        while let Some(r) = self.pool.get_mut(at as usize) {
            if r.channel == channel {
                r.position = position;
                return;
            }
            at = r.next;
        }
        let node = Reader { channel, position, next: *first };
        match self.pool.get_mut(self.spare as usize) {
            Some(slot) => {
                *first = self.spare;
                self.spare = slot.next;
                *slot = node;
            }
            None => {
                *first = self.pool.len() as u32;
                self.pool.push(node);
            }
        }
    }

    fn write(&mut self, loc: usize, channel: u32, position: u32) {
        let seen = &mut self.locs[loc];
        let mut at = std::mem::replace(&mut seen.readers, NONE);
        seen.writer = (channel, position);
        while let Some(r) = self.pool.get_mut(at as usize) {
            let next = r.next;
            r.next = self.spare;
            self.spare = at;
            at = next;
        }
    }
}

/// The pass.
pub fn build_edges(
    mut commands: Commands,
    order: Res<Order>,
    blocks: Res<Blocks>,
    reuse: Option<Res<Reuse>>,
    diagnostics: Res<Diagnostics>,
    insts: Query<(&InstHead, &InstOperands)>,
    dmas: Res<InstDmas>,
    aps: Query<&ApHead>,
    locs: Query<&LocHead>,
    queues: Query<&QueueHead>,
) {
    let (heads, operands): (&[InstHead], &[InstOperands]) = columns!(insts);
    let ap_heads: &[ApHead] = columns!(aps);
    let (loc_heads, queue_heads): (&[LocHead], &[QueueHead]) = (columns!(locs), columns!(queues));
    let channels = ENGINES + queue_heads.len();
    let mut seen = Accesses::new(loc_heads.len());
    // By engine and channel: one past the last producer position waited for.
    let mut known = vec![0u32; ENGINES * channels];
    let mut edges = Edges {
        starts: Vec::with_capacity(order.0.len() + 1),
        items: Vec::new(),
        awaited: vec![false; order.0.len()],
    };
    let (mut block, mut block_start) = (0, 0);
    for (position, id) in order.0.iter().enumerate() {
        edges.starts.push(edges.items.len() as u32);
        let position = position as u32;
        while let Some(&s) = blocks.starts.get(block)
            && s <= position
        {
            block_start = s;
            block += 1;
        }
        let o = operands[id.index()];
        let aps = &ap_heads[o.range()];
        if aps.is_empty() {
            continue;
        }
        let Some((engine, own)) = channel(heads[id.index()], dmas.of(id.index())).filter(|c| c.1 < channels)
        else {
            let m = format!("instruction {} accesses memory but has no engine or queue", id.0);
            diagnostics.push(Diagnostic::error(&INTERNAL, m).ordered(id.0));
            continue;
        };
        let mark = edges.items.len();
        let known = &mut known[engine * channels..][..channels];
        let mut need = |c: u32, p: u32| {
            let same = c as usize == own || c as usize == engine;
            if same || p == NONE || p < block_start || known[c as usize] > p {
                return;
            }
            match edges.items[mark..].iter_mut().find(|i| i.0 == c) {
                Some(i) => i.1 = i.1.max(p),
                None => edges.items.push((c, p)),
            }
        };
        for a in aps {
            let loc = a.loc.index();
            let at = &mut seen.locs[loc];
            if !std::mem::replace(&mut at.touched, true) {
                let predecessors: &[LocId] = reuse.as_ref().map_or(&[], |r| r.of(a.loc));
                for p in predecessors {
                    let before = seen.locs[p.index()];
                    need(before.writer.0, before.writer.1);
                    seen.for_each_reader(before.readers, &mut need);
                }
                if !predecessors.is_empty() {
                    seen.write(loc, own as u32, position);
                }
            }
            let Seen { writer: (c, p), readers, .. } = seen.locs[loc];
            if p != position {
                need(c, p);
            }
            if a.output == 1 {
                seen.for_each_reader(readers, |c, p| {
                    if p != position {
                        need(c, p);
                    }
                });
            }
        }
        for &(c, p) in &edges.items[mark..] {
            edges.awaited[p as usize] = true;
            known[c as usize] = p + 1;
        }
        for a in aps.iter().filter(|a| a.output == 0) {
            seen.read(a.loc.index(), own as u32, position);
        }
        for a in aps.iter().take(o.outputs as usize) {
            seen.write(a.loc.index(), own as u32, position);
        }
    }
    edges.starts.push(edges.items.len() as u32);
    commands.insert_resource(edges);
}
