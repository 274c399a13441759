//! Inputs that are made to hurt: each ends in diagnostics with a code, within a second and a gibibyte, and without a panic.

use murre::hlo::{print_module, read_module, verify};
use parking_lot::Mutex;
use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Counts allocated bytes and the most there were.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is handed on to the system's allocator unchanged; counting touches two atomics only.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(now, Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// One at a time: memory is counted for the whole process.
static ONE: Mutex<()> = Mutex::new(());

/// The codes that reading, verifying and (where both pass) evaluating give; time and memory are checked.
fn codes(bytes: &[u8]) -> Vec<&'static str> {
    let _one = ONE.lock();
    let (start, before) = (Instant::now(), NOW.load(Relaxed));
    PEAK.store(before, Relaxed);
    let found = match read_module(bytes, "hostile") {
        Err(faults) => faults.iter().map(|d| d.code.id).collect(),
        Ok(module) => {
            let faults = verify(&module);
            if faults.is_empty() {
                print_module(&module);
                let result = murre::eval::evaluate(&module, &[]);
                result.err().unwrap_or_default().iter().map(|d| d.code.id).collect()
            } else {
                faults.iter().map(|d| d.code.id).collect()
            }
        }
    };
    // Unoptimised code has a few times longer.
    let limit = Duration::from_secs(if cfg!(debug_assertions) { 4 } else { 1 });
    assert!(start.elapsed() < limit, "{:?}", start.elapsed());
    let peak = PEAK.load(Relaxed) - before;
    assert!(peak < 1 << 30, "{peak} bytes");
    found
}

fn module(lines: &str) -> String {
    format!("HloModule m\nENTRY e {{\n{lines}\n}}\n")
}

const DEEP: usize = 10_000;

#[test]
fn nesting_of_any_depth_in_text() {
    let nest = |open: &str, inner: &str, close: &str| open.repeat(DEEP) + inner + &close.repeat(DEEP);
    let tuple = nest("(", "f32[]", ")");
    assert_eq!(codes(module(&format!("  p = {tuple} parameter(0)")).as_bytes()), ["MUR0118"]);
    let braces = nest("{", "1", "}");
    assert_eq!(codes(module(&format!("  c = f32[2] constant({braces})")).as_bytes()), ["MUR0112"]);
    for value in
        ["sharding=", "backend_config=", "origin=", "frontend_attributes=", "statistics=", "metadata="]
    {
        let line = format!("  p = f32[] constant(1), {value}{}", nest("{", "", "}"));
        let found = codes(module(&line).as_bytes());
        assert!(found.iter().all(|c| c.starts_with("MUR01")), "{value} {found:?}");
        let open = format!("  p = f32[] constant(1), {value}{}", "{".repeat(DEEP));
        assert!(!codes(module(&open).as_bytes()).is_empty(), "{value}");
    }
    for open in ["(", "{", "[", "/*", "\"", "ENTRY e {", "x = (", "e { a = f32[] constant(", "%"] {
        assert!(!codes(open.repeat(DEEP).as_bytes()).is_empty(), "{open}");
    }
}

#[test]
fn calls_and_tuples_ten_thousand_deep() {
    // Each computation calls the one before.
    let mut text = String::from("HloModule m\nf0 {\n  ROOT c = f32[] constant(1)\n}\n");
    for i in 1..DEEP {
        let _ = write!(text, "f{i} {{\n  ROOT c = f32[] call(), to_apply=f{}\n}}\n", i - 1);
    }
    let _ = write!(text, "ENTRY e {{\n  ROOT c = f32[] call(), to_apply=f{}\n}}\n", DEEP - 1);
    assert_eq!(codes(text.as_bytes()), [""; 0]);
    // A chain of operands as long, and one wide tuple.
    let mut lines = String::from("  v0 = f32[] constant(1)\n");
    for i in 1..DEEP {
        let _ = writeln!(lines, "  v{i} = f32[] negate(v{})", i - 1);
    }
    let all: Vec<String> = (0..DEEP).map(|i| format!("v{i}")).collect();
    let _ = write!(lines, "  ROOT t = ({}) tuple({})", vec!["f32[]"; DEEP].join(", "), all.join(", "));
    assert_eq!(codes(module(&lines).as_bytes()), [""; 0]);
}

#[test]
fn a_module_in_one_line() {
    let mut line = String::from("HloModule m ENTRY e { v0 = f32[] constant(1)");
    for i in 1..20 * DEEP {
        let _ = write!(line, " v{i} = f32[] negate(v{})", i - 1);
    }
    line += " }";
    assert_eq!(codes(line.as_bytes()), [""; 0]);
}

