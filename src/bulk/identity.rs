//! What makes two compilations the same. In: a module, options, the compiler. Out: a key, and a module with marks instead
//! of names that stands for every module with this key.
//!
//! The key is a BLAKE3 digest of the structure: computations, operations, shapes, operands, attributes, literals, kept
//! annotations, which names are equal; of the options that the bytes depend on; and of the running program itself, so that
//! a changed compiler finds nothing of an older one. Names, metadata and places in the text are left out.
//!
//! Passes derive names (`add.3` gives `add.3.lo`) and number them when they are taken, so a mark stands for a name exactly
//! only if no given name looks like a derived one. [`is_plain`] says which do not; a module with others has its names in its key.

use super::names::{Names, mark};
use crate::artifact::FORMAT_VERSION;
use murre_components::hash::seeded_map;
use murre_components::hlo::{Draft, HloModule, StackFrames};
use murre_systems::{CompileOptions, ExecutorChoice};
use std::hash::{Hash, Hasher};
use std::sync::OnceLock;

/// A digest that stands for what was digested.
pub type Key = blake3::Hash;

/// What the bytes of every module of a run depend on beside the module.
pub fn settings(options: &CompileOptions) -> Key {
    // How the passes are run changes no byte, nor does an estimate.
    let steering = CompileOptions {
        executor: ExecutorChoice::Single,
        shuffle: None,
        chaos: None,
        batch_rows: None,
        estimate: None,
        stop_after: None,
        ..options.clone()
    };
    let mut hasher = blake3::Hasher::new_derive_key("murre bulk settings 1");
    hasher.update(format!("{FORMAT_VERSION} {} {steering:?}", env!("CARGO_PKG_VERSION")).as_bytes());
    hasher.update(compiler().as_bytes());
    hasher.finalize()
}

/// Digest of the running program; of its version alone where the system does not let it be read.
fn compiler() -> Key {
    static DIGEST: OnceLock<Key> = OnceLock::new();
    *DIGEST.get_or_init(|| {
        let mut hasher = blake3::Hasher::new();
        let file = std::env::current_exe().and_then(std::fs::File::open);
        let _ = file.and_then(|mut f| std::io::copy(&mut f, &mut hasher));
        hasher.finalize()
    })
}

/// A module's key, and its names when they are not part of it.
pub struct Identity {
    /// The key.
    pub key: Key,
    /// The names that a program of the structure lacks; `None` when the key holds them.
    pub names: Option<Names>,
}

impl Identity {
    /// The identity of a module under `settings`.
    pub fn of(module: &HloModule, settings: &Key) -> Identity {
        let names = Names::of(module).filter(|n| n.all().all(is_plain));
        let mut digest = Digest(blake3::Hasher::new_keyed(settings.as_bytes()));
        structure(module, &mut digest);
        match &names {
            Some(names) => names.pattern().hash(&mut digest),
            None => {
                digest.write_u8(1);
                module.name.hash(&mut digest);
                for inst in module.insts() {
                    (inst.name(), inst.source()).hash(&mut digest);
                }
            }
        }
        Identity { key: digest.0.finalize(), names }
    }
}

/// Whether no pass can derive this name from another: up to the first point anything but what separates, then digits.
pub fn is_plain(name: &str) -> bool {
    let mut parts = name.split('.');
    let stem = parts.next().unwrap_or("");
    !stem.is_empty()
        && !stem.contains(|c: char| c == '/' || c.is_control())
        && parts.all(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()))
}

/// Everything of a module that its program depends on, but the names.
fn structure(module: &HloModule, digest: &mut Digest) {
    (&module.extra, module.entry.0, module.computations.len(), module.len()).hash(digest);
    for comp in &module.computations {
        let parameters: Vec<u32> = comp.parameters.iter().map(|p| p.0).collect();
        (comp.instructions.first, comp.instructions.count, parameters, comp.root.0, &comp.extra).hash(digest);
    }
    // Tables by their ids: each entry is digested once however many instructions share it.
    module.shapes().hash(digest);
    let mut seen = seeded_map::<u32, ()>();
    for inst in module.insts() {
        let draft = inst.draft();
        (draft.op.name(), draft.shape.0, draft.attrs.0).hash(digest);
        draft.operands.iter().for_each(|o| digest.write_u32(o.0));
        draft.called.iter().for_each(|c| digest.write_u32(c.0));
        (draft.operands.len(), draft.called.len(), draft.kept.len()).hash(digest);
        for kept in inst.kept() {
            kept.hash(digest);
        }
        if draft.attrs.is_some() && seen.insert(draft.attrs.0, ()).is_none() {
            inst.attrs().hash(digest);
        }
    }
}

