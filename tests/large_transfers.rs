//! Windows with run-time offsets that one record cannot move: runs past 65,536 bytes, more rows than a ring holds, more
//! dimensions than a record has, vectors of more offsets than a ring has descriptors. Compiled with every check,
//! simulated and compared with the evaluator. Facts: `spec/ir.md 9.1, 9.3`, D1, D3.

mod support;

use murre::components::engine::{SWDGE_RING_DEPTH, Target};
use murre::components::isa::{Instr, decode};
use murre::components::program::Program;
use support::{Verdict, compiled, judge, module};

/// Judges an entry computation and returns the program that generation 3 runs.
fn equal(entry: &str) -> Program {
    let text = format!(
        "HloModule m\n\nadd {{\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT r = f32[] add(a, b)\n}}\n\n\
         take {{\n  a = f32[] parameter(0)\n  ROOT b = f32[] parameter(1)\n}}\n\nENTRY main {{\n{entry}}}\n"
    );
    match judge(&text, &[true], 11) {
        Verdict::Equal => {}
        other => panic!("{other:?}\n{text}"),
    }
    compiled(&module(&text), Target::Trn2)
}

/// Rows of every transfer with an offset register or an index vector, in the order of Pool's stream.
fn generated_rows(p: &Program) -> Vec<u32> {
    let of = |r: &[u8; 64]| match decode(r) {
        Ok((Instr::DmaDirect(d), _))
            if d.dge_op != 0 || d.src_bound.register.or(d.dst_bound.register).is_some() =>
        {
            Some(u32::from(d.src_num[0]) * u32::from(d.src_num[1]))
        }
        _ => None,
    };
    p.streams[0].iter().filter_map(of).collect()
}

/// Records of the generated transfers: together they have at least `rows` rows, and none passes the ring.
fn cut(p: &Program, rows: u32) -> usize {
    let all = generated_rows(p);
    assert!(all.iter().sum::<u32>() >= rows, "{all:?}");
    assert!(all.iter().all(|n| *n <= SWDGE_RING_DEPTH), "{all:?}");
    all.len()
}

#[test]
fn a_run_of_many_descriptors() {
    // 75,001 = 179 * 419 elements are cut evenly.
    let p = equal(
        "  x = f32[90000] parameter(0)
  i = s32[] parameter(1)
  ROOT r = f32[75001] dynamic-slice(x, i), dynamic_slice_sizes={75001}
",
    );
    assert!(cut(&p, 5) == 1, "300,004 bytes are at least five descriptors, and one record says them");
    // A prime number of elements: full runs and a rest.
    let p = equal(
        "  x = f32[40000] parameter(0)
  u = f32[32771] parameter(1)
  i = s32[] parameter(2)
  ROOT r = f32[40000] dynamic-update-slice(x, u, i)
",
    );
    assert!(cut(&p, 3) > 1);
}

#[test]
fn more_rows_than_the_ring_holds() {
    let p = equal(
        "  x = f32[2000,8] parameter(0)
  i = s32[] parameter(1)
  z = s32[] constant(0)
  ROOT r = f32[2000,4] dynamic-slice(x, z, i), dynamic_slice_sizes={2000,4}
",
    );
    assert!(cut(&p, 2000) > 1);
    let p = equal(
        "  x = f32[1600,9] parameter(0)
  u = f32[1500,3] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  ROOT r = f32[1600,9] dynamic-update-slice(x, u, i, j)
",
    );
    assert!(cut(&p, 1500) > 1);
}

#[test]
fn more_dimensions_than_a_record_has() {
    let p = equal(
        "  x = f32[6,20,30,7] parameter(0)
  i = s32[] parameter(1)
  j = s32[] parameter(2)
  z = s32[] constant(0)
  ROOT r = f32[3,11,20,5] dynamic-slice(x, i, j, z, i), dynamic_slice_sizes={3,11,20,5}
",
    );
    assert!(cut(&p, 660) > 1);
}

#[test]
fn more_offsets_than_the_ring_holds() {
    let p = equal(
        "  x = f32[50,4] parameter(0)
  i = s32[1500,1] parameter(1)
  ROOT r = f32[1500,4] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, \
         index_vector_dim=1, slice_sizes={1,4}
",
    );
    assert!(cut(&p, 1500) > 1);
    for region in ["add", "take"] {
        let p = equal(&format!(
            "  x = f32[3000,4] parameter(0)
  n = s32[1500,1] iota(), iota_dimension=0
  c = s32[] constant(2)
  cb = s32[1500,1] broadcast(c), dimensions={{}}
  i = s32[1500,1] multiply(n, cb)
  u = f32[1500,4] parameter(1)
  ROOT r = f32[3000,4] scatter(x, i, u), update_window_dims={{1}}, inserted_window_dims={{0}}, \
             scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply={region}
"
        ));
        assert!(cut(&p, 1500) > 1);
    }
}

/// Operators of all extension records.
fn operators(p: &Program) -> Vec<u8> {
    let of = |r: &[u8; 64]| match decode(r) {
        Ok((Instr::DmaExtension(e), _)) => Some(e.compute),
        _ => None,
    };
    p.streams.iter().flatten().filter_map(of).collect()
}

#[test]
fn transfers_add_and_everything_else_is_combined_by_instructions() {
    let text = |op: &str| {
        format!(
            "HloModule m\n\nregion {{\n  a = s32[] parameter(0)\n  b = s32[] parameter(1)\n  \
             ROOT r = s32[] {op}(a, b)\n}}\n\nENTRY main {{\n  x = s32[9,4] parameter(0)\n  i = s32[5,1] parameter(1)\n  \
             u = s32[5,4] parameter(2)\n  ROOT r = s32[9,4] scatter(x, i, u), update_window_dims={{1}}, \
             inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=region\n}}\n"
        )
    };
    for (op, extensions) in [("add", vec![1]), ("multiply", vec![]), ("maximum", vec![]), ("minimum", vec![])]
    {
        assert_eq!(judge(&text(op), &[true], 13), Verdict::Equal, "{op}");
        assert_eq!(operators(&compiled(&module(&text(op)), Target::Trn2)), extensions, "{op}");
    }
    // Generation 5 has no arithmetic in its transfers at all.
    assert_eq!(operators(&compiled(&module(&text("add")), Target::CoreV5)), [0u8; 0]);
}
