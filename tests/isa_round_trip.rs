//! One valid record per opcode, written as text, and random valid records grown from them: text, bytes, typed values
//! and a naive second decoder must all agree.

mod naive;

use murre::components::isa::field::Kind;
use murre::components::isa::names::OPCODES;
use murre::components::isa::record::{decode_record, shape_of};
use murre::components::isa::{Addr4, AddrMode, assemble, decode, disassemble, encode};
use murre::components::program::Record;
use naive::Fields;
use proptest::prelude::*;

/// A record of every opcode; several where a layout has more than one face.
const LINES: &[&str] = &[
    "LoadStationary weights=bf16@sbuf:p0+0x100[1,64] rows=128 columns=64 row_group=0xf column_group=0x3",
    "MultiplyMoving moving=fp32@sbuf:p0+0x400[1,512] fp32_mode=low_high rows=128 columns=64 psum=single row_group=0xf column_group=0xf dst=none@psum:p0 b1+0x0[1,512]",
    "Activate cmd=reset_reduce src=fp32@psum:p0 b1+0x0[1,512] bias_dtype=fp32 channels=64 func=exp scale=fp32(0.125) bias=[fp32@sbuf:p0+0x80] dst=bf16@sbuf:p0+0x2000[1,512]",
    "Activate src=fp32@sbuf:p0+0x0[1,8] bias_dtype=bf16 channels=64 func=prelu scale=$r4 bias=fp32(0) alpha=fp32(-0.5) dst=fp32@sbuf:p0+0x2000[1,8]",
    "LoadActFuncSet set=9",
    "ActReadAccumulator channels=128 dst=fp32@sbuf:p0+0x40[1,1]",
    "DveReadAccumulator negate=1 channels=128 dst=fp32@sbuf:p0+0x40[1,1]",
    "TensorTensor wait=s3>=7 op=add channels=128 src0=bf16@sbuf:p0+0x2000[1,64; 64,8] src1=fp32@sbuf:p0+0x3000[1,64; 0,8] dst=fp32@sbuf:p0+0x4000[1,64; 64,8]",
    "TensorTensor op=int_add channels=2 src0=i32@sbuf:p0+0x0[1,4] src1=i32@sbuf:p0+0x0[1,4] dst=i32@sbuf:p0+0x0[1,4]",
    "TensorTensorBitvec op=bitwise_and channels=2 src0=u8@sbuf:p0+0x0[1,4] src1=u8@sbuf:p0+0x0[1,4] dst=u8@sbuf:p0+0x0[1,4]",
    "CopyPredicated channels=2 src0=u8@sbuf:p0+0x0[1,4] src1=bf16@sbuf:p0+0x0[1,4] dst=bf16@sbuf:p0+0x0[1,4]",
    "CopyPredicatedCast channels=2 src0=u8@sbuf:p0+0x0[1,4] src1=bf16@sbuf:p0+0x0[1,4] dst=fp32@sbuf:p0+0x0[1,4]",
    "TensorReduce src=fp32@sbuf:p0+0x4000[1,64; 64,8] channels=128 op=max axis=X dst=fp32@sbuf:p0+0x8000[1,8]",
    "TensorReduceBitvec src=u32@sbuf:p0+0x4000[1,64; 64,8] channels=128 op=bitwise_or axis=XY dst=u32@sbuf:p0+0x8000[1,1]",
    "Copy src=u16@sbuf:p0+0x800[index sbuf:p0+0x20; 96] channels=16 dst=u16@$r17[1,96]",
    "Copy src=fp32@sbuf:p32+0x800[3,5; 0,2] channels=16 dst=fp32@psum:p0 b3+0x10[1,10]",
    "Cast update=s6+1 src=bf16@sbuf:p0+0x7000[1,256] channels=128 dst=fp32@sbuf:p0+0x7400[1,256]",
    "Reciprocal src=bf16@sbuf:p0+0x7000[1,256] channels=128 dst=fp32@sbuf:p0+0x7400[1,256]",
    "StreamShuffle src=bf16@sbuf:p0+0x7000[1,256] channels=64 dst=bf16@sbuf:p0+0x7400[1,256]",
    "StreamTranspose src=fp32@sbuf:p0+0x7000[1,64] channels=32 mask=1 dst=fp32@sbuf:p0+0x7400[1,64]",
    "TensorScalar src=bf16@sbuf:p0+0x2000[1,512] channels=64 op0=mult op1=add imm0=fp32(2) imm1=[fp32@sbuf:p0+0x90] dst=fp32@sbuf:p0+0x3000[1,512]",
    "TensorScalarBitvec src=u8@sbuf:p0+0x2000[1,8] channels=64 op0=bitwise_and op1=bitwise_or reverse=second imm0=0xf imm1=[sbuf:p0+0x4] dst=u8@sbuf:p0+0x3000[1,8]",
    "TensorScalarReduce cmd=reset_reduce src=bf16@sbuf:p0+0x0[1,8] channels=64 op0=mult op1=add imm0=fp32(2) dst=fp32@sbuf:p0+0x3000[1,8]",
    "TensorScalarCumulative cmd=load_reduce src=bf16@sbuf:p0+0x0[1,8] channels=64 op0=mult op1=max imm0=$r9 imm1=fp32(-inf) dst=fp32@sbuf:p0+0x3000[1,8]",
    "ScalarTensorTensor src0=fp32@sbuf:p0+0x0[1,8] src1=bf16@sbuf:p0+0x100[1,8] op0=subtract op1=mult reverse=first channels=128 imm0_dtype=fp32 cmd=reduce dst=fp32@sbuf:p0+0x200[1,8] imm0=fp32(1)",
    "ScalarTensorTensorBitvec src0=i16@sbuf:p0+0x0[1,8] src1=i16@sbuf:p0+0x100[1,8] op0=bitwise_xor op1=bitwise_and channels=128 imm0_dtype=i16 dst=i16@sbuf:p0+0x200[1,8] imm0=0xff",
    "TensorTensorScan src0=fp32@sbuf:p0+0x0[1,8] src1=bf16@sbuf:p0+0x100[1,8] op0=mult op1=add channels=128 imm0_dtype=fp32 dst=fp32@sbuf:p0+0x200[1,8]",
    "SelectReduce src0=u8@sbuf:p0+0x0[1,8] src1=bf16@sbuf:p0+0x100[1,8] op1=max channels=128 imm0_dtype=fp32 dst=fp32@sbuf:p0+0x200[1,8] imm0=fp32(1e-30)",
    "TensorScalarAddr src=u32@sbuf:p0+0x0[1,8] imm0=0x400 imm1=0x123456789abcdef0 imm0_dtype=u32 imm1_dtype=u64 op0=mult op1=add channels=128 dst=u64@sbuf:p0+0x100[1,8]",
    "CopyPredicatedScalar predicate=u8@sbuf:p0+0x0[1,4] reversed=1 channels=8 in_dtype=fp32 value=fp32(7) dst=fp32@sbuf:p0+0x40[1,4]",
    "AffineSelect channels=128 compare=ge fill=$r5 steps=[-1] counts=[128,1,1,1] src=fp32@sbuf:p0+0x6000[1,128] dst=fp32@sbuf:p0+0x6400[1,128] multiplier=1",
    "RangeSelect channels=128 cmd=reduce reduce_op=max base=4 fill=0xff7fffff src=fp32@sbuf:p0+0x0[1,5] cmp0=is_ge cmp1=is_lt bound0=fp32(5) bound1=[fp32@sbuf:p0+0x80] dst=fp32@sbuf:p0+0x40[1,5]",
    "Dropout src=fp32@sbuf:p0+0x0[1,5] channels=128 kind=keep threshold=fp32(0.25) dst=fp32@sbuf:p0+0x40[1,5]",
    "LoadMaskSelect mask=[1,0,255,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31]",
    "Pool src=fp32@sbuf:p0+0x0[1,2; 8,2; 2,4] channels=128 kind=avg axis=XY scale=0.25 dst=fp32@sbuf:p0+0x400[1,4]",
    "CrossReduce src=fp32@sbuf:p0+0x0[1,4] channels=128 axis=partitions scale=1 dst=fp32@sbuf:p0+0x400[1,4]",
    "CrossReduceBitvec src=u32@sbuf:p0+0x0[1,4] channels=128 op=xor dst=u32@sbuf:p0+0x400[1,1]",
    "Memset count=256 channels=128 value=0x3f80 dst=bf16@sbuf:p0+0x7000[1,256]",
    "Rng count=12 channels=128 dst=u32@sbuf:p0+0x7000[1,4; 4,3]",
    "Iota steps=[1] counts=[64,1,1,1] channels=128 multiplier=64 dst=i32@sbuf:p0+0x5000[1,64]",
    "BNStats src=fp32@sbuf:p0+0x0[1,5] channels=128 even=3 odd=2 dst=fp32@sbuf:p0+0x100[1,6]",
    "BNAggr src=fp32@sbuf:p0+0x0[1,6] channels=128 dst=fp32@sbuf:p0+0x100[1,2]",
    "Max8 src=fp32@sbuf:p0+0x0[1,100] channels=128 dst=fp32@sbuf:p0+0x100[1,8]",
    "FindIndex8 src=fp32@sbuf:p0+0x0[1,100] channels=128 dst=u32@sbuf:p0+0x100[1,8]",
    "MatchValueLoad src=fp32@sbuf:p0+0x100[1,8] channels=128",
    "MatchReplace8 src=fp32@sbuf:p0+0x0[1,100] channels=128 replacement=-1 dst=fp32@sbuf:p0+0x400[1,100]",
    "PoolBufferLoad src=bf16@sbuf:p0+0x0[1,512] channels=128 start=1024 mask=0x1ff",
    "Gather index=u16@sbuf:p0+0x0[1,64] channels=128 miss=skip free_buffer=1 immediate=0x3f800000 dst=bf16@sbuf:p0+0x400[1,64]",
    "Rand2 channels=128 min=fp32(-1) max=[fp32@sbuf:p0+0x80] dst=fp32@sbuf:p0+0x400[1,64]",
    "RandGetState channels=128 dst=u32@sbuf:p0+0x400[1,24]",
    "RandSetState seeds=u32@sbuf:p0+0x400[1,24] channels=128",
    "EventSemaphore wait=s1>=2 wait1_mode=ge_reg wait1_id=3 update_mode=sub update_id=4 wait1_value=7 update_value=9",
    "Halt",
    "NoOp wait=e9:set_clear update=e200:set",
    "Return",
    "AllEngineBarrier",
    "Drain count=1",
    "RegisterMove count=1 dtype=i32 source=imm dst=[3] imm=[0xa]",
    "RegisterMove count=2 dtype=u32 src=[7,129] dst=[3,4]",
    "RegisterAlu op=mult dtype=i32 source=imm src0=$r3 dst=$r4 imm=0x4",
    "RegisterAlu op=add dtype=u64 src0=$r4 src0_high=$r5 src1=$r6 src1_high=$r7 dst=$r8 dst_high=$r9",
    "Branch compare=lt_reg dtype=i32 left=$r3 right=$r4 target=17",
    "BranchHint target=5",
    "GroupResetSemaphores kind=range first=3 last=200",
    "GroupResetSemaphores kind=mask mask=[0xff,0x1]",
    "CoreBarrier id=4 index=1",
    "Call name=\"a function\" arguments=3",
    "Exit",
    "TensorLoad dtype=i32 num=[1,1] variable=70000 offset=64 step=[1,-1] data=$r5",
    "TensorSave dtype=u64 num=[2,1] variable=3 step=[1] data=$r5 data_high=$r6",
    "TensorLoadRegister dtype=i32 num=[1,1] address=$r8 address_high=$r9 step=[1] data=$r5",
    "TensorSaveRegister dtype=i32 num=[1,1] address=$r8 step=[1] data=$r5",
    "DmaDirect semaphore=7 increment=16 src=var3+0x40 src_step=[128] src_num=[4,1] src_row=64 dst=sbuf:p0+0x4000 dst_step=[262144] dst_num=[4,1] dst_row=64 src_dtype=bf16 dst_dtype=bf16",
    "DmaDirect priority=2 dge_op=indirect src=table2+$r6:$r7 src_num=[1,1] src_row=65536 src_bound=$r9:quiet dst_bound=$r0 dst=table1+$r5 dst_num=[1,1] dst_row=65536 src_dtype=fp32 dst_dtype=fp32",
    "DmaDirect src=table2+0x1234:shape src_row=4 dst=$r4:$r5 dst_num=[1,1] dst_row=4 src_dtype=fp32 dst_dtype=bf16",
    "DmaExtension flags=0x26 index_channels=128 compute=add src_index=sbuf:p0+0x40 src_bound_low=4096 tile_step=-3 tile_rows=16 tile_columns=128 dst_bound_high=1",
    "DmaTrigger update=s6+1 queue=\"queue 0\" block=12",
    "SwitchQueue queue=\"q\" no_rearm=1",
    "ResetQueue queue=\"q\"",
];

