//! `.murre.meta`: what the artifact says about itself, as JSON so that a person can read it in the file.
//!
//! In: the program's header and the finished sections. Out: one JSON object; and the comparison of every section
//! with its size and digest.

use super::container::ArtifactFile;
use super::tables::{SECTIONS, Section};
use murre_components::diag::{Diagnostic, codes::artifact as codes};
use murre_components::engine::Target;
use murre_components::program::Program;
use serde::{Deserialize, Serialize};

/// The version of the tables' layout. A change of any row's layout adds one.
pub const FORMAT_VERSION: u32 = 2;
pub(super) const META_SECTION: &str = ".murre.meta";

/// Size and digest of a section.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SectionMeta {
    /// The section's name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// BLAKE3 of its bytes, in hexadecimal.
    pub blake3: String,
}

/// The header of an artifact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// [`FORMAT_VERSION`] of the writer.
    pub format: u32,
    /// The compiler and its version.
    pub compiler: String,
    /// The target generation.
    pub target: String,
    /// The HLO module's name.
    pub module: String,
    /// Every table section.
    pub sections: Vec<SectionMeta>,
}

impl Meta {
    pub(super) fn of(program: &Program, sections: &[Section<'_>]) -> Meta {
        Meta {
            format: FORMAT_VERSION,
            compiler: concat!("murre ", env!("CARGO_PKG_VERSION")).to_string(),
            target: program.target.name().to_string(),
            module: program.name.clone(),
            sections: sections
                .iter()
                .map(|s| SectionMeta {
                    name: s.name.to_string(),
                    bytes: s.bytes.len() as u64,
                    blake3: blake3::hash(&s.bytes).to_hex().to_string(),
                })
                .collect(),
        }
    }

    pub(super) fn to_text(&self) -> Vec<u8> {
        // A struct of strings and numbers always serialises.
        let mut text = serde_json::to_vec_pretty(self).unwrap_or_default();
        text.push(b'\n');
        text
    }

    pub(super) fn parse(text: &[u8]) -> Result<Meta, Diagnostic> {
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        let malformed = |e: serde_json::Error| {
            Diagnostic::error(&codes::ART_TABLE, format!("section {META_SECTION}: {e}"))
        };
        let version: Version = serde_json::from_slice(text).map_err(malformed)?;
        if version.format != FORMAT_VERSION {
            return Err(Diagnostic::error(
                &codes::ART_VERSION,
                "the artifact's format version is not readable here",
            )
            .found(format!("format {}", version.format))
            .expected(format!("format {FORMAT_VERSION}"))
            .help("compile the program again with this version"));
        }
        serde_json::from_slice(text).map_err(malformed)
    }

    pub(super) fn target(&self) -> Result<Target, Diagnostic> {
        Target::from_name(&self.target).ok_or_else(|| {
            Diagnostic::error(
                &codes::ART_TABLE,
                format!("section {META_SECTION}: unknown target '{}'", self.target),
            )
        })
    }

    /// Compares every section with the size and digest recorded for it.
    pub(super) fn verify(&self, file: &ArtifactFile<'_>) -> Result<(), Diagnostic> {
        let names: Vec<&str> = self.sections.iter().map(|s| s.name.as_str()).collect();
        if names != SECTIONS {
            return Err(Diagnostic::error(
                &codes::ART_TABLE,
                "the artifact lists other sections than its format has",
            )
            .found(names.join(" "))
            .expected(SECTIONS.join(" ")));
        }
        for section in &self.sections {
            let bytes = file.section(&section.name)?;
            if bytes.len() as u64 != section.bytes || blake3::hash(bytes).to_hex().as_str() != section.blake3
            {
                return Err(Diagnostic::error(
                    &codes::ART_CHECKSUM,
                    format!("section {} is not what was written", section.name),
                )
                .found(format!("{} bytes, blake3 {}", bytes.len(), blake3::hash(bytes).to_hex()))
                .expected(format!("{} bytes, blake3 {}", section.bytes, section.blake3))
                .help("copy the file again or compile the program again"));
            }
        }
        Ok(())
    }
}
