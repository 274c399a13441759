//! A few modules at a time. In: units. Out: of each its manifest row, its artifact's bytes, and where its program came from.
//! A worker has a world of its own and uses it for every module, for small ones together ([`super::together`]); after a panic
//! it takes a new one.

use super::cache::{Cache, Lookup};
use super::identity::{Identity, Key, marked};
use super::manifest::{Artifact, Row, Status};
use super::memo::Memo;
use super::plan::Unit;
use super::together::{BYTES, Together};
use crate::{artifact, check};
use bytes::Bytes;
use murre_components::diag::{Diagnostic, codes::cli, codes::internal::INTERNAL};
use murre_components::hash::{SeededMap, seeded_map};
use murre_components::hlo::HloModule;
use murre_components::program::Program;
use murre_systems::{CompileOptions, Compiler, Lean, Stage};
use parking_lot::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where a module's program came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// It was compiled.
    Compiled,
    /// A module of this run has the same structure.
    Shared,
    /// From the cache.
    Cached,
    /// From the run that this one resumes.
    Resumed,
}

/// What the workers of a run share.
pub struct Shared {
    /// Options of every compilation.
    pub options: CompileOptions,
    /// [`super::identity::settings`] of the options.
    pub settings: Key,
    /// The output folder.
    pub out: PathBuf,
    /// Programs of this run.
    pub memo: Memo,
    /// Programs of every run.
    pub cache: Option<Cache>,
    /// Whether programs that were not compiled are compared with a compilation.
    pub verify: bool,
    /// Rows of the run that this one resumes, by input.
    pub prior: SeededMap<String, Row>,
    /// Cache entries that were not what was written.
    pub damaged: AtomicU64,
    /// Why the cache did not take an entry, the last time it did not.
    pub cache_fault: Mutex<Option<String>>,
}

/// A module that is done.
pub struct Done {
    /// Its row.
    pub row: Row,
    /// Where its program came from.
    pub origin: Origin,
    /// The artifact, when it must be written.
    pub bytes: Option<Vec<u8>>,
}

/// A worker.
pub struct Worker<'s> {
    pub(super) shared: &'s Shared,
    pub(super) compiler: Option<Compiler>,
    /// Programs of structures that were compiled together and have not been asked for yet.
    pub(super) ahead: SeededMap<Key, Program>,
    /// How many modules share a world.
    pub(super) together: Together,
}

/// A unit that is being worked on.
pub(super) enum Taken {
    /// There was nothing to compile.
    Done(Box<Done>),
    /// A good module.
    Read(Box<Reading>),
}

impl Taken {
    /// Bytes of the module that is kept.
    fn bytes(&self) -> usize {
        match self {
            Taken::Done(_) => 0,
            Taken::Read(reading) => reading.bytes,
        }
    }
}

/// A module that was read.
pub(super) struct Reading {
    digest: String,
    /// Bytes of the file.
    bytes: usize,
    pub(super) module: HloModule,
    pub(super) identity: Identity,
}

impl<'s> Worker<'s> {
    /// A worker without a world: it makes one when a module has to be compiled.
    pub fn new(shared: &'s Shared) -> Self {
        Worker { shared, compiler: None, ahead: seeded_map(), together: Together::new(&shared.options) }
    }

    /// Does some units, and tells `each` of them, in their order, until it says no.
    pub fn several(&mut self, units: &[Unit], mut each: impl FnMut(usize, Done) -> bool) {
        let mut done = 0;
        while done < units.len() {
            let (mut taken, mut bytes) = (Vec::new(), 0);
            while let Some(unit) = units.get(done + taken.len())
                && (taken.is_empty() || (taken.len() < self.together.size() && bytes < BYTES))
            {
                let one = self.take_up(unit);
                bytes += one.bytes();
                taken.push(one);
            }
            self.compile_together(&taken);
            for taken in taken {
                let unit = &units[done];
                let one = match taken {
                    Taken::Done(done) => *done,
                    Taken::Read(reading) => self.finish(unit, *reading),
                };
                if !each(done, one) {
                    return;
                }
                done += 1;
            }
            self.ahead.clear();
        }
    }