fn samples() -> Vec<Record> {
    LINES.iter().map(|l| assemble(l).unwrap_or_else(|d| panic!("{l}\n{d:?}"))).collect()
}

/// The typed values of a record, as the naive decoder names them.
fn typed(r: &Record) -> Fields {
    let (instr, events) = decode(r).expect("a valid record");
    let mut out = Fields::new();
    naive::flat::flatten(&format!("{instr:?}"), "", &mut out);
    if r[0] != 0xDA {
        naive::flat::flatten(&format!("{events:?}"), "event", &mut out);
    }
    out
}

/// All that must hold of a valid record.
fn agree(r: &Record) {
    let (instr, events) = decode(r).expect("a valid record");
    assert_eq!(encode(&instr, &events), *r, "{r:02x?}");
    let text = disassemble(r);
    assert_eq!(assemble(&text).unwrap_or_else(|d| panic!("{text}\n{d:?}")), *r, "{text}");
    assert_eq!(naive::decode(r).unwrap_or_else(|e| panic!("{text}\n{e}")), typed(r), "{text}");
    naive::words(r).unwrap().into_iter().for_each(|(_, w)| words_agree(w));
}

fn words_agree(w: u32) {
    use murre::components::isa::addr4::{SHAPE_REGISTER, Space, space_of};
    let (real, naive) = (Addr4::from_word(w), naive::word(w));
    assert_eq!(real.is_ok(), naive.is_ok(), "{w:#010x}");
    let (Ok(real), Ok(naive)) = (real, naive) else { return };
    let get = |k| naive.get(k).map(|v| *v as u32);
    let (address, register, gather) = match real.mode() {
        AddrMode::Static { address } | AddrMode::ShapeRegister { address } => (Some(address), None, 0),
        AddrMode::Indirect { address } => (Some(address), None, 1),
        AddrMode::Register { register } | AddrMode::RegisterShape { register } => {
            (None, Some(register as u32), 0)
        }
        AddrMode::IndirectRegister { register } => (None, Some(register as u32), 1),
        AddrMode::Dead => panic!("{w:#010x} passed"),
    };
    assert_eq!(
        (get("address"), get("register"), get("gather")),
        (address, register, Some(gather)),
        "{w:#010x}"
    );
    assert_eq!(get("shape"), Some((w & SHAPE_REGISTER != 0) as u32), "{w:#010x}");
    if let Some(a) = address {
        let want = match space_of(a) {
            Space::Sbuf { partition, offset } => (Some(0), Some(partition), None, Some(offset)),
            Space::Psum { partition, bank, offset } => (Some(1), Some(partition), Some(bank), Some(offset)),
            Space::Outside => (Some(2), None, None, None),
        };
        assert_eq!((get("space"), get("partition"), get("bank"), get("offset")), want, "{w:#010x}");
    }
}

