//! The cost of a program, shown. In: an [`Estimate`]. Out: text for people, or every number as JSON.

use murre_components::estimate::{DynamicUse, Estimate, TripBasis};
use serde_json::Value;
use std::fmt::Write;

/// Every number of the estimate.
pub fn estimate_json(estimate: &Estimate) -> Value {
    // Strings, numbers and lists of them: this has no way to fail.
    serde_json::to_value(estimate).unwrap_or_default()
}

/// A time in the unit that suits it.
fn time(ns: f64) -> String {
    match ns {
        _ if ns > 0.0 && ns < 10.0 => format!("{ns:.1} ns"),
        _ if ns < 1e4 => format!("{ns:.0} ns"),
        _ if ns < 1e7 => format!("{:.1} us", ns / 1e3),
        _ if ns < 1e10 => format!("{:.1} ms", ns / 1e6),
        _ => format!("{:.1} s", ns / 1e9),
    }
}

/// A number of bytes in the unit that suits it.
fn bytes(n: u64) -> String {
    let x = n as f64;
    match n {
        0..=9_999 => format!("{n} B"),
        _ if x < 1e7 => format!("{:.1} kB", x / 1e3),
        _ if x < 1e10 => format!("{:.1} MB", x / 1e6),
        _ => format!("{:.1} GB", x / 1e9),
    }
}

fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

fn basis(basis: TripBasis) -> &'static str {
    match basis {
        TripBasis::Exact => "exact",
        TripBasis::Given => "as given",
        TripBasis::Capped => "the bound: --trips is more than that",
        TripBasis::Bound => "the bound",
        TripBasis::Branch => "branch, taken",
        TripBasis::Once => "assumed: no bound, see --trips",
    }
}

/// The estimate in a page.
pub fn estimate_text(e: &Estimate) -> String {
    let mut out = String::new();
    let model = e.cost_model.name();
    let _ = writeln!(out, "{} for {}, cost model {model}: {}", e.name, e.target, time(e.total_ns));
    let r = &e.roofline;
    let must = r.parameter_bytes + r.output_bytes + r.constant_bytes;
    let ratio = r.ratio.map_or("-".to_owned(), |x| format!("{x:.1}"));
    let _ = writeln!(
        out,
        "roofline: {} to move at {} GB/s, {}; the estimate is {ratio} times that",
        bytes(must),
        r.bandwidth,
        time(r.ns)
    );
    let _ = writeln!(
        out,
        "  parameters {}, outputs {}, constants {}",
        bytes(r.parameter_bytes),
        bytes(r.output_bytes),
        bytes(r.constant_bytes)
    );
    let h = &e.held_by;
    let _ = writeln!(
        out,
        "held by: {} adds {} of the time; {} is busy longest, {}",
        h.waits_for,
        percent(h.waits_share),
        h.resource,
        percent(h.busy_share)
    );
    let _ = writeln!(
        out,
        "\n{:<10} {:>10} {:>7} {:>10} {:>9} {:>9}",
        "", "busy", "share", "adds", "records", "run"
    );
    for u in &e.resources {
        let count = |n: u64| if n == 0 { "-".to_owned() } else { n.to_string() };
        let _ = writeln!(
            out,
            "{:<10} {:>10} {:>7} {:>10} {:>9} {:>9}",
            u.name,
            time(u.busy_ns),
            percent(u.busy_share),
            time(u.adds_ns),
            count(u.records),
            count(u.executed)
        );
    }
    out.push_str("\ninstructions that add most\n");
    for i in &h.instructions {
        let name = if i.name.is_empty() { "(fences and ends)" } else { &i.name };
        let _ = writeln!(out, "  {:<40} {:>10} {:>7}", name, time(i.adds_ns), percent(i.share));
    }
    let d = &e.dma;
    let _ = writeln!(
        out,
        "\nDMA: {} read from DRAM, {} written to it, {} moved",
        bytes(d.read_from_dram),
        bytes(d.written_to_dram),
        bytes(d.moved)
    );
    for r in d.routes.iter().filter(|r| r.transfers > 0) {
        let _ = writeln!(
            out,
            "  route {:<18} {:>9} transfers {:>9} rows {:>10}",
            r.route,
            r.transfers,
            r.rows,
            bytes(r.bytes)
        );
    }
    for q in &d.queues {
        let _ = writeln!(
            out,
            "  queue {:<18} {:>9} transfers {:>10} {:>10} busy",
            q.name,
            q.transfers,
            bytes(q.bytes),
            time(q.busy_ns)
        );
    }
    let s = &e.sizes;
    let _ = writeln!(
        out,
        "sizes: {} records, {} descriptors in {} blocks, {} ADDR4 words, {} register operations ({} run)",
        s.records, s.descriptors, s.blocks, s.addr4_words, s.register_ops, s.register_ops_executed
    );
    let _ = writeln!(
        out,
        "  a partition: {} of SBUF, {} of PSUM at the peak",
        bytes(s.sbuf_peak_bytes),
        bytes(s.psum_peak_bytes)
    );
    dynamic(&mut out, e);
    let w = &e.work;
    let _ = writeln!(out, "work: {:.0} operations, {:.0} bytes produced", w.flops, w.bytes);
    if !e.loops.is_empty() {
        out.push_str("loops\n");
    }
    for l in &e.loops {
        let name = format!("{:indent$}{}", "", l.name, indent = 2 * usize::from(l.depth.min(20)));
        let _ = writeln!(out, "  {name:<40} {:>7} trips  {}", l.trips, basis(l.basis));
    }
    if e.counts_cut_off {
        out.push_str("counts are cut off at 18446744073709551615: with so many trips the numbers above are no counts\n");
    }
    out
}

