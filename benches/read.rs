//! Speed and memory of the reader: bytes and instructions a second, nanoseconds and bytes of memory an instruction, for
//! generated modules of growing size. In: nothing, or files to read instead as arguments. Out: a table. Wall times
//! are for comparison within one run only; `reading` counts instructions.

mod counting;
mod modules;

use bytes::Bytes;
use counting::{NOW, PEAK};
use modules::{proto_of, straight_line};
use murre::hlo::{read_shared, verify};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

fn row(name: &str, input: &Bytes) {
    let mut best = [f64::INFINITY; 2];
    let (mut peak, mut kept, mut instructions) = (0, 0, 1);
    let began = Instant::now();
    while began.elapsed().as_secs_f64() < 1.0 || best[0].is_infinite() {
        let before = NOW.load(Relaxed);
        PEAK.store(before, Relaxed);
        let start = Instant::now();
        let module = read_shared(input, name).unwrap_or_else(|f| panic!("{name}: {:?}", f.first()));
        best[0] = best[0].min(start.elapsed().as_secs_f64());
        peak = PEAK.load(Relaxed) - before;
        kept = NOW.load(Relaxed) - before;
        instructions = module.len();
        let start = Instant::now();
        assert!(verify(&module).is_empty(), "{name} is not valid");
        best[1] = best[1].min(start.elapsed().as_secs_f64());
    }
    let n = instructions as f64;
    println!(
        "{name:28}{instructions:>10}{:>10}{:10.1}{:10.3}{:10.2}{:10.1}{:10.1}{:10.1}",
        input.len(),
        best[0] * 1e9 / n,
        input.len() as f64 / best[0] / 1e9,
        n / best[0] / 1e6,
        peak as f64 / n,
        kept as f64 / n,
        best[1] * 1e9 / n,
    );
}

fn main() {
    println!(
        "{:28}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}",
        "", "insts", "bytes", "ns/inst", "GB/s", "Minst/s", "B peak", "B kept", "verify ns"
    );
    let files: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let sizes: &[usize] = if files.is_empty() { &[1_000, 10_000, 100_000, 1_000_000] } else { &[] };
    for &n in sizes {
        let text = straight_line(n);
        let module = murre::hlo::read_text(&text, "generated").expect("a module");
        let proto = Bytes::from(proto_of(&module));
        drop(module);
        row(&format!("text {n}"), &Bytes::from(text));
        row(&format!("proto {n}"), &proto);
    }
    for file in files {
        let bytes = std::fs::read(&file).expect("a file");
        row(file.rsplit('/').next().unwrap_or(&file), &Bytes::from(bytes));
    }
}