#[test]
fn every_opcode_has_a_sample_and_all_views_agree_on_it() {
    let samples = samples();
    for (code, name) in OPCODES {
        assert!(samples.iter().any(|r| r[0] == *code), "{name} has no sample");
    }
    for (r, line) in samples.iter().zip(LINES) {
        assert_eq!(disassemble(r), *line);
        agree(r);
    }
}

/// A change to a record. Most random changes make it illegal; those are taken back.
#[derive(Clone, Debug)]
enum Change {
    Byte(usize, u8),
    Bit(usize, u8),
    /// Swaps two 16-bit numbers: permutes the dims of a slot.
    Swap(usize, usize),
    /// Replaces every 16-bit number of one value: changes a count wherever it stands.
    Everywhere(usize, u16),
    /// Replaces every byte of one value: changes a dtype wherever it stands.
    EveryByte(usize, u8),
    Word(usize, u32),
    /// A whole event field.
    Events([u8; 4], u32),
}

fn apply(r: &mut Record, c: &Change) {
    match *c {
        Change::Byte(i, v) => r[i] = v,
        Change::Bit(i, b) => r[i] ^= 1 << b,
        Change::Swap(i, j) => (0..2).for_each(|k| r.swap(i + k, j + k)),
        Change::Everywhere(i, v) => {
            let old = [r[i], r[i + 1]];
            for k in (12..64).step_by(2).filter(|k| [r[*k], r[*k + 1]] == old).collect::<Vec<_>>() {
                r[k..k + 2].copy_from_slice(&v.to_le_bytes());
            }
        }
        Change::EveryByte(i, v) => {
            let old = r[i];
            r[12..].iter_mut().filter(|b| **b == old).for_each(|b| *b = v);
        }
        Change::Word(i, v) => r[i..i + 4].copy_from_slice(&v.to_le_bytes()),
        Change::Events(modes, v) => {
            r[4..8].copy_from_slice(&modes);
            r[8..12].copy_from_slice(&v.to_le_bytes());
        }
    }
}

