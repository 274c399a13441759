//! Programs with 64-bit elements, before and after the pass that splits them: the reference evaluator must give the same
//! bits for both, the verifier must find nothing, and no 64-bit type may be left but at the program's edge.

mod support;
mod wide;

use murre::components::dtype::HloType;
use murre::components::hlo::HloOp;
use wide::{agree, agree_in, has_pairs, refused};

const BOTH: [&str; 2] = ["s64", "u64"];

#[test]
fn binary_arithmetic() {
    for ty in BOTH {
        let ops = [
            "add",
            "subtract",
            "multiply",
            "and",
            "or",
            "xor",
            "minimum",
            "maximum",
            "shift-left",
            "shift-right-logical",
            "shift-right-arithmetic",
        ];
        for op in ops {
            agree(&format!(
                "HloModule m ENTRY e {{ a = {ty}[40] parameter(0) b = {ty}[40] parameter(1) ROOT r = {ty}[40] {op}(a, b) }}"
            ));
        }
    }
}

#[test]
fn division() {
    for ty in BOTH {
        for op in ["divide", "remainder"] {
            agree_in(
                &format!(
                    "HloModule m ENTRY e {{ a = {ty}[40] parameter(0) b = {ty}[40] parameter(1) ROOT r = {ty}[40] {op}(a, b) }}"
                ),
                6,
            );
            for by in ["1", "3", "10", "65535", "65536", "8589934591"] {
                agree_in(
                    &format!(
                        "HloModule m ENTRY e {{ a = {ty}[40] parameter(0) c = {ty}[] constant({by}) b = {ty}[40] broadcast(c), dimensions={{}} ROOT r = {ty}[40] {op}(a, b) }}"
                    ),
                    3,
                );
            }
        }
    }
    for op in ["divide", "remainder"] {
        for by in ["-1", "-7", "0"] {
            agree_in(
                &format!(
                    "HloModule m ENTRY e {{ a = s64[40] parameter(0) c = s64[] constant({by}) b = s64[40] broadcast(c), dimensions={{}} ROOT r = s64[40] {op}(a, b) }}"
                ),
                3,
            );
        }
        // Narrow operands divide as words; the quotient of the least by -1 does not fit one.
        agree(&format!(
            "HloModule m ENTRY e {{ a = s32[40] parameter(0) b = s32[40] parameter(1) x = s64[40] convert(a) y = s64[40] convert(b) ROOT r = s64[40] {op}(x, y) }}"
        ));
        agree(&format!(
            "HloModule m ENTRY e {{ a = u32[40] parameter(0) x = u64[40] convert(a) c = u64[] constant(7) y = u64[40] broadcast(c), dimensions={{}} ROOT r = u64[40] {op}(x, y) }}"
        ));
    }
}

#[test]
fn unary_arithmetic() {
    for ty in BOTH {
        let signed: &[&str] = if ty == "s64" { &["abs", "sign"] } else { &[] };
        for op in ["negate", "not", "popcnt", "count-leading-zeros", "copy"].iter().chain(signed) {
            agree(&format!("HloModule m ENTRY e {{ a = {ty}[40] parameter(0) ROOT r = {ty}[40] {op}(a) }}"));
        }
    }
}

#[test]
fn comparisons_and_choices() {
    for ty in BOTH {
        for direction in ["EQ", "NE", "LT", "LE", "GT", "GE"] {
            agree(&format!(
                "HloModule m ENTRY e {{ a = {ty}[40] parameter(0) b = {ty}[40] parameter(1) ROOT r = pred[40] compare(a, b), direction={direction} }}"
            ));
            agree(&format!(
                "HloModule m ENTRY e {{ a = s32[40] parameter(0) b = u32[40] parameter(1) x = {ty}[40] convert(a) y = {ty}[40] convert(b) ROOT r = pred[40] compare(x, y), direction={direction} }}"
            ));
        }
        agree(&format!(
            "HloModule m ENTRY e {{ a = {ty}[40] parameter(0) b = {ty}[40] parameter(1) p = pred[40] parameter(2) q = pred[] parameter(3)
             s = {ty}[40] select(p, a, b) t = {ty}[40] select(q, a, b) ROOT r = ({ty}[40], {ty}[40]) tuple(s, t) }}"
        ));
        agree(&format!(
            "HloModule m ENTRY e {{ a = {ty}[40] parameter(0) x = {ty}[40] parameter(1) b = {ty}[] parameter(2) ROOT r = {ty}[40] clamp(a, x, b) }}"
        ));
        agree(&format!(
            "HloModule m ENTRY e {{ x = {ty}[40] parameter(0) a = {ty}[] constant(3) b = {ty}[] constant(900) ROOT r = {ty}[40] clamp(a, x, b) }}"
        ));
    }
}

