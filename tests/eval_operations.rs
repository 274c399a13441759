//! Operations that the fixtures do not cover, on small modules: what the evaluator gives against what XLA gave on the CPU
//! (jaxlib 0.10.2, without excess precision). Every leaf is written as numbers, a complex one as pairs.

use murre::array::float;
use murre::components::dtype::HloType;
use murre::eval::evaluate;
use murre::hlo::read_module;
use std::f64::consts::FRAC_1_SQRT_2;

/// The leaves of a module without inputs, as numbers.
fn leaves(text: &str) -> Vec<Vec<f64>> {
    let module = read_module(text.as_bytes(), "text").unwrap_or_else(|e| panic!("{e:#?}"));
    let out = evaluate(&module, &[]).unwrap_or_else(|e| panic!("{e:#?}"));
    let number = |ty: HloType, bytes: &[u8]| {
        let bits = bytes.iter().rev().fold(0u64, |n, b| n << 8 | u64::from(*b));
        match ty {
            _ if ty.is_float() => float::decode(ty, bits),
            _ if ty.is_signed_int() => {
                ((bits << (64 - 8 * bytes.len())) as i64 >> (64 - 8 * bytes.len())) as f64
            }
            _ => bits as f64,
        }
    };
    out.iter()
        .map(|a| {
            let part = if a.ty == HloType::C64 { HloType::F32 } else { a.ty };
            a.data.chunks(part.bytes()).map(|b| number(part, b)).collect()
        })
        .collect()
}

#[track_caller]
fn check(text: &str, want: &[&[f64]]) {
    let got = leaves(text);
    // Large whole numbers are words, which are the same or not.
    let near = |a: &f64, b: &f64| match b.fract() == 0.0 && b.abs() > 1e6 {
        true => a == b,
        false => a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-6 + 1e-5 * b.abs(),
    };
    assert_eq!(got.len(), want.len());
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        let same = got.len() == want.len() && got.iter().zip(*want).all(|(a, b)| near(a, b));
        assert!(same, "leaf {i}: got {got:?}, want {want:?}");
    }
}

#[test]
fn a_factor_and_a_solve() {
    let text = "ENTRY e {
         a = f32[2,2] constant({ { 4, 2 }, { 2, 10 } })
         l = f32[2,2] cholesky(a), lower=true
         u = f32[2,2] cholesky(a), lower=false
         bad = f32[2,2] constant({ { 1, 2 }, { 2, 1 } })
         n = f32[2,2] cholesky(bad), lower=true
         b = f32[1,2] constant({ { 6, 8 } })
         x = f32[1,2] triangular-solve(a, b), left_side=false, lower=false, unit_diagonal=false,
           transpose_a=TRANSPOSE
         y = f32[1,2] triangular-solve(a, b), left_side=false, lower=true, unit_diagonal=true,
           transpose_a=NO_TRANSPOSE
         ROOT r = (f32[2,2], f32[2,2], f32[2,2], f32[1,2], f32[1,2]) tuple(l, u, n, x, y) }";
    check(
        text,
        &[
            &[2.0, 0.0, 1.0, 3.0],
            &[2.0, 1.0, 0.0, 3.0],
            &[f64::NAN, f64::NAN, f64::NAN, f64::NAN],
            &[1.1, 0.8],
            &[-10.0, 8.0],
        ],
    );
}

#[test]
fn convolutions() {
    let text = "ENTRY e {
         i = f32[24] iota(), iota_dimension=0
         a = f32[2,3,4] reshape(i)
         k = f32[3,2,4] constant({ { { 1, -2, 3, 4 }, { 5, 0, 7, 8 } }, { { 1, 1, -1, 2 }, { 2, 3, 0.5,
           1 } }, { { 9, 1, 2, -4 }, { 0, 0, 1, 1 } } })
         g = f32[2,3,4] convolution(a, k), window={size=3 stride=2 pad=2_3 lhs_dilate=2 rhs_dilate=2
           rhs_reversal=1}, dim_labels=b0f_0io->b0f, feature_group_count=2
         kb = f32[3,4,2] constant({ { { 1, 2 }, { 3, 4 }, { 5, 6 }, { 7, 8 } }, { { 0, 1 }, { 0, -1 },
           { 2, 0 }, { -3, 1 } }, { { 1, 1 }, { 1, 1 }, { -1, 1 }, { 2, 2 } } })
         h = f32[1,2,2] convolution(a, kb), window={size=3 pad=-1_2}, dim_labels=b0f_0io->b0f,
           batch_group_count=2
         ROOT r = (f32[2,3,4], f32[1,2,2]) tuple(g, h) }";
    check(
        text,
        &[
            &[
                31.0, -5.0, 66.5, 87.0, 67.0, 3.0, 111.5, 142.0, 62.0, 39.0, 14.5, 14.0, 139.0, 19.0, 180.5,
                267.0, 283.0, 39.0, 261.5, 286.0, 206.0, 99.0, 44.5, 14.0,
            ],
            &[85.0, 382.0, 162.0, 440.0],
        ],
    );
}

