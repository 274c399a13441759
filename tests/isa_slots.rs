//! Random words and slots through the encoder, the decoder and the naive decoder of `tests/naive`, which is written from
//! the spec alone: ADDR8 in all forms, TENSOR1D to 4D, INDIRECT16B and 20B, the two MX slots. Facts: `spec/isa.md 2, 3, 4.2`.

mod naive;

use murre::components::dtype::DType;
use murre::components::isa::field::{Wire, at};
use murre::components::isa::*;
use proptest::prelude::*;

fn slot(x: &impl Wire) -> [u8; 64] {
    let mut r = [0; 64];
    x.put(&mut r, at(0));
    r
}

/// A static SBUF or PSUM base.
fn base() -> impl Strategy<Value = Addr4> {
    prop_oneof![
        (0u32..128, 0u32..0x40000).prop_map(|(p, o)| Addr4::sbuf(p, o).unwrap()),
        (0u32..128, 0u32..8, 0u32..0x800).prop_map(|(p, b, o)| Addr4::psum(p, b, o).unwrap()),
    ]
}

fn address() -> impl Strategy<Value = Addr4> {
    prop_oneof![3 => base(), 1 => (0u32..64).prop_map(|id| Addr4::register(id).unwrap())]
}

fn tensor<const N: usize>() -> impl Strategy<Value = Tensor<N>> {
    let steps = prop::collection::vec(any::<i16>(), N);
    let nums = prop::collection::vec(1u16..=u16::MAX, N);
    (address(), steps, nums).prop_map(|(addr, step, num)| Tensor {
        addr,
        step: step.try_into().unwrap(),
        num: num.try_into().unwrap(),
    })
}

/// One slot, three readers; behind it nothing is written.
fn agree<const N: usize>(t: Tensor<N>) {
    let r = slot(&t);
    let bytes = 4 + 4 * N;
    assert_eq!(Tensor::<N>::BYTES as usize, bytes);
    assert!(r[bytes..].iter().all(|b| *b == 0));
    assert_eq!(Tensor::<N>::get(&r, at(0)), Ok(t));
    assert_eq!(Operand::<N>::get(&r, at(0)), Ok(Operand::Pattern(t)));
    let (word, steps, counts) = naive::strided(&r, N);
    assert_eq!(word, i64::from(t.addr.word()));
    assert_eq!(steps, t.step.map(i64::from));
    assert_eq!(counts, t.num.map(i64::from));
}

fn addr8() -> impl Strategy<Value = Addr8> {
    let shaped = |(a, shape): (Addr8, bool)| if shape { a.with_shape_register() } else { a };
    let form = prop_oneof![
        (0u64..1 << 56).prop_map(|a| Addr8::immediate(a).unwrap()),
        (0u32..64, 0u32..64).prop_map(|(l, h)| Addr8::in_registers(l, h).unwrap()),
        (0u32..0x10000, any::<u32>()).prop_map(|(e, o)| Addr8::table(e, o).unwrap()),
        (0u32..0x10000, 0u32..63, any::<bool>())
            .prop_map(|(e, r, w)| Addr8::table_register(e, r, w).unwrap()),
        (0u32..1 << 24, any::<u32>()).prop_map(|(v, o)| Addr8::variable(v, o).unwrap()),
    ];
    (form, any::<bool>()).prop_map(shaped)
}