fn address() -> impl Strategy<Value = u32> {
    prop_oneof![
        (0u32..128, 0u32..0x40000).prop_map(|(p, o)| p << 18 | (o & !7)),
        (0u32..128, 0u32..8, 0u32..0x800)
            .prop_map(|(p, b, o)| 0x0200_0000 + (p << 15) + (b << 11) + (o & !7)),
        (0u32..64).prop_map(|id| 0x8000_0000 | id),
        (0u32..64).prop_map(|id| 0xC000_0000 | id),
        (0u32..0x0200_0000).prop_map(|a| a | 0x4000_0000),
        (0u32..0x0200_0000).prop_map(|a| (a & !3) | 0x2000_0000),
        any::<f32>().prop_map(f32::to_bits),
        any::<u32>(),
    ]
}

fn change() -> impl Strategy<Value = Change> {
    let at16 = || (6usize..32).prop_map(|i| 2 * i);
    let byte = || prop_oneof![0u8..17, any::<u8>()];
    let wait = prop::sample::select(vec![0u8, 1, 2, 3, 4, 5, 6, 7, 14, 15, 0x81, 0x82, 0x83, 0x84, 0x85]);
    let update =
        prop::sample::select(vec![0u8, 1, 2, 3, 4, 5, 7, 9, 0x11, 0x12, 0x13, 0x14, 0x15, 0x17, 0x19]);
    prop_oneof![
        4 => (1usize..64, byte()).prop_map(|(i, v)| Change::Byte(i, v)),
        2 => (1usize..64, 0u8..8).prop_map(|(i, b)| Change::Bit(i, b)),
        2 => (at16(), at16()).prop_map(|(i, j)| Change::Swap(i, j)),
        2 => (at16(), prop_oneof![1u16..600, any::<u16>()]).prop_map(|(i, v)| Change::Everywhere(i, v)),
        2 => (12usize..64, byte()).prop_map(|(i, v)| Change::EveryByte(i, v)),
        4 => ((1usize..16).prop_map(|i| 4 * i), address()).prop_map(|(i, v)| Change::Word(i, v)),
        1 => (wait, any::<u8>(), update, any::<u8>(), any::<u32>())
            .prop_map(|(w, i, u, j, v)| Change::Events([w, i, u, j], v)),
    ]
}

