use murre::systems::*;
fn main() {
    for case in std::env::args().skip(1) {
        for file in ["module.hlo.txt"] {
            let bytes = std::fs::read(format!("{case}/{file}")).unwrap();
            let m = match murre::hlo::read_module(&bytes, &case) {
                Ok(m) => m,
                Err(e) => {
                    println!(
                        "{case}: READ {:?}",
                        e.iter().map(|d| format!("{} {}", d.code.id, d.message)).collect::<Vec<_>>()
                    );
                    continue;
                }
            };
            let v = murre::hlo::verify(&m);
            if !v.is_empty() {
                println!("{case}: VERIFY {:?}", v[0]);
                continue;
            }
            let mut c =
                Compiler::new(m, CompileOptions { verify: true, stop_after: None, ..Default::default() });
            let mut names = vec![];
            c.run_stepwise(|p, _, w| {
                if p.name == "alloc_semaphores" {
                    println!("{:?}", w.resource::<murre::systems::staging::Counts>());
                }
                names.push((
                    p.name,
                    w.resource::<murre::systems::staging::Counts>().insts,
                    w.resource::<murre::components::bir::Order>().0.len(),
                ))
            });
            let o = c.finish();
            println!(
                "{case}: {:?} {:?}",
                o.diagnostics
                    .iter()
                    .map(|d| format!("{} {:?} {}", d.code.id, d.instruction, d.message))
                    .collect::<Vec<_>>(),
                names.last()
            );
        }
    }
}
