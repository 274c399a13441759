//! What the story of a value says, over small programs.

use super::*;
use murre_systems::{Compiler, Stage};

const WRITE: &str = "HloModule m\n\nENTRY main {\n  cache = f32[16,8] parameter(0)\n  new = f32[1,8] parameter(1)\n  \
    pos = s32[] parameter(2)\n  zero = s32[] constant(0)\n  below = pred[] compare(pos, zero), direction=LT\n  \
    n = s32[] constant(16)\n  from_end = s32[] add(pos, n)\n  at = s32[] select(below, from_end, pos)\n  \
    ROOT out = f32[16,8] dynamic-update-slice(cache, new, at, zero)\n}\n";

const COUNT: &str = "HloModule m\n\nbody {\n  c = (s32[], s32[], f32[8]) parameter(0)\n  \
    i = s32[] get-tuple-element(c), index=0\n  n = s32[] get-tuple-element(c), index=1\n  \
    a = f32[8] get-tuple-element(c), index=2\n  one = s32[] constant(1)\n  next = s32[] add(i, one)\n  \
    more = f32[8] add(a, a)\n  ROOT t = (s32[], s32[], f32[8]) tuple(next, n, more)\n}\n\ncond {\n  \
    c = (s32[], s32[], f32[8]) parameter(0)\n  i = s32[] get-tuple-element(c), index=0\n  \
    n = s32[] get-tuple-element(c), index=1\n  ROOT go = pred[] compare(i, n), direction=LT\n}\n\nENTRY main {\n  \
    steps = s32[] parameter(0)\n  ten = s32[] constant(10)\n  few = s32[] minimum(steps, ten)\n  \
    a0 = f32[8] parameter(1)\n  zero = s32[] constant(0)\n  \
    start = (s32[], s32[], f32[8]) tuple(zero, few, a0)\n  \
    loop = (s32[], s32[], f32[8]) while(start), condition=cond, body=body\n  \
    ROOT out = f32[8] get-tuple-element(loop), index=2\n}\n";

const ROWS: &str = "HloModule m\n\nENTRY main {\n  table = f32[20,6] parameter(0)\n  ids = s32[5] parameter(1)\n  \
    ROOT out = f32[5,6] gather(table, ids), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, \
    index_vector_dim=1, slice_sizes={1,6}\n}\n";

fn read(text: &'static str) -> HloModule {
    crate::check::verified_module(&bytes::Bytes::from_static(text.as_bytes()), "m").expect("a valid module")
}

fn explain(text: &'static str, value: Option<&str>) -> Result<Explanation, Diagnostic> {
    let module = read(text);
    let mut compiler = Compiler::new(module.clone(), CompileOptions::default());
    compiler.run(&Stage::ALL);
    let mut outcome = compiler.finish();
    assert!(outcome.program.is_some(), "{:?}", outcome.diagnostics);
    Explanation::of(&mut outcome, &module, value)
}

fn story(text: &'static str, value: &str) -> Story {
    match explain(text, Some(value)) {
        Ok(Explanation::Story(story)) => *story,
        other => panic!("{other:?}"),
    }
}

fn observed(text: &'static str, value: &str, inputs: &[Vec<u8>]) -> Story {
    let mut story = story(text, value);
    let program = murre_systems::compile(read(text), CompileOptions::default()).program.expect("a program");
    story.observe(&program, inputs).expect("a run");
    story
}

fn s32(v: i32) -> Vec<u8> {
    v.to_le_bytes().to_vec()
}

#[test]
fn a_position_is_followed_to_its_access() {
    let story = story(WRITE, "%pos");
    let Holder::Memory { home, input: Some(2) } = &story.holder else { panic!("{:?}", story.holder) };
    assert_eq!((home.space, home.bytes, home.address.is_some()), ("dram", 4, true));
    let uses: Vec<&str> = story.uses.iter().map(|u| u.user.as_str()).collect();
    assert_eq!(uses, ["below", "from_end", "at"]);
    assert!(
        story.nodes.iter().any(|n| n.right.as_deref().is_some_and(|r| r.starts_with("dynamic_copy_dst ")))
    );
    assert!(!story.loads.is_empty() && story.loads.iter().all(|s| s.why == Why::Load));
    let whys: Vec<Why> = story.arithmetic.iter().map(|s| s.why).collect();
    let expected = [
        Why::NegativeTest,
        Why::NegativeWrap,
        Why::WrapSelect,
        Why::WrapSelect,
        Why::WrapSelect,
        Why::LowerClamp,
        Why::UpperClamp,
    ];
    assert_eq!(whys.get(..7), Some(&expected[..]), "{whys:?}");
    assert!(story.registers.iter().all(|r| r.colour.is_some()), "{:?}", story.registers);
    let [access] = story.accesses.as_slice() else { panic!("{:?}", story.accesses) };
    assert_eq!(access.step.serves.as_deref(), Some("out"));
    assert!(access.step.record.is_some());
}

#[test]
fn a_run_puts_values_beside_every_step() {
    let cache = vec![0u8; 16 * 8 * 4];
    for (pos, index) in [(3, 3), (-2, 14), (99, 15), (-40, 0)] {
        let story = observed(WRITE, "pos", &[cache.clone(), vec![0; 32], s32(pos)]);
        let last = |why: Why| {
            let step = story.arithmetic.iter().rfind(|s| s.why == why && s.values.is_some());
            step.and_then(|s| s.values.clone()).and_then(|v| v.last)
        };
        assert_eq!(last(Why::NegativeTest), Some(i64::from(pos < 0)), "{pos}");
        assert_eq!(last(Why::UpperClamp), Some(index), "{pos}");
        let access = &story.accesses[0];
        assert_eq!(access.runs, Some(1));
        let place = access.places.first().expect("an access was seen");
        let (terms, constant) = access.symbolic.as_ref().map(|s| (&s.terms, s.constant)).expect("an address");
        let bytes = 4 * terms[0].coef / if access.route.is_some() { 4 } else { 1 };
        if access.route.is_some() {
            assert_eq!(place.offset, constant + bytes * index, "{pos}");
        } else {
            assert_eq!((place.partition, place.byte % 32), (Some(0), 0), "{pos}");
        }
    }
}

