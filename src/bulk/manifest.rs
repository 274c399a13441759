//! The manifest: one JSON line a module, in the order of the inputs. It says what became of each and holds nothing that
//! differs between two runs over the same inputs: no times, no paths of the cache, not where a program came from.

use crate::report;
use murre_components::diag::Diagnostic;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// What became of a module.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// There is an artifact.
    Ok,
    /// The module is at fault, or the compiler refuses it.
    Refused,
    /// A bug of ours.
    Internal,
    /// A stored program is not what the compiler makes of the module (`--verify-cache`).
    Differs,
}

/// A line of the manifest.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The input, as it was found.
    pub input: String,
    /// BLAKE3 of the input's bytes; empty when it could not be read.
    pub input_blake3: String,
    /// BLAKE3 of options and compiler.
    pub settings: String,
    /// What became of it.
    pub status: Status,
    /// The code of the first fault.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub code: Option<String>,
    /// Every fault, as `--json` shows it.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub diagnostics: Vec<serde_json::Value>,
    /// The artifact.
    #[serde(flatten)]
    pub artifact: Option<Artifact>,
}

/// What the manifest says of an artifact.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Artifact {
    /// Path below the output folder.
    pub output: String,
    /// BLAKE3 of its bytes.
    pub output_blake3: String,
    /// Its size.
    pub bytes: u64,
    /// Digest of structure, options and compiler: equal for modules that were compiled as one.
    pub key: String,
    /// HLO instructions.
    pub instructions: u64,
    /// Records of all streams.
    pub records: u64,
    /// Descriptor records.
    pub descriptors: u64,
    /// ADDR4 words.
    pub words: u64,
}

impl Row {
    /// A row for a module without an artifact.
    pub fn failed(input: &Path, input_blake3: String, settings: String, faults: &[Diagnostic]) -> Row {
        let internal = faults.iter().any(report::is_internal);
        Row {
            input: input.display().to_string(),
            input_blake3,
            settings,
            status: if internal { Status::Internal } else { Status::Refused },
            code: faults.first().map(|d| d.code.id.to_owned()),
            diagnostics: faults.iter().filter_map(|d| serde_json::to_value(d).ok()).collect(),
            artifact: None,
        }
    }

    /// The line, a line feed at its end.
    pub fn line(&self) -> String {
        // A struct of texts and numbers always serialises.
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }

    /// The row of a line; `None` for a line that was cut.
    pub fn parse(line: &str) -> Option<Row> {
        serde_json::from_str(line).ok()
    }
}

/// Name of the manifest of a shard.
pub fn file_name(shard: super::Shard) -> String {
    match shard.count {
        1 => "manifest.jsonl".into(),
        count => format!("manifest.{}-of-{count}.jsonl", shard.index),
    }
}

/// The rows of a file, as far as they are whole; none when there is no file.
pub fn read(path: &Path) -> Vec<Row> {
    let text = std::fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().filter_map(Row::parse).collect()
}

/// Writes a manifest in one step.
pub fn write(path: &Path, beside: PathBuf, rows: &[Row]) -> std::io::Result<()> {
    let text: String = rows.iter().map(Row::line).collect();
    super::commit::durable(path, &beside, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use murre_components::diag::codes::read;

    #[test]
    fn a_line_reads_back_and_half_a_line_does_not() {
        let fault = Diagnostic::error(&read::READ_SYNTAX, "cut").in_file("a.hlo");
        let failed = Row::failed(Path::new("a.hlo"), "00".into(), "11".into(), &[fault]);
        let artifact = Artifact {
            output: "a.mur".into(),
            output_blake3: "22".into(),
            bytes: 9,
            key: "33".into(),
            instructions: 1,
            records: 2,
            descriptors: 3,
            words: 4,
        };
        let ok = Row {
            status: Status::Ok,
            code: None,
            diagnostics: Vec::new(),
            artifact: Some(artifact),
            ..failed.clone()
        };
        for row in [failed, ok] {
            let line = row.line();
            assert_eq!(Row::parse(&line), Some(row));
            assert_eq!(Row::parse(&line[..line.len() / 2]), None);
        }
    }
}
