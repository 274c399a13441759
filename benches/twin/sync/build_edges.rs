//! Finds what each instruction has to wait for.

use crate::twin::graph::{Location, Program};
use crate::twin::pass::Pass;
use murre_systems::sync::ENGINES;

/// The pass.
pub struct BuildEdges;

impl Location {
    fn read(&self, channel: u32, position: u32) {
        let mut readers = self.readers.borrow_mut();
        match readers.iter_mut().find(|r| r.0 == channel) {
            Some(reader) => reader.1 = position,
            None => readers.push((channel, position)),
        }
    }

    fn write(&self, channel: u32, position: u32) {
        self.readers.borrow_mut().clear();
        self.writer.set(Some((channel, position)));
    }
}

impl Pass for BuildEdges {
    fn name(&self) -> &'static str {
        "build_edges"
    }

    fn run(&self, program: &mut Program) {
        let channels = ENGINES + program.queues.len();
        let mut known = vec![0u32; ENGINES * channels];
        let mut starts = program.starts.iter().copied().peekable();
        let mut block_start = 0;
        for (position, instruction) in (0u32..).zip(&program.instructions) {
            while let Some(start) = starts.next_if(|s| *s <= position) {
                block_start = start;
            }
            if instruction.operands.is_empty() {
                continue;
            }
            let Some((engine, own)) = instruction.channel() else {
                program.faults.push("an access without an engine or a queue".into());
                continue;
            };
            let mut waits = instruction.waits.borrow_mut();
            let mut need = |(c, p): (u32, u32)| {
                let channel = c as usize;
                if p < block_start
                    || channel == own
                    || channel == engine
                    || known[engine * channels + channel] > p
                {
                    return;
                }
                match waits.iter_mut().find(|w| w.0 == c) {
                    Some(wait) => wait.1 = wait.1.max(p),
                    None => waits.push((c, p)),
                }
            };
            for operand in &instruction.operands {
                let location = &operand.location;
                if !location.touched.replace(true) {
                    let before = location.before.borrow();
                    for earlier in before.iter().filter_map(|l| l.upgrade()) {
                        earlier.writer.get().into_iter().for_each(&mut need);
                        earlier.readers.borrow().iter().rev().copied().for_each(&mut need);
                    }
                    if !before.is_empty() {
                        location.write(own as u32, position);
                    }
                }
                location.writer.get().into_iter().filter(|w| w.1 != position).for_each(&mut need);
                if operand.output {
                    let readers = location.readers.borrow();
                    readers.iter().rev().copied().filter(|r| r.1 != position).for_each(&mut need);
                }
            }
            for &(c, p) in waits.iter() {
                program.instructions[p as usize].awaited.set(true);
                known[engine * channels + c as usize] = p + 1;
            }
            for operand in instruction.operands.iter().filter(|o| !o.output) {
                operand.location.read(own as u32, position);
            }
            for operand in instruction.operands.iter().filter(|o| o.output) {
                operand.location.write(own as u32, position);
            }
        }
    }
}
