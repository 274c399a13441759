//! Worked words, slots and records against the encoder and decoder. Bytes come from `spec/isa.md 1.7, 2.3, 3.7, 5.2`
//! and `spec/isa_compute.md 12.5`.

mod naive;

use murre::components::dtype::DType;
use murre::components::isa::field::{Wire, at};
use murre::components::isa::*;
use murre::components::program::Record;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|b| b.is_ascii_hexdigit()).collect();
    digits.chunks(2).map(|c| u8::from_str_radix(std::str::from_utf8(c).unwrap(), 16).unwrap()).collect()
}

fn record(hex: &str) -> Record {
    let mut r = [0; 64];
    let b = bytes(hex);
    r[..b.len()].copy_from_slice(&b);
    r
}

fn slot(x: &impl Wire, len: usize) -> Vec<u8> {
    let mut r = [0; 64];
    x.put(&mut r, at(0));
    r[..len].to_vec()
}

#[test]
fn words() {
    let sbuf = |p, o| Addr4::sbuf(p, o).unwrap();
    let psum = |p, b, o| Addr4::psum(p, b, o).unwrap();
    let cases = [
        (sbuf(0, 0), 0x0000_0000),
        (sbuf(3, 0x100), 0x000C_0100),
        (sbuf(32, 0), 0x0080_0000),
        (sbuf(64, 0x1000), 0x0100_1000),
        (sbuf(127, 0x2FFFC), 0x01FE_FFFC),
        (sbuf(127, 0x37FFC), 0x01FF_7FFC),
        (psum(0, 0, 0), 0x0200_0000),
        (psum(5, 2, 0x40), 0x0202_9040),
        (psum(32, 0, 0), 0x0210_0000),
        (psum(127, 7, 0x7FC), 0x023F_BFFC),
        (Addr4::register(0).unwrap(), 0x8000_0000),
        (Addr4::register(17).unwrap(), 0x8000_0011),
        (Addr4::register(61).unwrap(), 0x8000_003D),
        (Addr4::register(63).unwrap(), 0x8000_003F),
        (sbuf(0, 0x20).indirect().unwrap(), 0x2000_0020),
        (sbuf(32, 0x40).indirect().unwrap(), 0x2080_0040),
        (psum(0, 1, 0).indirect().unwrap(), 0x2200_0800),
        (Addr4::mx_scale(37, 0x80).unwrap().0, 0x0080_0080),
        (Addr4::mx_scale(100, 0x10).unwrap().0, 0x0180_0010),
    ];
    for (a, word) in cases {
        assert_eq!(a.word(), word, "{a:?}");
        assert!(naive::word(word).is_ok(), "{word:#x}");
        assert_eq!(Addr4::from_word(word), Ok(a));
    }
    // Header forms that no encoder writes, with what they mean.
    let modes = [
        (0x4008_0000, AddrMode::ShapeRegister { address: 0x0008_0000 }),
        (0xC000_0005, AddrMode::RegisterShape { register: 5 }),
        (0xA000_0005, AddrMode::IndirectRegister { register: 5 }),
    ];
    for (word, mode) in modes {
        let a = Addr4::from_word(word).unwrap();
        assert_eq!((a.mode(), a.word()), (mode, word));
        assert!(naive::word(word).is_ok());
        assert_eq!(a.indirect().unwrap_err().code.id, "MUR0805", "{word:#x} carries a marker");
    }
    // The last byte says all of a mode (1.1).
    for (word, _) in cases.map(|(_, w)| (w, ())).into_iter().chain(modes.map(|(w, _)| (w, ()))) {
        let byte3 = word.to_le_bytes()[3];
        let mode = Addr4::from_word(word).unwrap().mode();
        let register = matches!(mode, AddrMode::Register { .. } | AddrMode::RegisterShape { .. });
        assert_eq!(byte3 & 0xA0 == 0x80, register, "{word:#x}");
        let gather = matches!(mode, AddrMode::Indirect { .. } | AddrMode::IndirectRegister { .. });
        assert_eq!(byte3 & 0x60 == 0x20, gather, "{word:#x}");
        assert_eq!(byte3 & 0xE0 == 0x20, matches!(mode, AddrMode::Indirect { .. }), "{word:#x}");
        let shaped = matches!(mode, AddrMode::ShapeRegister { .. } | AddrMode::RegisterShape { .. });
        assert_eq!(byte3 & 0x70 == 0x40, shaped, "{word:#x}");
        assert_eq!(byte3 & 0xF0 == 0xA0, matches!(mode, AddrMode::IndirectRegister { .. }), "{word:#x}");
    }
    // What is refused, with its code.
    for (word, code) in [(0x8000_0040, "MUR0807"), (0x600C_0100, "MUR0804"), (0xE000_0005, "MUR0804")] {
        assert_eq!(Addr4::from_word(word).unwrap_err().code.id, code, "{word:#x}");
        assert!(naive::word(word).is_err());
    }
    let n = naive::word(0x0202_9040).unwrap();
    assert_eq!((n["space"], n["partition"], n["bank"], n["offset"]), (1, 5, 2, 0x40));
    let n = naive::word(0x01FF_7FFC).unwrap();
    assert_eq!((n["space"], n["partition"], n["offset"]), (0, 127, 0x37FFC));
    assert!(naive::word(0x8000_0040).is_err() && naive::word(0x600C_0100).is_err());
    assert!(Addr4::from_word(0x8000_0040).is_err());
    assert!(Addr4::from_word(0x600C_0100).is_err());
    assert!(start_address_valid(0x0240_0000, 10, false, true, true, 30).is_err());
}