#[test]
fn sizes_that_no_memory_has() {
    let huge = "1099511627776";
    assert_eq!(
        codes(module(&format!("  ROOT i = f32[{huge}] iota(), iota_dimension=0")).as_bytes()),
        ["MUR0305"]
    );
    let lines = format!("  c = f32[] constant(1)\n  ROOT b = f32[{huge}] broadcast(c), dimensions={{}}");
    assert_eq!(codes(module(&lines).as_bytes()), ["MUR0305"]);
    assert_eq!(codes(module(&format!("  ROOT c = f32[{huge}] constant({{1, 2}})")).as_bytes()), ["MUR0112"]);
    assert_eq!(codes(module(&format!("  ROOT p = f32[{huge}] parameter(0)")).as_bytes()), ["MUR0302"]);
    let lines = format!("  ROOT p = f32[{huge},{huge},{huge}] parameter(0)");
    assert_eq!(codes(module(&lines).as_bytes()), ["MUR0201"]);
    assert_eq!(codes(module("  ROOT p = f32[99999999999999999999] parameter(0)").as_bytes()), ["MUR0103"]);
    // A window as large, walked element by element.
    let lines = format!(
        "  c = f32[4] constant({{1, 2, 3, 4}})\n  z = f32[] constant(0)\n  \
         ROOT w = f32[4] reduce-window(c, z), window={{size={} pad={}_0}}, to_apply=add",
        1u64 << 39,
        (1u64 << 39) - 1
    );
    let add = "HloModule m\nadd {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n  ROOT s = f32[] add(x, y)\n}\n";
    let found = codes(format!("{add}ENTRY e {{\n{lines}\n}}\n").as_bytes());
    assert!(found.iter().all(|c| c.starts_with("MUR03")), "{found:?}");
}

#[test]
fn names_that_repeat_and_cycles() {
    let many: String = (0..DEEP).map(|_| "  a = f32[] constant(1)\n").collect();
    let found = codes(module(&many).as_bytes());
    assert!(found.len() <= 64 && found.iter().all(|c| *c == "MUR0108"), "{found:?}");
    assert_eq!(codes(module("  a = f32[] add(b, b)\n  ROOT b = f32[] add(a, a)").as_bytes())[0], "MUR0107");
    assert_eq!(codes(b"HloModule m\nf {\n  ROOT c = f32[] call(), to_apply=f\n}\n"), ["MUR0109"]);
}

/// A field of bytes.
fn field(number: u32, bytes: &[u8]) -> Vec<u8> {
    let mut out = varint(u64::from(number) << 3 | 2);
    out.extend(varint(bytes.len() as u64));
    out.extend_from_slice(bytes);
    out
}

fn varint(mut n: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
    out
}

fn number(field: u32, value: u64) -> Vec<u8> {
    [varint(u64::from(field) << 3), varint(value)].concat()
}

/// A module of one computation with these instructions, the first of which is the root.
fn proto(instructions: &[Vec<u8>]) -> Vec<u8> {
    let all: Vec<u8> = instructions.iter().flat_map(|i| field(2, i)).collect();
    let computation = [field(1, b"e"), all, number(5, 1), number(6, 1)].concat();
    [field(1, b"m"), field(3, &computation), number(6, 1)].concat()
}

#[test]
fn protos_that_nest_claim_and_cycle() {
    let scalar = number(2, 11);
    let constant =
        |shape: &[u8]| [field(1, b"c"), field(2, b"parameter"), field(3, shape), number(35, 1)].concat();
    assert_eq!(codes(&proto(&[constant(&scalar)])), ["MUR0302"]);
    // A shape of tuples, ten thousand deep.
    let mut deep = scalar.clone();
    for _ in 0..DEEP {
        deep = [number(2, 13), field(4, &deep)].concat();
    }
    let found = codes(&proto(&[constant(&deep)]));
    assert_eq!(found, ["MUR0118"]);
    // Lengths of a gigabyte with nothing behind them, at every level.
    let gigabyte = |number: u32| [varint(u64::from(number) << 3 | 2), varint(1 << 30)].concat();
    for claim in [1, 3] {
        let found = codes(&[field(1, b"m"), gigabyte(claim)].concat());
        assert_eq!(found, ["MUR0104"], "{claim}");
    }
    let found = codes(&proto(&[[constant(&scalar), gigabyte(8)].concat()]));
    assert_eq!(found, ["MUR0104"]);
    // An instruction that needs itself, two that need each other, equal ids.
    let add = |name: &[u8], id: u64, operands: &[u64]| {
        let operands: Vec<u8> = operands.iter().flat_map(|o| number(36, *o)).collect();
        [field(1, name), field(2, b"add"), field(3, &scalar), number(35, id), operands].concat()
    };
    assert_eq!(codes(&proto(&[add(b"a", 1, &[1, 1])])), ["MUR0115"]);
    assert_eq!(codes(&proto(&[add(b"a", 1, &[2, 2]), add(b"b", 2, &[1, 1])])), ["MUR0115"]);
    let found = codes(&proto(&[constant(&scalar), add(b"a", 1, &[1, 1])]));
    assert!(found.contains(&"MUR0108"), "{found:?}");
    // A computation that calls itself.
    let call = [field(1, b"c"), field(2, b"call"), field(3, &scalar), number(35, 1), number(38, 1)].concat();
    assert_eq!(codes(&proto(&[call])), ["MUR0115"]);
    // A long chain in the wrong order.
    let mut chain: Vec<Vec<u8>> =
        (1..DEEP as u64).map(|i| add(format!("a{i}").as_bytes(), i, &[i + 1, i + 1])).collect();
    chain.push([field(1, b"p"), field(2, b"parameter"), field(3, &scalar), number(35, DEEP as u64)].concat());
    assert_eq!(codes(&proto(&chain)), ["MUR0302"]);
}