#[test]
fn a_limit_has_its_trip_count() {
    let story = observed(COUNT, "steps", &[s32(4), vec![0; 32]]);
    let [l] = story.loops.as_slice() else { panic!("{:?}", story.loops) };
    assert_eq!((l.lower, l.step, l.max_tripcount, l.counter), (Some(0), Some(1), 10, false));
    let upper = l.upper.as_ref().expect("a limit");
    assert_eq!((upper.terms.len(), upper.terms[0].coef, upper.constant), (1, 1, 0));
    let TripBound::Range { value, high: 10, by_type: false, .. } = &l.bound else { panic!("{:?}", l.bound) };
    assert_eq!(value.as_deref(), Some("few"));
    assert_eq!(l.engines.len(), 5);
    assert_eq!(l.branches.len(), 10);
    assert!(l.branches.iter().all(|b| b.record.is_some() && b.target.is_some()), "{:?}", l.branches);
    assert_eq!(l.trips, Some(4));
    let counter = l.engines[0].values.clone().expect("a counter");
    assert_eq!((counter.first, counter.last), (vec![Some(1), Some(2), Some(3)], Some(4)));
}

#[test]
fn a_carried_counter_is_the_axis() {
    let story = story(COUNT, "i");
    assert!(matches!(&story.holder, Holder::LoopCarried { leaf: 0, .. }), "{:?}", story.holder);
    assert!(story.loops.iter().any(|l| l.counter), "{:?}", story.loops);
    // The bound is passed through: it is the outer value.
    let outer = self::story(COUNT, "n");
    assert_eq!(outer.loops.len(), 1);
    assert!(!outer.loops[0].counter);
}

#[test]
fn offsets_of_a_gather_are_followed_to_the_extension_record() {
    let ids: Vec<u8> = [3, 0, 25, -1, 7].into_iter().flat_map(i32::to_le_bytes).collect();
    let story = observed(ROWS, "ids", &[vec![0; 480], ids]);
    assert_eq!(story.holder, Holder::Vector { elements: 5 });
    assert!(story.arithmetic.iter().all(|s| s.why == Why::Element) && !story.arithmetic.is_empty());
    let [access] = story.accesses.as_slice() else { panic!("{:?}", story.accesses) };
    assert_eq!(access.records.len(), 2);
    assert!(access.words.iter().any(|(side, _)| side.ends_with("offsets")), "{:?}", access.words);
    assert_eq!(access.offsets, [3, 0, 19, 0, 7]);
}

#[test]
fn without_a_value_the_scalars_are_listed_and_others_are_refused() {
    let listing = explain(WRITE, None).expect("a listing");
    let Explanation::Listing(rows) = &listing else { panic!("{listing:?}") };
    assert!(rows.iter().any(|r| r.name == "pos" && r.accesses == 1), "{rows:?}");
    assert!(listing.text().contains("pos"));
    let fault = explain(WRITE, Some("po")).expect_err("no such value");
    assert_eq!(fault.code.id, "MUR0903");
    assert!(fault.help.is_some_and(|h| h.contains("did you mean pos")));
    let fault = explain(WRITE, Some("cache")).expect_err("a tensor");
    assert_eq!(fault.code.id, CLI_NO_SCALAR.id);
    assert!(fault.message.contains("f32[16,8]") && fault.help.is_some_and(|h| h.contains("variable 0")));
}

#[test]
fn an_array_with_a_run_time_extent_names_the_value_of_its_size() {
    const SIZED: &str = "HloModule m\n\nENTRY main {\n  x = f32[8] parameter(0)\n  n = s32[] parameter(1)\n  \
        d = f32[<=8] set-dimension-size(x, n), dimensions={0}\n  ROOT e = f32[<=8] negate(d)\n}\n";
    let fault = explain(SIZED, Some("e")).expect_err("a tensor");
    assert!(fault.help.is_some_and(|h| h.contains("dimension 0, at most 8, is n")));
    let story = story(SIZED, "n");
    assert_eq!(story.uses[0].role, "size of a dimension");
}

#[test]
fn the_page_has_every_part() {
    let text = Explanation::Story(Box::new(story(WRITE, "pos"))).text();
    for part in [
        "HLO uses",
        "into registers",
        "lower clamp",
        "upper clamp",
        "negative wrap",
        "memory accesses",
        "--inputs",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let text = Explanation::Story(Box::new(story(COUNT, "steps"))).text();
    assert!(text.contains("trip count: axis i0") && text.contains("at most  10 trips"), "{text}");
}

#[test]
fn what_steers_from_no_register_is_not_called_data() {
    let what = |value| match explain(COUNT, Some(value)) {
        Err(d) => d.message.clone(),
        other => panic!("{other:?}"),
    };
    assert!(what("go").contains("it ends the loop loop"), "{}", what("go"));
    assert!(what("ten").contains("has it as an immediate"), "{}", what("ten"));
    assert!(what("a0").contains("no address and no trip count depends on it"), "{}", what("a0"));
}