#[test]
fn shifts_by_constants() {
    for ty in BOTH {
        for op in ["shift-left", "shift-right-logical", "shift-right-arithmetic"] {
            for by in [0, 1, 15, 31, 32, 33, 63, 64, 100] {
                agree_in(
                    &format!(
                        "HloModule m ENTRY e {{ a = {ty}[40] parameter(0) c = {ty}[] constant({by}) b = {ty}[40] broadcast(c), dimensions={{}} ROOT r = {ty}[40] {op}(a, b) }}"
                    ),
                    3,
                );
                agree_in(
                    &format!(
                        "HloModule m ENTRY e {{ p = u32[40] parameter(0) a = {ty}[40] convert(p) c = {ty}[] constant({by}) b = {ty}[40] broadcast(c), dimensions={{}} ROOT r = {ty}[40] {op}(a, b) }}"
                    ),
                    3,
                );
                agree_in(
                    &format!(
                        "HloModule m ENTRY e {{ p = s16[40] parameter(0) a = {ty}[40] convert(p) c = {ty}[] constant({by}) b = {ty}[40] broadcast(c), dimensions={{}} ROOT r = {ty}[40] {op}(a, b) }}"
                    ),
                    3,
                );
            }
            agree(&format!(
                "HloModule m ENTRY e {{ p = s32[40] parameter(0) a = {ty}[40] convert(p) q = s8[40] parameter(1) b = {ty}[40] convert(q) ROOT r = {ty}[40] {op}(a, b) }}"
            ));
        }
    }
}

#[test]
fn conversions() {
    for ty in BOTH {
        for other in [
            "pred", "s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64", "f16", "bf16", "f32", "f8e5m2",
            "f8e4m3fn",
        ] {
            agree_in(
                &format!(
                    "HloModule m ENTRY e {{ a = {ty}[60] parameter(0) ROOT r = {other}[60] convert(a) }}"
                ),
                20,
            );
            agree_in(
                &format!(
                    "HloModule m ENTRY e {{ a = {other}[60] parameter(0) ROOT r = {ty}[60] convert(a) }}"
                ),
                20,
            );
            agree(&format!(
                "HloModule m ENTRY e {{ p = s32[60] parameter(0) a = {ty}[60] convert(p) ROOT r = {other}[60] convert(a) }}"
            ));
        }
    }
    agree(
        "HloModule m ENTRY e { a = s64[60] parameter(0) b = u64[60] convert(a) ROOT r = s64[60] bitcast-convert(b) }",
    );
    for (ty, count) in [("u32", 2), ("s32", 2), ("u16", 4), ("s8", 8), ("f32", 2)] {
        agree(&format!(
            "HloModule m ENTRY e {{ a = s64[6] parameter(0) b = s64[6] negate(a) ROOT r = {ty}[6,{count}] bitcast-convert(b) }}"
        ));
        agree(&format!(
            "HloModule m ENTRY e {{ a = {ty}[6,{count}] parameter(0) b = u64[6] bitcast-convert(a) ROOT r = u64[6] not(b) }}"
        ));
    }
}