/// What the naive decoder calls the parts of a form.
fn parts(a: &Addr8) -> naive::Fields {
    let mut out = match a.form {
        Addr8Form::Immediate { address } => naive::Fields::from([("a.address", address as i64)]),
        Addr8Form::Register { low, high } => {
            naive::Fields::from([("a.low", i64::from(low)), ("a.high", i64::from(high))])
        }
        Addr8Form::Table { entry, offset } => {
            naive::Fields::from([("a.entry", i64::from(entry)), ("a.offset", i64::from(offset))])
        }
        Addr8Form::TableRegister { entry, register, wide } => naive::Fields::from([
            ("a.entry", i64::from(entry)),
            ("a.register", i64::from(register)),
            ("a.wide", i64::from(wide)),
        ]),
        Addr8Form::Variable { id, offset } => {
            naive::Fields::from([("a.id", i64::from(id)), ("a.offset", i64::from(offset))])
        }
    };
    out.insert("a.shape_register", i64::from(a.shape_register));
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn strided_slots(a in tensor::<1>(), b in tensor::<2>(), c in tensor::<3>(), d in tensor::<4>()) {
        agree(a);
        agree(b);
        agree(c);
        agree(d);
    }

    #[test]
    fn gather_slots(index in base(), data in base(), count in 1u16..=u16::MAX) {
        let g = Gather::new(index, data, count).unwrap();
        let (short, long) = (slot(&Operand::<3>::Gather(g)), slot(&Operand::<4>::Gather(g)));
        assert_eq!(short, long, "20 bytes are 16 and four zeros");
        assert_eq!(Operand::<3>::get(&short, at(0)), Ok(Operand::Gather(g)));
        assert_eq!(Operand::<4>::get(&long, at(0)), Ok(Operand::Gather(g)));
        let n = naive::gather(&long[..20], false);
        assert_eq!([n["index"], n["data"], n["count"]], [index.word() as i64 | 0x2000_0000, data.word() as i64, count as i64]);
        assert!(long[10..].iter().all(|b| *b == 0));
        // Each byte behind the count is reserved, and each end of the slot has its own.
        for i in 10..20 {
            let mut r = long;
            r[i] = 1;
            assert_eq!(Operand::<4>::get(&r, at(0)).unwrap_err().code.id, "MUR0802");
            assert_eq!(Operand::<3>::get(&r, at(0)).is_err(), i < 16);
        }
    }

    #[test]
    fn mx_slots(
        index in base(), data in base(), quadrant in 0u32..4, row in 0u32..4, off in 0u32..0x40000,
        n in 1u32..=16_383, which in 0usize..20, backwards in any::<bool>(),
    ) {
        let dtype = DType::ALL[which];
        let times = if [2, 8, 9].contains(&which) { 4 } else { 1 };
        let part = 32 * quadrant + 4 * row;
        let scale = i64::from((quadrant << 23) + off);
        let g = MxGather::new(index, data, (part, off), n, dtype).unwrap();
        let r = slot(&g);
        assert_eq!(MxGather::get(&r, at(0)), Ok(g));
        let f = naive::gather(&r[..16], true);
        assert_eq!(
            [f["index"], f["data"], f["scale"], f["count"], f["scale_partition"]],
            [index.word() as i64 | 0x2000_0000, data.word() as i64, scale, i64::from(n * times), i64::from(4 * row)]
        );
        let t = MxTensor::new(data, (part, off), n, if backwards { -1 } else { 1 }, dtype).unwrap();
        let r = slot(&t);
        assert_eq!(MxTensor::get(&r, at(0)), Ok(t));
        let f = naive::mx_strided(&r[..16]);
        assert_eq!(
            [f["data"], f["scale"], f["count"], f["direction"], f["scale_partition"], f["rest"]],
            [data.word() as i64, scale, i64::from(n * times), if backwards { 0xFF } else { 1 }, i64::from(4 * row), 0]
        );
    }

    #[test]
    fn addr8_forms(a in addr8()) {
        let bytes = a.to_bytes();
        assert_eq!(Addr8::from_bytes(bytes), Ok(a));
        assert_eq!(naive::addr8(bytes), Ok(parts(&a)));
    }

    #[test]
    fn addr8_bytes(mut bytes in any::<[u8; 8]>(), marker in 0u8..=255, clear in any::<u8>()) {
        bytes[7] = marker;
        // Most random bytes hold numbers that no form has: clear some.
        (0..7).filter(|i| clear >> i & 1 != 0).for_each(|i| bytes[i] = 0);
        match (Addr8::from_bytes(bytes), naive::addr8(bytes)) {
            (Ok(a), Ok(fields)) => {
                assert_eq!(parts(&a), fields);
                assert_eq!(a.to_bytes(), bytes);
            }
            (Err(_), Err(_)) => {}
            // The pair of register 63 has no second half: what the naive decoder does not know.
            (Err(f), Ok(_)) => assert_eq!((f.code.id, bytes[0], marker & 0xBF), ("MUR0807", 63, 0x2C)),
            (Ok(a), Err(e)) => panic!("{a:?} {e}"),
        }
    }

    #[test]
    fn bound_bytes(b in any::<u8>()) {
        match BoundRegister::from_byte(b) {
            Ok(x) => {
                assert_eq!(x.to_byte(), b);
                assert_eq!((x.register, x.quiet), if b == 0 { (None, false) } else { (Some(b & 63), b & 64 != 0) });
            }
            Err(f) => assert!(f.code.id == "MUR0817" && b != 0 && b < 128),
        }
    }
}