    /// A unit that failed.
    fn failed(&self, unit: &Unit, digest: &str, mut faults: Vec<Diagnostic>) -> Done {
        for d in &mut faults {
            d.file.get_or_insert_with(|| unit.input.display().to_string());
        }
        let settings = self.shared.settings.to_hex().to_string();
        Done {
            row: Row::failed(&unit.input, digest.to_owned(), settings, &faults),
            origin: Origin::Compiled,
            bytes: None,
        }
    }

    /// Reads a unit's module.
    fn take_up(&self, unit: &Unit) -> Taken {
        let bytes = match std::fs::read(&unit.input) {
            Ok(bytes) => Bytes::from(bytes),
            Err(e) => {
                let fault = Diagnostic::error(&cli::CLI_FILE, format!("the file cannot be read: {e}"));
                return Taken::Done(Box::new(self.failed(unit, "", vec![fault])));
            }
        };
        let digest = blake3::hash(&bytes).to_hex().to_string();
        if let Some(row) = self.resumed(unit, &digest) {
            return Taken::Done(Box::new(Done { row, origin: Origin::Resumed, bytes: None }));
        }
        let read = contained(|| {
            let module = check::verified_module(&bytes, &unit.input.display().to_string())?;
            let identity = Identity::of(&module, &self.shared.settings);
            Ok((module, identity))
        });
        match read.unwrap_or_else(|bug| Err(vec![bug])) {
            Ok((module, identity)) => {
                Taken::Read(Box::new(Reading { digest, bytes: bytes.len(), module, identity }))
            }
            Err(faults) => Taken::Done(Box::new(self.failed(unit, &digest, faults))),
        }
    }

    /// Finds or makes the program of a module that was read.
    fn finish(&mut self, unit: &Unit, reading: Reading) -> Done {
        let Reading { digest, module, identity, .. } = reading;
        let instructions = module.len();
        let built = contained(|| self.program(module, &identity)).unwrap_or_else(|bug| Err(vec![bug]));
        let (program, origin) = match built {
            Ok(built) => built,
            Err(faults) => return self.failed(unit, &digest, faults),
        };
        let bytes = artifact::write(&program);
        let row = Row {
            input: unit.input.display().to_string(),
            input_blake3: digest,
            settings: self.shared.settings.to_hex().to_string(),
            status: Status::Ok,
            code: None,
            diagnostics: Vec::new(),
            artifact: Some(Artifact {
                output: output_name(unit),
                output_blake3: blake3::hash(&bytes).to_hex().to_string(),
                bytes: bytes.len() as u64,
                key: identity.key.to_hex().to_string(),
                instructions: instructions as u64,
                records: program.streams.iter().map(|s| s.len() as u64).sum(),
                descriptors: program.descriptors.len() as u64,
                words: program.addr4.len() as u64,
            }),
        };
        let mut done = Done { row, origin, bytes: Some(bytes) };
        if self.shared.verify && origin != Origin::Compiled {
            self.compare(unit, &identity, &mut done);
        }
        done
    }

    /// The row of an earlier run, when input, options and output are what they were.
    fn resumed(&self, unit: &Unit, digest: &str) -> Option<Row> {
        let row = self.shared.prior.get(&unit.input.display().to_string())?;
        if row.input_blake3 != digest || row.settings != self.shared.settings.to_hex().as_str() {
            return None;
        }
        let whole = match (&row.artifact, row.status) {
            (Some(a), Status::Ok) => {
                let bytes = std::fs::read(self.shared.out.join(&a.output)).ok()?;
                a.output == output_name(unit) && blake3::hash(&bytes).to_hex().as_str() == a.output_blake3
            }
            (None, Status::Refused) => true,
            _ => false,
        };
        whole.then(|| row.clone())
    }

    /// The program of a module, with its own names.
    fn program(
        &mut self,
        module: HloModule,
        identity: &Identity,
    ) -> Result<(Program, Origin), Vec<Diagnostic>> {
        let (stored, origin) = self.stored(&module, identity);
        let program = match (stored, &identity.names) {
            (Some(program), Some(names)) => names.give(&program),
            (Some(program), None) => Arc::unwrap_or_clone(program),
            // What is said of a module must carry its own names.
            (None, _) => self.compile(module)?,
        };
        Ok((program, origin))
    }