#[test]
fn doubles_at_the_edge() {
    agree_in("HloModule m ENTRY e { a = f64[80] parameter(0) ROOT r = f32[80] convert(a) }", 40);
    agree_in("HloModule m ENTRY e { a = f32[80] parameter(0) ROOT r = f64[80] convert(a) }", 20);
    agree_in("HloModule m ENTRY e { a = f16[80] parameter(0) ROOT r = f64[80] convert(a) }", 20);
    let moved = agree(
        "HloModule m ENTRY e { a = f64[2,3] parameter(0) t = f64[3,2] transpose(a), dimensions={1,0} ROOT r = (f64[3,2], f64[2,3]) tuple(t, a) }",
    );
    assert!(moved.len() < 16);
}

#[test]
fn constant_doubles_are_folded() {
    let split = agree(
        "HloModule m ENTRY e { a = f32[4] parameter(0) x = f64[] constant(0.1) y = f64[] constant(3) i = s64[] constant(7)
         j = f64[] convert(i) s = f64[] divide(x, y) t = f64[] multiply(s, j) q = f64[] sqrt(t) m = f64[] maximum(q, x)
         n = f64[] negate(m) d = f32[] convert(n) c = pred[] compare(x, y), direction=LT z = f64[] select(c, x, y)
         w = f32[] convert(z) k = s64[] convert(y) u = bf16[] convert(x) h = f16[] convert(x)
         b = f64[4] broadcast(s), dimensions={} f = f32[4] convert(b) g = f32[4] add(a, f)
         ROOT r = (f32[], f32[], s64[], bf16[], f16[], f32[4], f64[4]) tuple(d, w, k, u, h, g, b) }",
    );
    let floats = |t| {
        split
            .insts()
            .filter(|i| i.op == HloOp::Constant && i.shape().array().is_some_and(|a| a.ty == t))
            .count()
    };
    assert_eq!((floats(HloType::F32), floats(HloType::F64)), (3, 0));
    agree(
        "HloModule m ENTRY e { x = f64[3] constant({1.5, -2, 1e300}) y = f64[3] constant({0.1, nan, 5}) s = f64[3] add(x, y) ROOT r = f32[3] convert(s) }",
    );
}

#[test]
fn iota_and_constants() {
    for ty in BOTH {
        let split = agree(&format!(
            "HloModule m ENTRY e {{ i = {ty}[3,5] iota(), iota_dimension=1 c = {ty}[] constant(6) b = {ty}[3,5] broadcast(c), dimensions={{}}
             x = {ty}[3,5] multiply(i, b) y = {ty}[3,5] add(x, i) ROOT r = s32[3,5] convert(y) }}"
        ));
        assert!(!has_pairs(&split));
        agree(&format!(
            "HloModule m ENTRY e {{ c = {ty}[3] constant({{0, 9223372036854775807, 4294967296}}) a = {ty}[3] parameter(0) ROOT r = {ty}[3] add(a, c) }}"
        ));
    }
    agree("HloModule m ENTRY e { ROOT c = s64[2,2] constant({{-1, 5}, {-9223372036854775808, 0}}) }");
    agree("HloModule m ENTRY e { ROOT c = s64[0] constant({}) }");
}

#[test]
fn data_movement() {
    for ty in BOTH {
        for line in [
            "r = T[3,2] transpose(a), dimensions={1,0}",
            "r = T[6] reshape(a)",
            "r = T[1,2] slice(a), slice={[1:2], [0:3:2]}",
            "r = T[2,3] reverse(a), dimensions={1}",
            "r = T[4,2,3] broadcast(a), dimensions={1,2}",
            "r = T[2,6] concatenate(a, b), dimensions={1}",
            "r = T[4,5] pad(a, z), padding=1_1x0_0_1",
            "r = T[1,2] dynamic-slice(a, z, i), dynamic_slice_sizes={1,2}",
            "r = T[2,3] dynamic-update-slice(b, u, i, z)",
            "r = T[2,3] gather(a, g), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}",
            "r = f32[2,3] gather(f, g), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}",
            "r = f32[1,2] dynamic-slice(f, z, i), dynamic_slice_sizes={1,2}",
        ] {
            agree(&format!(
                "HloModule m ENTRY e {{ a = {ty}[2,3] parameter(0) b = {ty}[2,3] parameter(1) z = {ty}[] parameter(2) i = {ty}[] parameter(3)
                 u = {ty}[1,2] parameter(4) g = {ty}[2,1] parameter(5) f = f32[2,3] parameter(6) ROOT {} }}",
                line.replace('T', ty)
            ));
        }
    }
}