/// A sample with every change that keeps it valid.
fn grown(mut r: Record, changes: &[Change]) -> Record {
    for c in changes {
        let mut next = r;
        apply(&mut next, c);
        if next[0] == r[0] && decode_record(&next).is_ok() {
            r = next;
        }
    }
    r
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn random_valid_records_agree(which in 0..LINES.len(), changes in prop::collection::vec(change(), 1..48)) {
        agree(&grown(assemble(LINES[which]).unwrap(), &changes));
    }

    #[test]
    fn random_words_agree(w in prop_oneof![any::<u32>(), address()]) {
        words_agree(w);
    }

    /// Bytes that are no record never panic, never lose anything in text, and the naive decoder never refuses what the
    /// real one takes.
    #[test]
    fn random_bytes_are_printed_and_read_back(which in 0..LINES.len(), changes in prop::collection::vec(change(), 1..4)) {
        let mut r = assemble(LINES[which]).unwrap();
        changes.iter().for_each(|c| apply(&mut r, c));
        prop_assert_eq!(assemble(&disassemble(&r)).ok(), Some(r));
        match decode(&r) {
            Ok(_) => agree(&r),
            // What the real decoder alone may refuse is the value of a field, never the layout.
            Err(d) => prop_assert!(
                naive::decode(&r).is_err()
                    || ["MUR0803", "MUR0804", "MUR0807", "MUR0811", "MUR0818", "MUR0819"].contains(&d.code.id),
                "{:?}\n{:02x?}", d, r
            ),
        }
    }

    #[test]
    fn random_text_never_panics(text in "(NoOp|Cast|DmaDirect|Call|.raw)( [a-z_]{1,8}=[ -~é]{0,20}){0,4}") {
        let _ = assemble(&text);
    }
}

/// The changes reach what they should: over all samples, some field of every kind changes.
#[test]
fn growth_moves_most_fields() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let strategy = prop::collection::vec(change(), 400);
    let (mut moved, mut all) = (0, 0);
    for (r, line) in samples().iter().zip(LINES) {
        let fields = shape_of(r[0]).unwrap().fields;
        let mut seen = vec![false; fields.len()];
        for _ in 0..12 {
            let g = grown(*r, &strategy.new_tree(&mut runner).unwrap().current());
            for (f, s) in fields.iter().zip(&mut seen) {
                let range = f.place.at as usize..(f.place.at + f.bytes) as usize;
                *s |= g[range.clone()] != r[range];
            }
        }
        moved += seen.iter().filter(|s| **s).count();
        all += seen.len();
        let still: Vec<&str> = fields
            .iter()
            .zip(&seen)
            .filter(|(f, s)| !**s && matches!(f.kind, Kind::Tensor(..) | Kind::Addr8))
            .map(|(f, _)| f.key)
            .collect();
        assert!(still.is_empty(), "{line}: {still:?} never changed");
    }
    assert!(moved * 10 >= all * 8, "{moved} of {all} fields change");
}
