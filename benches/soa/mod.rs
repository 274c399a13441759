//! The encoder without an ECS: the same columns in vectors of a struct, and two loops over them. In: a finished world,
//! whose columns are copied out. Out: the word of every access pattern and the record of every descriptor.

use bevy_ecs::prelude::World;
use murre_components::bir::*;
use murre_components::isa::dma::RowBytes;
use murre_components::isa::{self, Addr8, BoundRegister, DmaDirect, Events, Fault, addr4_register};
use murre_components::program::Record;
use murre_systems::encode::encode_descriptors::DescriptorRecords;

/// The columns that the two loops read.
pub struct Columns {
    heads: Vec<ApHead>,
    addresses: Vec<u32>,
    spaces: Vec<Space>,
    widths: Vec<u64>,
    places: Vec<u32>,
    colours: Vec<u8>,
    descs: Vec<DescHead>,
    sources: Vec<DescSide>,
    destinations: Vec<DescSide>,
}

/// What is compared.
pub type Encoded = (Vec<u32>, Vec<Record>);

/// What murre's passes wrote.
pub fn result_of(w: &mut World) -> Encoded {
    (w.resource::<ApWords>().0.clone(), w.resource::<DescriptorRecords>().0.clone())
}

impl Columns {
    /// Copies them out of a world.
    pub fn of(w: &mut World) -> Columns {
        Columns {
            heads: w.query::<&ApHead>().iter(w).copied().collect(),
            addresses: w.query::<&ApHead>().iter(w).map(|a| a.dynamic.address.0).collect(),
            spaces: w.query::<&LocHead>().iter(w).map(|l| l.space).collect(),
            widths: w.query::<&LocHead>().iter(w).map(|l| l.part_bytes()).collect(),
            places: w.query::<&LocPlace>().iter(w).map(|p| p.address).collect(),
            colours: w.query::<&RegHead>().iter(w).map(|r| r.colour).collect(),
            descs: w.query::<&DescHead>().iter(w).copied().collect(),
            sources: w.query::<&DescSrc>().iter(w).map(|d| d.0).collect(),
            destinations: w.query::<&DescDst>().iter(w).map(|d| d.0).collect(),
        }
    }

    /// The two loops.
    pub fn encode(&self) -> Encoded {
        let words = self.heads.iter().zip(&self.addresses).map(|(head, address)| self.word(head, *address));
        let sides = self.sources.iter().zip(&self.destinations);
        let records = self.descs.iter().zip(sides).map(|(head, (src, dst))| {
            let record = record(head, src, dst);
            record.unwrap_or([0; 64])
        });
        (words.collect(), records.collect())
    }

    fn word(&self, head: &ApHead, address: u32) -> u32 {
        if head.kind == ApKind::Register {
            let colour = self.colours.get(address as usize).copied().filter(|c| *c < 64);
            return colour.map_or(u32::MAX, |c| addr4_register(u32::from(c)));
        }
        let l = head.loc.index();
        if l >= self.spaces.len() {
            return u32::MAX;
        }
        let (space, place, width) = (self.spaces[l], self.places[l], self.widths[l]);
        if space == Space::Dram {
            return 0;
        }
        if place == u32::MAX || head.kind != ApKind::Physical {
            return u32::MAX;
        }
        let mut byte = u64::from(head.offset) * u64::from(head.dtype.bytes());
        let mut part = 0;
        if byte >= width && width != 0 {
            (part, byte) = (byte / width, byte % width);
        }
        let (shift, base, partition) =
            if space == Space::Psum { (15, 1 << 25, 0x4000) } else { (18, 0, 0x40000) };
        let inside = u64::from(place) + byte;
        if part > 127 || inside >= partition {
            u32::MAX
        } else {
            (part as u32) << shift | base | inside as u32
        }
    }
}

fn address(s: &DescSide) -> Result<Addr8, Fault> {
    if s.var == u32::MAX { Addr8::immediate(u64::from(s.base)) } else { Addr8::variable(s.var, s.base) }
}

/// The record of a descriptor.
pub fn record(head: &DescHead, src: &DescSide, dst: &DescSide) -> Result<Record, Fault> {
    let direct = DmaDirect {
        priority: 0,
        semaphore: head.sem,
        increment: head.sem_inc,
        dge_op: 0,
        src: address(src)?,
        src_step: [src.step0, src.step1],
        src_num: [src.num0, src.num1],
        src_row: RowBytes::new(src.run)?,
        src_bound: BoundRegister::NONE,
        dst_bound: BoundRegister::NONE,
        dst: address(dst)?,
        dst_step: [dst.step0, dst.step1],
        dst_num: [dst.num0, dst.num1],
        dst_row: RowBytes::new(dst.run)?,
        src_dtype: head.src_tag,
        dst_dtype: head.dst_tag,
    };
    Ok(isa::encode(&direct, &Events::NONE))
}