#[test]
fn scatters() {
    for ty in BOTH {
        for (op, root) in
            [("second", "ROOT y = #[] parameter(1)"), ("f", "y = #[] parameter(1) ROOT r = #[] xor(x, y)")]
        {
            let body = root.replace('#', ty);
            agree(&format!(
                "HloModule m {op} {{ x = {ty}[] parameter(0) {body} }}
                 ENTRY e {{ a = {ty}[5,2] parameter(0) i = {ty}[3,1] parameter(1) u = {ty}[3,2] parameter(2)
                 ROOT r = {ty}[5,2] scatter(a, i, u), update_window_dims={{1}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply={op} }}"
            ));
        }
        // Counting: the sums are narrow.
        let split = agree(&format!(
            "HloModule m f {{ x = {ty}[] parameter(0) y = {ty}[] parameter(1) ROOT r = {ty}[] add(x, y) }}
             ENTRY e {{ p = u8[30] parameter(0) i = {ty}[30] convert(p) v = {ty}[30,1] reshape(i) o = {ty}[] constant(1) u = {ty}[30] broadcast(o), dimensions={{}}
             z = {ty}[] constant(0) a = {ty}[200] broadcast(z), dimensions={{}}
             s = {ty}[200] scatter(a, v, u), update_window_dims={{}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=f
             ROOT r = f32[200] convert(s) }}"
        ));
        assert!(!has_pairs(&split));
    }
}

#[test]
fn reductions() {
    for ty in BOTH {
        for op in ["add", "minimum", "maximum", "and", "or", "xor"] {
            let call = format!(
                "HloModule m f {{ x = {ty}[] parameter(0) y = {ty}[] parameter(1) ROOT r = {ty}[] {op}(x, y) }}"
            );
            agree(&format!(
                "{call} ENTRY e {{ a = {ty}[3,17,2] parameter(0) z = {ty}[] parameter(1) ROOT r = {ty}[17] reduce(a, z), dimensions={{0,2}}, to_apply=f }}"
            ));
            agree(&format!(
                "{call} ENTRY e {{ p = s16[3,17] parameter(0) a = {ty}[3,17] convert(p) z = {ty}[] constant(0) ROOT r = {ty}[3] reduce(a, z), dimensions={{1}}, to_apply=f }}"
            ));
            agree(&format!(
                "{call} ENTRY e {{ p = u8[3,17] parameter(0) a = {ty}[3,17] convert(p) z = {ty}[] constant(0) ROOT r = {ty}[3] reduce(a, z), dimensions={{1}}, to_apply=f }}"
            ));
            if op != "minimum" && op != "maximum" {
                agree(&format!(
                    "{call} ENTRY e {{ a = {ty}[9] parameter(0) z = {ty}[] constant(0) ROOT r = {ty}[9] reduce-window(a, z), window={{size=9 pad=8_0}}, to_apply=f }}"
                ));
            }
        }
    }
    // More elements than 16-bit pieces can be summed of.
    agree_in(
        "HloModule m f { x = s64[] parameter(0) y = s64[] parameter(1) ROOT r = s64[] add(x, y) }
         ENTRY e { a = s64[3] parameter(0) b = s64[3,70000] broadcast(a), dimensions={0} z = s64[] constant(-5) ROOT r = s64[3] reduce(b, z), dimensions={1}, to_apply=f }",
        2,
    );
    // The index of the greatest, both through a narrow index and through a pair.
    for index in ["i = s64[20] iota(), iota_dimension=0", "i = s64[20] parameter(1)"] {
        agree(&format!(
            "HloModule m f {{ a = f32[] parameter(0) i = s64[] parameter(1) b = f32[] parameter(2) j = s64[] parameter(3)
             p = pred[] compare(a, b), direction=GE v = f32[] select(p, a, b) k = s64[] select(p, i, j) ROOT r = (f32[], s64[]) tuple(v, k) }}
             ENTRY e {{ q = u8[20] parameter(0) a = f32[20] convert(q) {index} l = f32[] constant(-1) z = s64[] constant(0)
             ROOT r = (f32[], s64[]) reduce(a, i, l, z), dimensions={{0}}, to_apply=f }}"
        ));
    }
}