/// The module with marks instead of names and sources.
pub fn marked(module: &HloModule, names: &Names) -> HloModule {
    let mut out = module.emptied();
    out.name = mark::MODULE.to_owned();
    out.frames = StackFrames::default();
    out.reserve(module.len());
    for (inst, same) in module.insts().zip(names.pattern()) {
        let source = out.intern_text(&format!("op_name=\"{}\"", mark::source(inst.id.0)));
        let name = mark::name(*same);
        out.push(Draft { name: &name, metadata: source, line: 0, column: 0, ..inst.draft() });
    }
    out.computations = module.computations.clone();
    out.entry = module.entry;
    out
}

/// A BLAKE3 digest as the hasher of `derive(Hash)`.
struct Digest(blake3::Hasher);

impl Hasher for Digest {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        self.0.count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str, options: &CompileOptions) -> Key {
        let module = crate::hlo::read_module(text.as_bytes(), "test").expect("a module");
        Identity::of(&module, &settings(options)).key
    }

    const A: &str = "HloModule a ENTRY e { x = f32[4] parameter(0) ROOT y.2 = f32[4] add(x, x) }";

    #[test]
    fn names_and_metadata_do_not_count() {
        let o = CompileOptions::default();
        let b = "HloModule b\n\nENTRY main.7 { Arg_0.1 = f32[4] parameter(0), metadata={op_name=\"q\"}
            ROOT add.9 = f32[4] add(Arg_0.1, Arg_0.1) }";
        assert_eq!(key(A, &o), key(b, &o));
    }

    #[test]
    fn everything_else_counts() {
        let o = CompileOptions::default();
        let others = [
            A.replace("f32[4] add", "f32[4] multiply"),
            A.replace("[4]", "[5]"),
            A.replace("y.2", "y.lo"),
            A.replace("add(x, x)", "add(x, x), sharding={replicated}"),
            A.replace("HloModule a", "HloModule a, input_output_alias={ {}: (0, {}, may-alias) }\n"),
        ];
        for other in &others {
            assert_ne!(key(A, &o), key(other, &o), "{other}");
        }
        assert_ne!(key(A, &o), key(A, &CompileOptions { unroll_limit: 3, ..o.clone() }));
        assert_ne!(key(A, &o), key(A, &CompileOptions { verify: true, ..o.clone() }));
        assert_eq!(key(A, &o), key(A, &CompileOptions { executor: ExecutorChoice::Multi, ..o.clone() }));
        let shaken = CompileOptions { shuffle: Some(1), chaos: Some(2), batch_rows: Some(3), ..o.clone() };
        assert_eq!(key(A, &o), key(A, &shaken));
        let constant = |v: &str| format!("HloModule a ENTRY e {{ ROOT y = f32[] constant({v}) }}");
        assert_ne!(key(&constant("1"), &o), key(&constant("2"), &o));
    }

    #[test]
    fn equal_names_are_part_of_the_structure() {
        let o = CompileOptions::default();
        let text = |second: &str| {
            format!(
                "HloModule a f {{ p = f32[] parameter(0) ROOT r = f32[] add(p, p) }}
                ENTRY e {{ {second} = f32[] parameter(0) ROOT c = f32[] call({second}), to_apply=f }}"
            )
        };
        assert_eq!(key(&text("q"), &o), key(&text("z"), &o));
        assert_ne!(key(&text("q"), &o), key(&text("p"), &o));
    }

    #[test]
    fn derived_names_are_not_plain() {
        for plain in ["add", "add.3", "Arg_0.1", "a-b.1.22"] {
            assert!(is_plain(plain), "{plain}");
        }
        for other in ["", "add.lo", "a.3.x1", "a/b", ".3", "a.", "a\u{1}"] {
            assert!(!is_plain(other), "{other}");
        }
    }
}
