//! The ELF64 file around the tables.
//!
//! In: sections with their bytes, the meta text, the program's symbols. Out: an ELF file of no machine (`EM_NONE`),
//! little-endian, with a symbol per input and output; and back to named byte ranges after the digest of the whole
//! file has been compared.

use super::meta::META_SECTION;
use super::tables::Section;
use murre_components::diag::{Diagnostic, codes::artifact as codes};
use murre_components::program::Program;
use object::elf;
use object::write::elf::{FileHeader, SectionHeader, Sym, Writer};
use object::{Endianness, Object, ObjectSection};

pub(super) const DIGEST_SECTION: &str = ".murre.digest";
const DIGEST_BYTES: usize = 32;
const ALIGN: u64 = 64;

/// Lays out the file. `object`'s writer has two phases: reserve every range, then write in the same order.
pub(super) fn build(sections: &[Section<'_>], meta: &[u8], program: &Program) -> Vec<u8> {
    let mut all: Vec<(&str, &[u8])> = sections.iter().map(|s| (s.name, &*s.bytes)).collect();
    all.push((META_SECTION, meta));
    all.push((DIGEST_SECTION, &[0; DIGEST_BYTES]));
    let symbols: Vec<(Vec<u8>, u64, u64)> = program
        .symbols
        .iter()
        .map(|s| {
            let bytes = program.vars.get(s.var as usize).map_or(0, |v| v.bytes);
            let role = if s.input { "input" } else { "output" };
            let name = format!("{role}.{}.{}", s.index, s.name).replace('\0', "?").into_bytes();
            (name, s.var as u64, bytes)
        })
        .collect();

    let mut out = Vec::new();
    // The writer only fails on 32-bit files and on out-of-memory; an empty file is then refused by every reader.
    let digest_at = lay_out(&all, &symbols, &mut out).unwrap_or(0) as usize;
    let digest = blake3::hash(&out);
    if let Some(slot) = out.get_mut(digest_at..digest_at + DIGEST_BYTES) {
        slot.copy_from_slice(digest.as_bytes());
    }
    out
}

fn lay_out(
    sections: &[(&str, &[u8])],
    symbols: &[(Vec<u8>, u64, u64)],
    out: &mut Vec<u8>,
) -> object::write::Result<u64> {
    let mut w = Writer::new(Endianness::Little, true, out);
    w.reserve_file_header();
    w.reserve_null_section_index();
    let mut placed = Vec::with_capacity(sections.len());
    for (name, bytes) in sections {
        let index = w.reserve_section_index();
        let id = w.add_section_name(name.as_bytes());
        placed.push((index, id, w.reserve(bytes.len() as u64, ALIGN)));
    }
    let vars = sections.iter().position(|(name, _)| *name == ".murre.vars").and_then(|i| placed.get(i));
    let vars = vars.map(|(index, ..)| *index);
    w.reserve_null_symbol_index();
    let mut names = Vec::with_capacity(symbols.len());
    for (name, ..) in symbols {
        w.reserve_symbol_index(vars);
        names.push(w.add_string(name));
    }
    w.reserve_symtab_section_index();
    w.reserve_symtab();
    w.reserve_strtab_section_index();
    w.reserve_strtab()?;
    w.reserve_shstrtab_section_index();
    w.reserve_shstrtab()?;
    w.reserve_section_headers();

    w.write_file_header(&FileHeader {
        os_abi: elf::ELFOSABI_NONE,
        abi_version: 0,
        e_type: elf::ET_REL,
        e_machine: elf::EM_NONE,
        e_entry: 0,
        e_flags: elf::FileFlags(0),
    })?;
    for (_, bytes) in sections {
        w.write_align(ALIGN);
        w.write(bytes);
    }
    w.write_null_symbol();
    for ((_, value, size), name) in symbols.iter().zip(&names) {
        let st_name = w.string_offset(Some(*name));
        w.write_symbol(&Sym {
            section: vars.map(|v| v.0),
            st_name,
            st_info: elf::SymbolInfo::new(elf::STB_GLOBAL, elf::STT_OBJECT),
            st_other: elf::SymbolOther(0),
            st_shndx: elf::SymbolSection(0),
            st_value: *value,
            st_size: *size,
        });
    }
    w.write_strtab();
    w.write_shstrtab();
    w.write_null_section_header();
    let mut digest_at = 0;
    for ((name, bytes), (_, id, offset)) in sections.iter().zip(&placed) {
        let sh_name = w.section_name_offset(Some(*id));
        w.write_section_header(&SectionHeader {
            sh_name,
            sh_type: elf::SHT_PROGBITS,
            sh_flags: elf::SectionFlags(0),
            sh_addr: 0,
            sh_offset: *offset,
            sh_size: bytes.len() as u64,
            sh_link: 0,
            sh_info: 0,
            sh_addralign: ALIGN,
            sh_entsize: 0,
        });
        if *name == DIGEST_SECTION {
            digest_at = *offset;
        }
    }
    w.write_symtab_section_header(1);
    w.write_strtab_section_header();
    w.write_shstrtab_section_header();
    Ok(digest_at)
}

/// An artifact whose whole-file digest matched.
pub(super) struct ArtifactFile<'a> {
    elf: object::read::elf::ElfFile64<'a>,
}

