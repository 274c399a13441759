//! Gathers of single elements out of small tables run on Pool, without a DMA: compiled, simulated and compared with the
//! evaluator; larger ones stay indirect DMAs. Facts: `spec/ir.md 2.3`, `spec/isa.md 3.6`.

mod support;

use murre::components::engine::Target;
use support::{Verdict, compiled, judge, module};

/// Judges a gather and says which records generation 3 uses: pool gathers and indexed transfers.
fn routes(ty: &str, operand: &str, indices: &str, result: &str, numbers: &str, seed: u64) -> (usize, usize) {
    let text = format!(
        "HloModule m\n\nENTRY main {{\n  x = {ty}[{operand}] parameter(0)\n  i = {indices} parameter(1)\n  \
         ROOT r = {ty}[{result}] gather(x, i), {numbers}\n}}\n"
    );
    match judge(&text, &[true], seed) {
        Verdict::Equal => {}
        other => panic!("{other:?}\n{text}"),
    }
    let p = compiled(&module(&text), Target::Trn2);
    let count = |op: u8| p.streams[0].iter().filter(|r| r[0] == op).count();
    assert_eq!(count(0x67), count(0x68), "each gather loads its table");
    (count(0x68), count(0xDA))
}

const LINE: &str =
    "offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}";

#[test]
fn every_element_type_of_the_path() {
    for ty in ["f32", "bf16", "f16", "s32", "u32", "s16", "u8", "s8"] {
        assert_eq!(routes(ty, "100", "s32[30,1]", "30", LINE, 3), (1, 0), "{ty}");
    }
}

#[test]
fn every_index_type_and_both_limits() {
    for (k, ty) in ["s32", "u32", "s16", "u16", "s8", "u8"].into_iter().enumerate() {
        assert_eq!(routes("f32", "512", &format!("{ty}[512,1]"), "512", LINE, k as u64), (1, 0), "{ty}");
    }
    assert_eq!(routes("f32", "513", "s32[30,1]", "30", LINE, 1), (0, 1), "the table is too long");
    assert_eq!(routes("f32", "100", "s32[513,1]", "513", LINE, 1), (0, 1), "too many are picked");
    assert_eq!(routes("f32", "1", "s32[7,1]", "7", LINE, 1), (1, 0));
}

#[test]
fn tables_of_several_dimensions() {
    let pair = "offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,1}";
    assert_eq!(routes("f32", "9,11", "s32[40,2]", "40", pair, 5), (1, 0));
    let swapped = pair.replace("start_index_map={0,1}", "start_index_map={1,0}");
    assert_eq!(routes("f32", "9,11", "s32[40,2]", "40", &swapped, 5), (1, 0));
    let kept =
        "offset_dims={2}, collapsed_slice_dims={}, start_index_map={0}, index_vector_dim=2, slice_sizes={1}";
    assert_eq!(routes("s32", "33", "s32[5,8,1]", "5,8,1", kept, 6), (1, 0));
    // One index component: the other dimension stays where its window starts.
    let first = "offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={1}, index_vector_dim=1, slice_sizes={1,1}";
    assert_eq!(routes("f32", "3,20", "s32[16,1]", "16", first, 7), (1, 0));
    let rows = "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}";
    assert_eq!(routes("f32", "9,4", "s32[12,1]", "12,4", rows, 8), (0, 1), "rows are moved by DMA");
}

#[test]
fn a_table_that_was_computed_and_a_result_that_is_used() {
    let text = "HloModule m

ENTRY main {
  x = f32[64] parameter(0)
  i = s32[64,1] parameter(1)
  y = f32[64] add(x, x)
  g = f32[64] gather(y, i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}
  h = f32[64] gather(g, i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}
  ROOT r = f32[64] multiply(h, y)
}
";
    assert_eq!(judge(text, &[true], 9), Verdict::Equal);
    let p = compiled(&module(text), Target::Trn2);
    assert_eq!(p.streams[0].iter().filter(|r| r[0] == 0x68).count(), 2);
}
