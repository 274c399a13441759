use murre::systems::*;
fn main() {
    let n: u32 = std::env::args().nth(1).unwrap().parse().unwrap();
    let mut c = murre::systems::synth::synthetic(n, 7);
    let t = std::time::Instant::now();
    let mut last = String::new();
    c.run_stages_stepwise(&Stage::ALL[5..], |p, d, w| {
        {
            println!(
                "{:32} {:8.2} ms  order {}",
                p.name,
                d.as_secs_f64() * 1e3,
                w.resource::<murre::components::bir::Order>().0.len()
            );
        }
        last = p.name.into();
    });
    println!("total {:?} last {last} {:?}", t.elapsed(), c.finish().diagnostics.first());
}