#[test]
fn slots() {
    let p = |step, num| Pair { step, num };
    let a = Addr4::sbuf(3, 0x100).unwrap();
    let t1 = Tensor::<1>::pack(a, &[p(1, 512)]).unwrap();
    assert_eq!(slot(&t1, 8), bytes("00 01 0c 00 01 00 00 02"));
    let t3 = Tensor::<3>::pack(a, &[p(64, 8), p(1, 64)]).unwrap();
    assert_eq!(slot(&t3, 16), bytes("00 01 0c 00 01 00 40 00 01 00 40 00 08 00 01 00"));
    let t4 = Tensor::<4>::pack(Addr4::psum(0, 0, 0).unwrap(), &[p(16, 4), p(1, 16)]).unwrap();
    assert_eq!(slot(&t4, 20), bytes("00 00 00 02 01 00 10 00 01 00 01 00 10 00 04 00 01 00 01 00"));
    let tr = Tensor::<3>::pack(Addr4::register(17).unwrap(), &[p(1, 64)]).unwrap();
    assert_eq!(slot(&tr, 16), bytes("11 00 00 80 01 00 01 00 01 00 40 00 01 00 01 00"));

    let g = Gather::new(Addr4::sbuf(0, 0x20).unwrap(), Addr4::sbuf(0, 0x800).unwrap(), 96).unwrap();
    let want = bytes("20 00 00 20 00 08 00 00 60 00 00 00 00 00 00 00 00 00 00 00");
    assert_eq!(slot(&Operand::<3>::Gather(g), 16), want[..16]);
    assert_eq!(slot(&Operand::<4>::Gather(g), 20), want);
    let (i, d) = (Addr4::sbuf(32, 0x40).unwrap(), Addr4::sbuf(32, 0x800).unwrap());
    let mx = MxGather::new(i, d, (36, 0x2000), 24, DType::F8E4M3FnX4).unwrap();
    assert_eq!(slot(&mx, 16), bytes("40 00 80 20 00 08 80 00 00 20 80 00 60 00 00 04"));
    let n = naive::gather(&slot(&mx, 16), true);
    let fields = [n["index"], n["data"], n["scale"], n["count"], n["scale_partition"]];
    let want = [mx.index, mx.data, mx.scale].map(|a| a.word() as i64);
    assert_eq!(fields, [want[0], want[1], want[2], mx.count as i64, mx.scale_partition as i64]);
    let n = naive::gather(&slot(&Operand::<4>::Gather(g), 20), false);
    let want = [g.index.word() as i64, g.data.word() as i64, g.count as i64];
    assert_eq!([n["index"], n["data"], n["count"]], want);
}