#[test]
fn sorts() {
    for ty in BOTH {
        agree(&format!(
            "HloModule m f {{ a = {ty}[] parameter(0) b = {ty}[] parameter(1) ROOT r = pred[] compare(a, b), direction=LT }}
             ENTRY e {{ a = {ty}[3,9] parameter(0) ROOT r = {ty}[3,9] sort(a), dimensions={{1}}, to_apply=f }}"
        ));
        let split = agree(&format!(
            "HloModule m f {{ p = f32[] parameter(0) q = f32[] parameter(1) a = {ty}[] parameter(2) b = {ty}[] parameter(3) i = {ty}[] parameter(4) j = {ty}[] parameter(5)
             ROOT r = pred[] compare(a, b), direction=GT }}
             ENTRY e {{ k = f32[9] parameter(0) a = {ty}[9] parameter(1) i = {ty}[9] iota(), iota_dimension=0
             s = (f32[9], {ty}[9], {ty}[9]) sort(k, a, i), dimensions={{0}}, is_stable=true, to_apply=f
             x = {ty}[9] get-tuple-element(s), index=2 y = f32[9] get-tuple-element(s), index=0 z = {ty}[9] get-tuple-element(s), index=1
             ROOT r = ({ty}[9], f32[9], {ty}[9]) tuple(x, y, z) }}"
        ));
        let sort = split.insts().find(|i| i.op == HloOp::Sort).expect("a sort");
        assert_eq!(sort.operands().len(), 4);
    }
}

#[test]
fn loops() {
    // A counter with a constant bound is narrow, what it adds up is not.
    for (compare, step, start, bound) in [
        ("LT", "add(i, c)", 0, 7),
        ("LE", "add(c, i)", -3, 7),
        ("GT", "subtract(i, c)", 9, 2),
        ("GE", "subtract(i, c)", 9, 2),
    ] {
        let split = agree(&format!(
            "HloModule m
             c {{ p = (s64[], s64[3], f32[]) parameter(0) i = s64[] get-tuple-element(p), index=0 n = s64[] constant({bound}) ROOT r = pred[] compare(i, n), direction={compare} }}
             b {{ p = (s64[], s64[3], f32[]) parameter(0) i = s64[] get-tuple-element(p), index=0 a = s64[3] get-tuple-element(p), index=1 f = f32[] get-tuple-element(p), index=2
                 c = s64[] constant(1) j = s64[] {step} v = s64[3] broadcast(i), dimensions={{}} m = s64[3] multiply(a, a) s = s64[3] add(m, v) g = f32[] convert(i) h = f32[] add(f, g)
                 ROOT t = (s64[], s64[3], f32[]) tuple(j, s, h) }}
             ENTRY e {{ z = s64[] constant({start}) a = s64[3] parameter(0) f = f32[] parameter(1) t = (s64[], s64[3], f32[]) tuple(z, a, f)
                 ROOT w = (s64[], s64[3], f32[]) while(t), condition=c, body=b }}"
        ));
        let w = split.insts().find(|i| i.op == HloOp::While).expect("a loop");
        assert_eq!(w.shape().to_string(), "(s32[], u32[3], u32[3], f32[])", "{compare}");
    }
    // A bare carry, with a bound that the program is given.
    agree(
        "HloModule m c { p = u64[] parameter(0) n = u64[] constant(1000000000000) ROOT r = pred[] compare(p, n), direction=LT }
         b { p = u64[] parameter(0) q = u64[] add(p, p) k = u64[] constant(1) ROOT r = u64[] add(q, k) }
         ENTRY e { a = u64[] parameter(0) k = u64[] constant(255) b = u64[] and(a, k) ROOT w = u64[] while(b), condition=c, body=b }",
    );
    let text = "HloModule m
         c { p = (s64[], s64[], s64[]) parameter(0) i = s64[] get-tuple-element(p), index=0 n = s64[] get-tuple-element(p), index=1 ROOT r = pred[] compare(n, i), direction=GT }
         b { p = (s64[], s64[], s64[]) parameter(0) i = s64[] get-tuple-element(p), index=0 n = s64[] get-tuple-element(p), index=1 x = s64[] get-tuple-element(p), index=2
             c = s64[] constant(3) j = s64[] add(i, c) y = s64[] subtract(x, n) ROOT t = (s64[], s64[], s64[]) tuple(j, n, y) }
         ENTRY e { q = u8[] parameter(0) n = s64[] convert(q) z = s64[] constant(0) x = s64[] parameter(1) t = (s64[], s64[], s64[]) tuple(z, n, x)
             ROOT w = (s64[], s64[], s64[]) while(t), condition=c, body=b }";
    let split = agree(text);
    let w = split.insts().find(|i| i.op == HloOp::While).expect("a loop");
    assert_eq!(w.shape().to_string(), "(s32[], s32[], u32[], u32[])");
    // One body, two loops.
    agree(
        "HloModule m c { p = s64[] parameter(0) n = s64[] constant(5) ROOT r = pred[] compare(p, n), direction=LT }
         d { p = s64[] parameter(0) n = s64[] constant(20000000000) ROOT r = pred[] compare(p, n), direction=LT }
         b { p = s64[] parameter(0) k = s64[] constant(3000000000) ROOT q = s64[] add(p, k) }
         ENTRY e { z = s64[] constant(0) v = s64[] while(z), condition=c, body=b w = s64[] while(z), condition=d, body=b ROOT r = (s64[], s64[]) tuple(v, w) }",
    );
}

