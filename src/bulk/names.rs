//! Names apart from structure. In: a program that was compiled from a module with marks, and the names of a module. Out: the
//! program as if the module itself had been compiled.
//!
//! ```text
//! marked  %\u{1}4\u{2} = add(...)      provenance "\u{1}4\u{2}.lo", source "\u{1}s9\u{2}"
//! named   %add.12  = add(...)      provenance "add.12.lo",    source "model.py:3"
//! ```
//!
//! A mark is a control character, a number and another control character; a name that has control characters is never
//! taken apart from its structure.

use murre_components::hash::seeded_map;
use murre_components::hlo::HloModule;
use murre_components::program::Program;
use std::borrow::Cow;

/// The marks.
pub(super) mod mark {
    /// Begins a mark.
    pub const BEGIN: char = '\u{1}';
    /// Ends a mark.
    pub const END: char = '\u{2}';
    /// Stands for the module's name.
    pub const MODULE: &str = "\u{1}m\u{2}";

    /// Stands for the name of instruction `id`.
    pub fn name(id: u32) -> String {
        format!("{BEGIN}{id}{END}")
    }

    /// Stands for the source of instruction `id`.
    pub fn source(id: u32) -> String {
        format!("{BEGIN}s{id}{END}")
    }
}

/// The names and sources of a module, by instruction.
pub struct Names {
    module: String,
    names: Vec<String>,
    sources: Vec<String>,
    /// The first instruction that has the name of this one.
    same: Vec<u32>,
}

impl Names {
    /// The names of a module; `None` when its own name could be taken for a mark.
    pub fn of(module: &HloModule) -> Option<Names> {
        let mut first = seeded_map();
        let same = module.insts().map(|i| *first.entry(i.name()).or_insert(i.id.0)).collect();
        let names = module.insts().map(|i| i.name().to_owned()).collect();
        let sources = module.insts().map(|i| i.source().unwrap_or_default()).collect();
        let plain = !module.name.contains(char::is_control);
        plain.then(|| Names { module: module.name.clone(), names, sources, same })
    }

    /// Every instruction's name.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// For each instruction the first one with its name.
    pub fn pattern(&self) -> &[u32] {
        &self.same
    }

    /// The program with these names instead of marks.
    pub fn give(&self, marked: &Program) -> Program {
        let mut program = marked.clone();
        self.replace(&mut program.name);
        program.vars.iter_mut().for_each(|v| self.replace(&mut v.name));
        program.symbols.iter_mut().for_each(|s| self.replace(&mut s.name));
        program.extents.checks.iter_mut().for_each(|c| self.replace(&mut c.instruction));
        for texts in [&mut program.provenance.names, &mut program.provenance.sources] {
            *texts = texts.iter().map(|t| self.replaced(t)).collect();
        }
        program
    }

    fn replace(&self, text: &mut String) {
        if let Cow::Owned(new) = self.replaced(text) {
            *text = new;
        }
    }

    fn replaced<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut parts = text.split(mark::BEGIN);
        let mut out = parts.next().unwrap_or("").to_owned();
        let mut marks = 0;
        for part in parts {
            marks += 1;
            let (what, rest) = part.split_once(mark::END).unwrap_or((part, ""));
            out.push_str(self.meaning(what));
            out.push_str(rest);
        }
        if marks > 0 { out.into() } else { text.into() }
    }

    fn meaning(&self, what: &str) -> &str {
        fn entry<'n>(table: &'n [String], number: &str) -> &'n str {
            number.parse().ok().and_then(|k: usize| table.get(k)).map_or("", |t| t)
        }
        match what.strip_prefix('s') {
            _ if what == "m" => &self.module,
            Some(number) => entry(&self.sources, number),
            None => entry(&self.names, what),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use murre_components::engine::Target;

    #[test]
    fn marks_are_replaced_wherever_they_stand() {
        let text = "HloModule net ENTRY e { x = f32[] parameter(0), metadata={op_name=\"in\"} ROOT y.1 = f32[] add(x, x) }";
        let names = Names::of(&crate::hlo::read_module(text.as_bytes(), "test").expect("a module"))
            .expect("plain names");
        let mut program = Program::empty(mark::MODULE, Target::Trn2);
        program.provenance.names =
            [&format!("{}/{}.lo", mark::name(0), mark::name(1)), "f32"].into_iter().collect();
        program.provenance.sources = [mark::source(0), mark::source(1)].into_iter().collect();
        let named = names.give(&program);
        assert_eq!(named.name, "net");
        assert_eq!(named.provenance.names.iter().collect::<Vec<_>>(), ["x/y.1.lo", "f32"]);
        assert_eq!(named.provenance.sources.iter().collect::<Vec<_>>(), ["in", ""]);
    }
}