#[test]
fn integer_products() {
    let text = "ENTRY e {
         a = s8[2,2] constant({ { 100, 50 }, { -128, 127 } })
         w = s32[2,2] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
         n = s8[2,2] dot(a, a), lhs_contracting_dims={0}, rhs_contracting_dims={0}
         ROOT r = (s32[2,2], s8[2,2]) tuple(w, n) }";
    check(text, &[&[3600.0, 11350.0, -29056.0, 9729.0], &[16.0, 8.0, 8.0, -59.0]]);
}

#[test]
fn running_sums() {
    let text = "add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = f32[] add(x, y) }
        am { x = f32[] parameter(0) i = s32[] parameter(1) y = f32[] parameter(2) j = s32[]
          parameter(3) g = pred[] compare(x, y), direction=GE v = f32[] select(g, x, y) k = s32[]
            select(g, i, j) ROOT t = (f32[], s32[]) tuple(v, k) }
        ENTRY e {
         a = f32[5] constant({ 3, -1, 4, 1, -5 })
         z = f32[] constant(0) low = f32[] constant(-inf) none = s32[] constant(-1)
         i = s32[5] iota(), iota_dimension=0
         c = f32[5] reduce-window(a, z), window={size=5 pad=4_0}, to_apply=add
         d = f32[5] reduce-window(a, z), window={size=5 pad=0_4}, to_apply=add
         w = f32[5] reduce-window(a, z), window={size=2 stride=2 pad=2_1 rhs_dilate=2 lhs_dilate=2},
           to_apply=add
         m = (f32[5], s32[5]) reduce-window(a, i, low, none), window={size=3 pad=1_1}, to_apply=am
         mv = f32[5] get-tuple-element(m), index=0
         mi = s32[5] get-tuple-element(m), index=1
         ROOT r = (f32[5], f32[5], f32[5], f32[5], s32[5]) tuple(c, d, w, mv, mi) }";
    check(
        text,
        &[
            &[3.0, 2.0, 6.0, 7.0, 2.0],
            &[2.0, -1.0, 0.0, -4.0, -5.0],
            &[3.0, 2.0, 3.0, 5.0, -4.0],
            &[3.0, 4.0, 4.0, 4.0, 1.0],
            &[0.0, 2.0, 2.0, 2.0, 3.0],
        ],
    );
}

#[test]
fn random_bits() {
    let text = "ENTRY e {
         s = u64[2] constant({ 12345678901234, 18446744073709551615 })
         p = (u64[2], u16[5]) rng-bit-generator(s), algorithm=rng_philox
         t = (u64[2], u8[3]) rng-bit-generator(s), algorithm=rng_three_fry
         d = (u64[2], u64[2]) rng-bit-generator(s), algorithm=rng_default
         p0 = u64[2] get-tuple-element(p), index=0
         px = u16[5] get-tuple-element(p), index=1
         tx = u8[3] get-tuple-element(t), index=1
         dx = u64[2] get-tuple-element(d), index=1
         ROOT r = (u64[2], u16[5], u8[3], u64[2]) tuple(p0, px, tx, dx) }";
    check(
        text,
        &[
            &[12345678901234.0, 1.0],
            &[43534.0, 31133.0, 59517.0, 6777.0, 43768.0],
            &[126.0, 115.0, 125.0],
            &[3003190245766507008.0, 16842365817144993792.0],
        ],
    );
}