const RECORDS: &[(&str, &str)] = &[
    (
        "LoadStationary",
        "01100000 00000000 00000000 00000000 00010000 01000100 01004000 01000100
      06000000 00008040 00000000 0f030000 00000000 00000000 00000000 00000000",
    ),
    (
        "MultiplyMoving",
        "02100000 00000000 00000000 00000000 00040000 01000100 01000002 01000100
      06000000 00008040 00000003 0f030000 00080002 01000100 01000002 01000100",
    ),
    (
        "Activate",
        "21100000 00000000 00000000 00000300 00080002 01000100 01000002 01000100
      aa064007 0000003e 80000000 00000000 00200000 01000100 01000002 01000100",
    ),
    (
        "TensorScalar",
        "43100000 00000000 00000000 00000000 00200000 01000100 01000002 01000100
      060a4000 06040001 00000040 90000000 00300000 01000100 01000002 01000100",
    ),
    (
        "TensorTensor",
        "41100000 00000000 00000000 a60a0480 00200000 01004000 01004000 08000100
      00300000 01000000 01004000 08000100 00400000 01004000 01004000 08000100",
    ),
    (
        "TensorReduce",
        "42100000 00000000 00000000 00400000 01004000 01000100 40000800 01000100
      0a0a8000 08020000 00000000 80000000 01000100 01000100 08000100 01000100",
    ),
    (
        "Iota",
        "7e100000 00000000 00000000 00000000 01000100 01000100 40000100 01000100
      00088000 40000000 00000000 00500000 01000100 01000100 40000100 01000100",
    ),
    (
        "AffineSelect",
        "92100000 00000000 00000000 80aa0105 00000000 ffff0100 01000100 80000100
      01000100 00600000 01000100 80000100 00640000 01000100 80000100 01000000",
    ),
    (
        "Memset",
        "49100000 00000000 00000000 00000000 00000000 00000000 00000000 00010000
      06008000 00000000 803f0000 00700000 01000100 01000100 00010100 01000100",
    ),
    (
        "Cast",
        "47100000 00000000 00000000 00700000 01000100 01000100 00010100 01000100
      060a8000 00000000 00000000 00740000 01000100 01000100 00010100 01000100",
    ),
    ("r4 = r3 * 4", "a8100000 00000000 00000000 06080100 03000000 04000000 04000000 00000000"),
    ("r6 = r4 + r5", "a8100000 00000000 00000000 04080000 04000500 06000000"),
    ("r3 = 10", "a7100000 00000000 00000000 01080100 00000000 00000000 03000000 00000000 0a000000"),
];

#[test]
fn records_decode_and_encode_to_the_same_bytes() {
    for (name, hex) in RECORDS {
        let r = record(hex);
        let (instr, events) = decode(&r).unwrap_or_else(|d| panic!("{name}: {d:?}"));
        assert_eq!(encode(&instr, &events), r, "{name}");
        let mut typed = naive::Fields::new();
        naive::flat::flatten(&format!("{instr:?}"), "", &mut typed);
        naive::flat::flatten(&format!("{events:?}"), "event", &mut typed);
        assert_eq!(naive::decode(&r), Ok(typed), "{name}");
        assert_eq!(assemble(&disassemble(&r)).ok(), Some(r), "{name}");
    }
}

#[test]
fn the_text_of_the_worked_records() {
    let text = |i: usize| disassemble(&record(RECORDS[i].1));
    assert_eq!(
        text(3),
        "TensorScalar src=bf16@sbuf:p0+0x2000[1,512] channels=64 op0=mult op1=add imm0=fp32(2) \
         imm1=[fp32@sbuf:p0+0x90] dst=fp32@sbuf:p0+0x3000[1,512]"
    );
    assert_eq!(
        text(4),
        "TensorTensor op=add channels=128 src0=bf16@sbuf:p0+0x2000[1,64; 64,8] src1=fp32@sbuf:p0+0x3000[1,64; 0,8] \
         dst=fp32@sbuf:p0+0x4000[1,64; 64,8]"
    );
    assert_eq!(text(10), "RegisterAlu op=mult dtype=i32 source=imm src0=$r3 dst=$r4 imm=0x4");
}

#[test]
fn dma_records_without_rows_or_with_an_unknown_index_mode_are_refused() {
    let line = "DmaDirect src=var3+0x40 src_num=[4,1] src_row=64 dst=var4+0x0 dst_num=[4,1] dst_row=64 \
                src_dtype=bf16 dst_dtype=bf16";
    let r = assemble(line).unwrap();
    for at in [0x20, 0x22, 0x38, 0x3A] {
        let mut r = r;
        r[at] = 0;
        assert_eq!(decode(&r).unwrap_err().code.id, "MUR0811", "+{at:02x}");
    }
    // Counts from a register: then none may stand in the record.
    let mut r = r;
    r[0x17] |= 0x40;
    assert_eq!(decode(&r).unwrap_err().code.id, "MUR0803");
    r[0x20..0x24].fill(0);
    assert!(decode(&r).is_ok());
    for flags in 0..=255u8 {
        let mut r = [0; 64];
        (r[0], r[1]) = (0xDA, flags);
        assert_eq!(decode(&r).is_ok(), flags & 3 != 3, "{flags:#x}");
    }
}