impl<'a> ArtifactFile<'a> {
    /// The bytes of the section named `name`.
    pub(super) fn section(&self, name: &str) -> Result<&'a [u8], Diagnostic> {
        self.elf.section_by_name(name).and_then(|s| s.data().ok()).ok_or_else(|| {
            Diagnostic::error(&codes::ART_TABLE, format!("section {name} is missing or outside the file"))
        })
    }
}

fn not_one(why: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::error(&codes::ART_NOT_ARTIFACT, format!("this is not a murre artifact: {why}"))
        .help("give the file that `murre compile -o` wrote")
}

/// Parses the container and compares the digest of the whole file.
pub(super) fn open(bytes: &[u8]) -> Result<ArtifactFile<'_>, Diagnostic> {
    let elf = object::read::elf::ElfFile64::parse(bytes).map_err(not_one)?;
    if elf.section_by_name(META_SECTION).is_none() {
        return Err(not_one(format_args!("it has no {META_SECTION} section")));
    }
    let range = elf.section_by_name(DIGEST_SECTION).and_then(|s| s.file_range());
    let (at, len) = range.ok_or_else(|| not_one(format_args!("it has no {DIGEST_SECTION} section")))?;
    let at = usize::try_from(at).unwrap_or(usize::MAX);
    let parts = bytes.split_at_checked(at).and_then(|(a, b)| Some((a, b.split_at_checked(DIGEST_BYTES)?)));
    let Some((before, (stored, after))) = parts.filter(|_| len == DIGEST_BYTES as u64) else {
        return Err(not_one(format_args!("its {DIGEST_SECTION} section does not hold 32 bytes")));
    };
    let mut hasher = blake3::Hasher::new();
    hasher.update(before).update(&[0; DIGEST_BYTES]).update(after);
    let digest = hasher.finalize();
    if digest.as_bytes().as_slice() != stored {
        return Err(Diagnostic::error(&codes::ART_CHECKSUM, "the file is not what was written")
            .found(format!("blake3 {}", digest.to_hex()))
            .expected(format!("blake3 {}", stored.iter().map(|b| format!("{b:02x}")).collect::<String>()))
            .help("copy the file again or compile the program again"));
    }
    Ok(ArtifactFile { elf })
}

/// Whether this is an ELF file with a meta section.
pub(super) fn looks_like(bytes: &[u8]) -> bool {
    object::read::elf::ElfFile64::<Endianness>::parse(bytes)
        .is_ok_and(|elf| elf.section_by_name(META_SECTION).is_some())
}