/// Instructions of which [`dynamic`] tells, those with the largest extra cost.
const DYNAMIC_ROWS: usize = 8;

/// What is known at run time only, and what it costs beside the same at constant offsets.
fn dynamic(out: &mut String, e: &Estimate) {
    if e.dynamic.is_empty() {
        return;
    }
    out.push_str("\nwhat is dynamic costs (sums over trips and engines, beside other work)\n");
    let _ = writeln!(
        out,
        "  {:<32} {:>9} {:>8} {:>10} {:>10} {:>11} {:>10} {:>10}",
        "", "accesses", "route", "bytes", "registers", "generation", "constant", "extra"
    );
    let mut rows: Vec<&DynamicUse> = e.dynamic.iter().collect();
    rows.sort_by(|a, b| b.extra_ns.total_cmp(&a.extra_ns));
    let count = |n: u64| if n == 0 { "-".to_owned() } else { n.to_string() };
    for d in rows.iter().take(DYNAMIC_ROWS) {
        let route = if d.routes.is_empty() { "loop".to_owned() } else { d.routes.join("+") };
        let _ = writeln!(
            out,
            "  {:<32} {:>9} {:>8} {:>10} {:>10} {:>11} {:>10} {:>10}",
            d.name,
            count(d.copies),
            route,
            bytes(d.bytes),
            count(d.register_ops + d.branches + d.scalar_loads),
            time(d.generation_ns),
            time(d.constant_ns),
            time(d.extra_ns)
        );
    }
    if rows.len() > DYNAMIC_ROWS {
        let _ = writeln!(out, "  and {} more, see --json", rows.len() - DYNAMIC_ROWS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_suit_their_numbers() {
        assert_eq!([time(0.0), time(4.6)], ["0 ns", "4.6 ns"]);
        assert_eq!([time(9999.0), time(12_345.0), time(2.5e8)], ["9999 ns", "12.3 us", "250.0 ms"]);
        assert_eq!([bytes(512), bytes(65_536), bytes(20_000_000)], ["512 B", "65.5 kB", "20.0 MB"]);
        assert_eq!(percent(0.1234), "12.3%");
    }
}
