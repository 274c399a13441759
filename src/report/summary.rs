//! A compiled program in a few numbers: what `compile` prints and what metric snapshots hold.

use murre_components::engine::EngineId;
use murre_components::program::Program;
use serde_json::{Value, json};

/// Sizes of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    name: String,
    target: &'static str,
    records: [usize; 5],
    descriptors: usize,
    blocks: usize,
    queues: usize,
    words: usize,
    variables: usize,
    constant_bytes: usize,
}

/// The sizes of `program`.
pub fn summary(program: &Program) -> Summary {
    Summary {
        name: program.name.clone(),
        target: program.target.name(),
        records: std::array::from_fn(|k| program.streams[k].len()),
        descriptors: program.descriptors.len(),
        blocks: program.blocks.len(),
        queues: program.queues.len(),
        words: program.addr4.len(),
        variables: program.vars.len(),
        constant_bytes: program.constants.len(),
    }
}

impl Summary {
    /// One line.
    pub fn text(&self) -> String {
        format!(
            "{} for {}: {} records, {} descriptors in {} blocks, {} queues, {} ADDR4 words, {} variables",
            self.name,
            self.target,
            self.records.iter().sum::<usize>(),
            self.descriptors,
            self.blocks,
            self.queues,
            self.words,
            self.variables,
        )
    }

    /// Every number.
    pub fn json(&self) -> Value {
        let streams = EngineId::STREAMS.iter().zip(self.records);
        let records: serde_json::Map<String, Value> =
            streams.map(|(e, n)| (e.name().to_string(), n.into())).collect();
        json!({
            "name": self.name, "target": self.target, "records": records, "descriptors": self.descriptors,
            "blocks": self.blocks, "queues": self.queues, "addr4_words": self.words,
            "variables": self.variables, "constant_bytes": self.constant_bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use murre_components::engine::Target;

    #[test]
    fn counts_are_those_of_the_program() {
        let mut program = Program::empty("m", Target::Trn3);
        program.streams[2].push([0; 64]);
        program.addr4.push(7);
        let s = summary(&program);
        assert!(s.text().starts_with("m for trn3: 1 records, 0 descriptors"));
        assert_eq!(s.json()["records"]["pe"], 1);
        assert_eq!(s.json()["addr4_words"], 1);
    }
}