#[test]
fn branches_and_tuples() {
    agree(
        "HloModule m f { p = (s64[2], f32[]) parameter(0) a = s64[2] get-tuple-element(p), index=0 b = s64[2] negate(a) x = f32[] get-tuple-element(p), index=1 ROOT t = (s64[2], f32[]) tuple(b, x) }
         g { a = s64[2] parameter(0) z = f32[] constant(2) ROOT t = (s64[2], f32[]) tuple(a, z) }
         h { x = f32[] parameter(0) c = s64[2] constant({1, 2}) ROOT t = (s64[2], f32[]) tuple(c, x) }
         ENTRY e { i = s32[] parameter(0) a = s64[2] parameter(1) x = f32[] parameter(2) t = (s64[2], f32[]) tuple(a, x)
         ROOT c = (s64[2], f32[]) conditional(i, t, a, x), branch_computations={f, g, h} }",
    );
    agree(
        "HloModule m f { x = f32[] parameter(0) ROOT c = s64[] constant(11) } g { x = s64[] parameter(0) k = s64[] constant(-5) ROOT c = s64[] maximum(x, k) }
         ENTRY e { p = pred[] parameter(0) a = s16[] parameter(1) b = s64[] convert(a) x = f32[] constant(1) c = s64[] conditional(p, x, b), true_computation=f, false_computation=g ROOT r = f32[] convert(c) }",
    );
    // Nested tuples, at the edge and inside, and a barrier.
    agree(
        "HloModule m ENTRY e { p = (s64[2], (u64[], f32[3])) parameter(0) a = s64[2] get-tuple-element(p), index=0 q = (u64[], f32[3]) get-tuple-element(p), index=1
         b = u64[] get-tuple-element(q), index=0 n = u64[] not(b) t = (u64[], s64[2]) tuple(n, a) o = (u64[], s64[2]) opt-barrier(t) u = s64[2] get-tuple-element(o), index=1
         v = s64[2] add(u, a) ROOT r = ((u64[], f32[3]), s64[2], (u64[], s64[2])) tuple(q, v, o) }",
    );
    agree(
        "HloModule m f { a = s64[] parameter(0) p = (f32[], s64[]) parameter(1) b = s64[] get-tuple-element(p), index=1 ROOT r = s64[] multiply(a, b) }
         ENTRY e { a = s64[] parameter(0) x = f32[] constant(1) t = (f32[], s64[]) tuple(x, a) ROOT c = s64[] call(a, t), to_apply=f }",
    );
}