#[test]
fn narrow_types() {
    let text = "ENTRY e {
         b = bf16[4] constant({ 1, 256, 3.1406, -0.001 })
         o = bf16[4] constant({ 0.003906, 1, 2.7188, 7 })
         s = bf16[4] add(b, o)
         q = bf16[4] divide(b, o)
         f = f8e4m3fn[4] convert(b)
         e = f8e4m3fn[4] convert(o)
         p = f8e4m3fn[4] multiply(f, e)
         sw = f32[4] convert(s) qw = f32[4] convert(q) pw = f32[4] convert(p)
         n = s4[3] constant({ 7, -8, 3 })
         n2 = s4[3] add(n, n) nw = s32[3] convert(n2)
         ROOT r = (f32[4], f32[4], f32[4], s32[3]) tuple(sw, qw, pw, nw) }";
    check(
        text,
        &[
            &[1.0, 256.0, 5.875, 7.0],
            &[256.0, 256.0, 1.15625, -0.0001430511],
            &[0.00390625, 256.0, 9.0, -0.01367188],
            &[-2.0, 0.0, 6.0],
        ],
    );
}

#[test]
fn complex_functions() {
    let text = "ENTRY e {
         z = c64[3] constant({ (1, 2), (-3, 0.5), (0, -1) })
         q = c64[3] sqrt(z) e = c64[3] exponential(z) t = c64[3] tanh(z) w = c64[3] power(z, z) d =
           c64[3] divide(z, q)
         a = f32[3] abs(z)
         ROOT r = (c64[3], c64[3], c64[3], c64[3], c64[3], f32[3]) tuple(q, e, t, w, d, a) }";
    check(
        text,
        &[
            &[1.27202, 0.7861514, 0.1438424, 1.738013, FRAC_1_SQRT_2, -FRAC_1_SQRT_2],
            &[-1.131204, 2.471727, 0.04369226, 0.02386919, 0.5403023, -0.841471],
            &[1.166736, -0.2434582, -0.9973165, 0.004160427, 0.0, -1.557408],
            &[-0.2225171, 0.1007091, -0.003981992, -0.006967711, 0.2078796, -0.0],
            &[1.27202, 0.7861513, 0.1438424, 1.738014, FRAC_1_SQRT_2, -FRAC_1_SQRT_2],
            &[2.236068, 3.041381, 1.0],
        ],
    );
}

#[test]
fn scatters() {
    let text =
        "c { a = f32[] parameter(0) i = s32[] parameter(1) b = f32[] parameter(2) j = s32[] parameter(3) s =
  f32[] subtract(a, b) m = s32[] maximum(i, j) ROOT t = (f32[], s32[]) tuple(s, m) }
        ENTRY e {
         a = f32[4] constant({ 1, 2, 3, 4 }) k = s32[4] constant({ 0, 0, 0, 0 })
         i = s32[4,1] constant({ { 2 }, { 2 }, { -1 }, { 0 } })
         u = f32[4] constant({ 10, 20, 30, 40 }) v = s32[4] constant({ 7, 5, 3, 1 })
         s = (f32[4], s32[4]) scatter(a, k, i, u, v), update_window_dims={}, inserted_window_dims={0},
           scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=c
         sa = f32[4] get-tuple-element(s), index=0 sk = s32[4] get-tuple-element(s), index=1
         ROOT r = (f32[4], s32[4]) tuple(sa, sk) }";
    check(text, &[&[-39.0, 2.0, -27.0, 4.0], &[1.0, 0.0, 7.0, 0.0]]);
}

#[test]
fn a_bitcast_reads_the_bytes_in_the_order_of_the_layouts() {
    let text = "ENTRY e {
         x = s32[2,3]{1,0} constant({ { 1, 2, 3 }, { 4, 5, 6 } })
         a = s32[3,2]{0,1} bitcast(x)
         b = s32[2,3]{0,1} bitcast(x)
         c = f32[] constant(1)
         d = s32[] bitcast(c)
         w = u16[2,2,3]{0,2,1} bitcast(x)
         ROOT r = (s32[3,2], s32[2,3], s32[], u16[2,2,3]) tuple(a, b, d, w) }";
    let parts = [1., 2., 3., 4., 5., 6., 0., 0., 0., 0., 0., 0.];
    check(text, &[&[1., 4., 2., 5., 3., 6.], &[1., 3., 5., 2., 4., 6.], &[1_065_353_216.], &parts]);
}