    /// The program of a module's structure, from wherever it is; `None` when it does not compile.
    fn stored(&mut self, module: &HloModule, identity: &Identity) -> (Option<Arc<Program>>, Origin) {
        let shared = self.shared;
        let mut origin = Origin::Shared;
        let (program, _) = shared.memo.get(identity.key, || {
            origin = Origin::Cached;
            match shared.cache.as_ref().map(|c| c.get(&identity.key)) {
                Some(Lookup::Hit(program)) => return Some(*program),
                Some(Lookup::Damaged) => _ = shared.damaged.fetch_add(1, Ordering::Relaxed),
                Some(Lookup::Miss) | None => {}
            }
            origin = Origin::Compiled;
            let program = self.structure(module, identity)?;
            self.keep(identity, &program);
            Some(program)
        });
        (program, origin)
    }

    /// Compiles the structure of a module.
    fn structure(&mut self, module: &HloModule, identity: &Identity) -> Option<Program> {
        match self.ahead.remove(&identity.key) {
            Some(program) => Some(program),
            None => self.compile(anonymous(module, identity)).ok(),
        }
    }

    fn keep(&self, identity: &Identity, program: &Program) {
        if let Some(cache) = &self.shared.cache
            && let Err(e) = cache.put(&identity.key, program)
        {
            *self.shared.cache_fault.lock() = Some(e.to_string());
        }
    }

    /// Compiles in this worker's world.
    fn compile(&mut self, module: HloModule) -> Result<Program, Vec<Diagnostic>> {
        let options = self.shared.options.clone();
        // It is put back only when the run ends as it should.
        let mut compiler = match self.compiler.take() {
            None => Compiler::new(module, options),
            Some(mut compiler) => {
                compiler.load(module, options);
                compiler
            }
        };
        compiler.world.insert_resource(Lean);
        compiler.run(&Stage::ALL);
        let (program, diagnostics) = compiler.take();
        self.compiler = Some(compiler);
        match program {
            Some(program) => Ok(program),
            None if diagnostics.is_empty() => Err(vec![check::no_program()]),
            None => Err(diagnostics),
        }
    }

    /// Compiles a module whose program was stored, and replaces what was stored when it differs.
    fn compare(&mut self, unit: &Unit, identity: &Identity, done: &mut Done) {
        let again = contained(|| {
            let bytes = std::fs::read(&unit.input).unwrap_or_default().into();
            let module = check::verified_module(&bytes, &unit.input.display().to_string())?;
            let program = self.compile(module.clone())?;
            Ok((module, artifact::write(&program)))
        });
        let fresh = match again.unwrap_or_else(|bug| Err(vec![bug])) {
            Ok((_, fresh)) if done.bytes.as_ref() == Some(&fresh) => return,
            fresh => fresh,
        };
        let fault = Diagnostic::error(
            &cli::BULK_DIFFERS,
            "a stored program is not what the compiler makes of the module",
        )
        .in_file(unit.input.display().to_string())
        .found(format!("stored under {}", identity.key.to_hex()))
        .help("the entry was replaced; run again, and report it if it differs once more");
        if let Ok((module, _)) = fresh
            && let Some(program) = contained(|| self.structure(&module, identity)).ok().flatten()
        {
            self.keep(identity, &program);
        }
        let row = &done.row;
        let failed = Row::failed(&unit.input, row.input_blake3.clone(), row.settings.clone(), &[fault]);
        done.row = Row { status: Status::Differs, ..failed };
        done.bytes = None;
    }
}

/// What is compiled for all modules of a structure.
pub(super) fn anonymous(module: &HloModule, identity: &Identity) -> HloModule {
    identity.names.as_ref().map_or_else(|| module.clone(), |names| marked(module, names))
}

/// The path of a unit's artifact below the output folder.
pub fn output_name(unit: &Unit) -> String {
    format!("{}.mur", unit.name)
}

/// Runs `f`; a panic inside becomes a diagnostic.
pub(super) fn contained<T>(f: impl FnOnce() -> T) -> Result<T, Diagnostic> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|payload| {
        let text = payload.downcast_ref::<&str>().map(|s| s.to_string());
        let what =
            text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".into());
        Diagnostic::error(&INTERNAL, format!("the program panicked: {what}")).help(
            "this is a bug of murre, not of the input: please report it with the module and the command line",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_diagnostic_of_its_module() {
        let fault = contained(|| -> u32 { panic!("row {}", 7) }).expect_err("a diagnostic");
        assert_eq!((fault.code.id, fault.message.as_str()), ("MUR1001", "the program panicked: row 7"));
        assert_eq!(contained(|| 3).ok(), Some(3));
    }
}