#[test]
fn what_is_made_of_nothing() {
    agree(
        "HloModule m f { x = s64[] parameter(0) y = s64[] parameter(1) ROOT r = s64[] add(x, y) }
         ENTRY e { a = s64[0] constant({}) z = s64[] constant(1099511627776) r = s64[] reduce(a, z), dimensions={0}, to_apply=f
         p = s64[3] pad(a, z), padding=1_2 c = s64[3] concatenate(a, p), dimensions={0} ROOT t = (s64[], s64[3], s64[3]) tuple(r, p, c) }",
    );
}

#[test]
fn loops_in_loops() {
    let split = agree(
        "HloModule m
         c1 { p = (s64[], s64[], s64[]) parameter(0) j = s64[] get-tuple-element(p), index=1 n = s64[] constant(4) ROOT r = pred[] compare(j, n), direction=LT }
         b1 { p = (s64[], s64[], s64[]) parameter(0) i = s64[] get-tuple-element(p), index=0 j = s64[] get-tuple-element(p), index=1 x = s64[] get-tuple-element(p), index=2
              k = s64[] constant(1) l = s64[] add(j, k) m = s64[] multiply(i, j) y = s64[] add(x, m) ROOT t = (s64[], s64[], s64[]) tuple(i, l, y) }
         c0 { p = (s64[], s64[]) parameter(0) i = s64[] get-tuple-element(p), index=0 n = s64[] constant(3) ROOT r = pred[] compare(i, n), direction=LT }
         b0 { p = (s64[], s64[]) parameter(0) i = s64[] get-tuple-element(p), index=0 x = s64[] get-tuple-element(p), index=1 z = s64[] constant(0)
              t = (s64[], s64[], s64[]) tuple(i, z, x) w = (s64[], s64[], s64[]) while(t), condition=c1, body=b1 y = s64[] get-tuple-element(w), index=2
              k = s64[] constant(1) l = s64[] add(i, k) ROOT u = (s64[], s64[]) tuple(l, y) }
         ENTRY e { z = s64[] constant(0) x = s64[] parameter(0) t = (s64[], s64[]) tuple(z, x) ROOT w = (s64[], s64[]) while(t), condition=c0, body=b0 }",
    );
    let shapes: Vec<String> =
        split.insts().filter(|i| i.op == HloOp::While).map(|i| i.shape().to_string()).collect();
    assert_eq!(shapes, ["(s32[], s32[], u32[], u32[])", "(s32[], u32[], u32[])"]);
}

#[test]
fn what_is_only_passed_on_stays() {
    let split = agree(
        "HloModule m ENTRY e { a = s64[2] parameter(0) b = f64[] parameter(1) c = u64[3] parameter(2) ROOT r = (s64[2], s64[2], f64[]) tuple(a, a, b) }",
    );
    assert_eq!(split.len(), 4);
    let split = agree("HloModule m ENTRY e { ROOT a = s64[2] parameter(0) }");
    assert_eq!(split.len(), 1);
}

#[test]
fn names_do_not_collide() {
    agree(
        "HloModule m ENTRY e { a = s64[2] parameter(0) a.lo = s64[2] parameter(1) a.hi = s64[2] add(a, a.lo) a.slice = s64[2] multiply(a.hi, a) ROOT r = s64[2] subtract(a.slice, a.lo) }",
    );
}

#[test]
fn all_refusals_are_told_at_once() {
    let text = "HloModule m ENTRY e { a = s64[2,2] parameter(0) x = f64[] parameter(1) d = s64[2,2] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        p = s64[2,2] power(a, a) s = f64[] sine(x) q = f64[] add(s, x) h = f16[] convert(x) t = s64[2,2] add(d, p) ROOT r = (s64[2,2], f64[], f16[]) tuple(t, q, h) }";
    let found = refused(text);
    let want: Vec<(String, &str)> = ["d", "p", "s"].into_iter().map(|n| (n.to_owned(), "MUR0402")).collect();
    assert_eq!(found, want);
}
