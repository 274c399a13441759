//! The independent checker of descriptor coverage. For every copy it walks the access patterns element by element and
//! the descriptors of all its blocks likewise, and compares the two multisets of (source byte, destination byte)
//! pairs. Copies past [`ENUMERATED`] elements are compared by closed forms: number of elements, sum, least and
//! greatest address of each side. It shares no code with the lowering. Facts: `spec/ir.md 9.6`, `spec/isa.md 4.3`.

use super::split_large_dmas::BlockRoots;
use crate::columns;
use crate::route::blame;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::{Diagnostics, codes::lower};
use murre_components::hlo::HloModule;
use murre_components::ids::DescId;

/// Largest copy that is walked element by element.
pub const ENUMERATED: u64 = 4096;

/// A side as nested loops: address of element (i, j, ..) is `base + i * step + ..` bytes.
struct Loops {
    space: u32,
    base: i128,
    dims: Vec<(i128, u64)>,
}

impl Loops {
    fn of_pattern(head: &ApHead, pattern: &ApPattern, loc: &LocHead, place: &LocPlace) -> Option<Loops> {
        let bytes = i128::from(head.dtype.bytes());
        if loc.space == Space::Dram {
            let dims = pattern.0.iter().map(|p| (i128::from(p.step) * bytes, u64::from(p.num))).collect();
            return Some(Loops { space: place.address, base: i128::from(head.offset) * bytes, dims });
        }
        let width = i128::from(loc.part_elems) * i128::from(loc.dtype.bytes()) / bytes;
        if width == 0 || loc.space != Space::Sbuf {
            return None;
        }
        let linear = |e: i128| (e / width) * 0x40000 + (e % width) * bytes;
        let dims = pattern.0.iter().map(|p| (linear(i128::from(p.step)), u64::from(p.num))).collect();
        let base = linear(i128::from(head.offset)) + i128::from(place.address);
        Some(Loops { space: u32::MAX, base, dims })
    }

    /// Elements of `bytes` bytes; `None` when the run is not a whole number of them.
    fn of_side(s: &DescSide, bytes: u64) -> Option<Loops> {
        if s.run == 0 || !u64::from(s.run).is_multiple_of(bytes) {
            return None;
        }
        let dims = vec![
            (i128::from(s.step1), u64::from(s.num1)),
            (i128::from(s.step0), u64::from(s.num0)),
            (i128::from(bytes), u64::from(s.run) / bytes),
        ];
        Some(Loops { space: s.var, base: i128::from(s.base), dims })
    }

    fn count(&self) -> u64 {
        self.dims.iter().map(|d| d.1).product()
    }

    fn summary(&self) -> Summary {
        let n = i128::from(self.count());
        let mut s =
            Summary { count: self.count(), sum: n * self.base, least: self.base, greatest: self.base };
        for (step, num) in self.dims.iter().filter(|d| d.1 > 0) {
            let last = step * (i128::from(*num) - 1);
            s.sum += n / i128::from(*num) * (last * i128::from(*num) / 2);
            (s.least, s.greatest) = (s.least + last.min(0), s.greatest + last.max(0));
        }
        s
    }

    fn addresses(&self) -> Vec<i128> {
        let mut all = vec![self.base];
        for (step, num) in &self.dims {
            all = all.iter().flat_map(|a| (0..*num).map(move |i| a + step * i128::from(i))).collect();
        }
        all
    }
}

#[derive(PartialEq, Eq, Debug, Clone, Copy)]
struct Summary {
    count: u64,
    sum: i128,
    least: i128,
    greatest: i128,
}

fn join(a: Option<Summary>, b: Summary) -> Option<Summary> {
    Some(a.map_or(b, |a| Summary {
        count: a.count + b.count,
        sum: a.sum + b.sum,
        least: a.least.min(b.least),
        greatest: a.greatest.max(b.greatest),
    }))
}

/// What differs between a copy and its descriptors, if anything.
fn difference(
    pattern: (&Loops, &Loops),
    descs: &[(&DescSide, &DescSide)],
    bytes: (u64, u64),
) -> Option<String> {
    let (mut moved, mut sums) = (Vec::new(), (None, None));
    let small = pattern.0.count() <= ENUMERATED;
    for (src, dst) in descs {
        let (Some(s), Some(d)) = (Loops::of_side(src, bytes.0), Loops::of_side(dst, bytes.1)) else {
            return Some("a run is not a whole number of elements".into());
        };
        if (s.space, d.space) != (pattern.0.space, pattern.1.space) {
            return Some("a descriptor names another variable or space".into());
        }
        if s.count() != d.count() || src.run > 65_536 || dst.run > 65_536 {
            return Some("a descriptor's sides differ in elements, or a run is too long".into());
        }
        if small && moved.len() as u64 + s.count() <= ENUMERATED {
            moved.extend(s.addresses().into_iter().zip(d.addresses()));
        }
        sums = (join(sums.0, s.summary()), join(sums.1, d.summary()));
    }
    let expected = (Some(pattern.0.summary()), Some(pattern.1.summary()));
    if sums != expected {
        return Some(format!("{sums:?} instead of {expected:?}"));
    }
    if small {
        let mut wanted: Vec<_> = pattern.0.addresses().into_iter().zip(pattern.1.addresses()).collect();
        wanted.sort_unstable();
        moved.sort_unstable();
        if wanted != moved {
            return Some("elements go to other places".into());
        }
    }
    None
}