#[test]
fn fields_land_where_the_vectors_say() {
    let of = |i: usize| decode(&record(RECORDS[i].1)).unwrap().0;
    let Instr::Activate(a) = of(2) else { panic!() };
    assert_eq!((a.cmd, a.func, a.src_dtype, a.bias_dtype, a.out_dtype, a.channels), (3, 7, 10, 10, 6, 64));
    assert_eq!(a.scale, Imm::Literal(0.125f32.to_bits()));
    assert_eq!(a.bias, Bias(Imm::Pointer(Addr4::sbuf(0, 0x80).unwrap())));
    let Instr::TensorScalar(t) = of(3) else { panic!() };
    assert_eq!(t.imm0, Imm::Literal(2f32.to_bits()));
    assert_eq!(t.imm1, Imm::Pointer(Addr4::sbuf(0, 0x90).unwrap()));
    assert_eq!((t.op0, t.op1), (6, 4));
    let Instr::TensorTensor(t) = of(4) else { panic!() };
    assert_eq!((t.src0_dtype, t.src1_dtype, t.out_dtype, t.channels), (6, 10, 10, 128));
    assert_eq!((t.src0.addr.word(), t.src1.addr.word(), t.dst.addr.word()), (0x2000, 0x3000, 0x4000));
    let Instr::AffineSelect(s) = of(7) else { panic!() };
    assert_eq!((s.compare, s.fill, s.base, s.steps[0], s.counts[0], s.multiplier), (1, 5, 0, -1, 128, 1));
    let Instr::RegisterAlu(x) = of(10) else { panic!() };
    assert_eq!((x.op, x.dtype, x.source, x.src0, x.dst, x.imm), (6, 8, 1, 3, 4, 4));
}

#[test]
fn malformed_records_are_refused_with_a_code() {
    let id = |r: &Record| decode(r).unwrap_err().code.id;
    let base = record(RECORDS[4].1);
    let with = |at: usize, v: u8| {
        let mut r = base;
        r[at] = v;
        r
    };
    assert_eq!(id(&with(0, 0x00)), "MUR0801");
    assert_eq!(id(&with(1, 0x11)), "MUR0814");
    assert_eq!(id(&with(4, 0x55)), "MUR0818");
    assert_eq!(id(&with(0x0E, 0x1B)), "MUR0803");
    assert_eq!(id(&with(0x0F, 0)), "MUR0803");
    assert_eq!(id(&with(0x13, 0x60)), "MUR0804");
    assert_eq!(id(&with(0x1A, 0)), "MUR0811");
    let mut r = record(RECORDS[8].1);
    r[0x3F] = 0xFF;
    assert_eq!(id(&r), "MUR0803", "count differs from the descriptor");
    let mut r = record(RECORDS[8].1);
    r[0x21] = 1;
    assert_eq!(id(&r), "MUR0802");
    assert_eq!(Name::<32>::new(&"q".repeat(32)).unwrap_err().code.id, "MUR0819");
}

#[test]
fn fields_of_dma_records_have_limits() {
    let direct = assemble(
        "DmaDirect src=var3+0x40 src_num=[4,1] src_row=64 dst=var4+0x0 dst_num=[4,1] dst_row=64 src_dtype=bf16 \
         dst_dtype=bf16",
    )
    .unwrap();
    let extension = assemble("DmaExtension index_channels=128 src_index=sbuf:p0+0x40").unwrap();
    // Record, byte, first value that is not legal, code.
    let cases: &[(&Record, usize, u8, &str)] = &[
        (&direct, 0x0C, 5, "MUR0803"),     // priority: three bits, five classes
        (&direct, 0x0F, 4, "MUR0803"),     // operation
        (&direct, 0x17, 0x04, "MUR0816"),  // a wide offset without a register
        (&direct, 0x17, 0x30, "MUR0816"),  // a variable and a table entry at once
        (&direct, 0x26, 0x09, "MUR0817"),  // bound register, half set
        (&direct, 0x27, 0x40, "MUR0817"),  // silence without a bound
        (&direct, 0x3E, 0, "MUR0803"),     // no dtype
        (&extension, 0x02, 64, "MUR0803"), // index channels: none or 128
        (&extension, 0x03, 5, "MUR0803"),  // operator
        (&extension, 0x07, 0x60, "MUR0804"),
        (&extension, 0x18, 8, "MUR0803"),  // tile rows: none or 16
        (&extension, 0x19, 64, "MUR0803"), // tile columns: none or 128
        (&extension, 0x20, 1, "MUR0802"),  // reserved
    ];
    for (base, at, value, code) in cases {
        assert!(decode(base).is_ok());
        let mut r = **base;
        r[*at] = *value;
        assert_eq!(decode(&r).unwrap_err().code.id, *code, "+{at:02X} = {value:#x}");
    }
    for priority in 0..5 {
        let mut r = direct;
        r[0x0C] = priority;
        assert!(decode(&r).is_ok(), "priority {priority}");
    }
    // An element size of 65,536 bytes is written as 0.
    let mut r = direct;
    (r[0x24], r[0x25]) = (0, 0);
    let Ok((Instr::DmaDirect(d), _)) = decode(&r) else { panic!("a record") };
    assert_eq!(d.src_row.bytes(), 65_536);
}
