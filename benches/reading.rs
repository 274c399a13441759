//! Executed instructions of the reader and the verifier on generated modules, counted by callgrind. In: a module of `n`
//! instructions as text or proto. Out: counts, which `scripts/budgets` holds to the committed ones; two
//! sizes show whether the cost stays linear.

mod modules;

use bytes::Bytes;
use iai_callgrind::{library_benchmark, library_benchmark_group, main};
use modules::{proto_of, straight_line};
use murre::components::hlo::HloModule;
use std::hint::black_box;

fn text_of(n: usize) -> Bytes {
    Bytes::from(straight_line(n))
}

fn module_of(n: usize) -> HloModule {
    murre::hlo::read_text(&straight_line(n), "generated").unwrap_or_default()
}

fn bytes_of(n: usize) -> Bytes {
    Bytes::from(proto_of(&module_of(n)))
}

#[library_benchmark]
#[bench::text_1k(args = (1_000), setup = text_of)]
#[bench::text_100k(args = (100_000), setup = text_of)]
#[bench::proto_1k(args = (1_000), setup = bytes_of)]
#[bench::proto_100k(args = (100_000), setup = bytes_of)]
fn read(input: Bytes) -> usize {
    black_box(murre::hlo::read_shared(&input, "generated").map_or(0, |m| m.len()))
}

#[library_benchmark]
#[bench::verify_100k(args = (100_000), setup = module_of)]
fn verify(module: HloModule) -> usize {
    black_box(murre::hlo::verify(&module).len())
}

#[library_benchmark]
#[bench::print_10k(args = (10_000), setup = module_of)]
fn print(module: HloModule) -> usize {
    black_box(murre::hlo::print_module(&module).len())
}

library_benchmark_group!(name = reading; benchmarks = read, verify, print);

main!(library_benchmark_groups = reading);