/// Whether the descriptors of a block do what its family says: only a replication reads a row again, and only copies
/// and replications have descriptors at all. `srcs`, `dsts`: from the block's first descriptor on.
fn family_holds(block: &BlockHead, srcs: &[DescSrc], dsts: &[DescDst]) -> bool {
    let again = |n: u16, src: i32, dst: i32| n > 1 && src == 0 && dst != 0;
    let replicates = |(s, d): (&DescSrc, &DescDst)| {
        again(s.0.num0, s.0.step0, d.0.step0) || again(s.0.num1, s.0.step1, d.0.step1)
    };
    match block.family {
        DmaFamily::Replicate => true,
        DmaFamily::Copy => !srcs.iter().zip(dsts).take(block.count as usize).any(replicates),
        DmaFamily::Transpose | DmaFamily::Cce | DmaFamily::ReadVarAddr => false,
    }
}

/// The system.
pub fn verify_describe(
    insts: Query<(&InstHead, &InstOperands, &InstFrom)>,
    dmas: Res<InstDmas>,
    aps: Query<(&ApHead, &ApPattern)>,
    locs: Query<(&LocHead, &LocPlace)>,
    blocks: Query<&BlockHead>,
    descs: Query<(&DescHead, &DescSrc, &DescDst)>,
    roots: Res<BlockRoots>,
    module: Res<HloModule>,
    sink: Res<Diagnostics>,
) {
    let (heads, operands, from) = columns!(insts);
    let (ap, patterns) = columns!(aps);
    let (loc, place) = columns!(locs);
    let blocks = columns!(blocks);
    let (_, srcs, dsts) = columns!(descs);
    let mut pieces = vec![(DescId(0), 0u32); blocks.len()];
    for (b, root) in blocks.iter().zip(&roots.0) {
        if let Some(p) = pieces.get_mut(root.index()) {
            p.0 = if p.1 == 0 { b.first } else { p.0.min(b.first) };
            p.1 += b.count;
        }
    }
    for (k, b) in blocks.iter().enumerate() {
        let (row, hlo) = (b.trigger.index(), from.get(b.trigger.index()).map(|f| f.hlo).unwrap_or_default());
        let bound = heads.get(row).is_some_and(|h| h.op == Opcode::DmaTrigger)
            && dmas.0.get(row).is_some_and(|d| d.block.index() == k && d.queue == b.queue);
        let fault = if !bound {
            Some("the block and its trigger do not name each other".to_string())
        } else if roots.0.get(k).is_none_or(|r| r.index() != k) {
            None
        } else {
            let side = |at: murre_components::ids::ApId| {
                let (head, pattern) = (ap.get(at.index())?, patterns.get(at.index())?);
                let l = head.loc.index();
                Some((
                    Loops::of_pattern(head, pattern, loc.get(l)?, place.get(l)?)?,
                    u64::from(head.dtype.bytes()),
                ))
            };
            let range = pieces[k].0.index()..pieces[k].0.index() + pieces[k].1 as usize;
            match (
                side(operands[row].input(0)),
                side(operands[row].output(0)),
                srcs.get(range.clone()),
                dsts.get(range),
            ) {
                (Some((s, sb)), Some((d, db)), Some(srcs), Some(dsts)) => {
                    let pairs: Vec<_> = srcs.iter().zip(dsts).map(|(s, d)| (&s.0, &d.0)).collect();
                    difference((&s, &d), &pairs, (sb, db))
                }
                _ => Some("a side has no address".into()),
            }
        };
        if bound
            && !family_holds(
                b,
                &srcs[b.first.index().min(srcs.len())..],
                &dsts[b.first.index().min(dsts.len())..],
            )
        {
            let message = format!("DMATrigger {row}, block {k}: {}", lower::BLOCK_FAMILY.title);
            sink.push(blame(&lower::BLOCK_FAMILY, message, &module, hlo, b.trigger));
        }
        if let Some(what) = fault {
            let message = format!("DMATrigger {row}, block {k}: {what}");
            sink.push(blame(&lower::DESCRIBE_COVERAGE, message, &module, hlo, b.trigger));
        }
    }
}
