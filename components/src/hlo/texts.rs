//! Interned texts: each different text once, in one buffer.

use crate::hash::seeded_hash;
use crate::ids::TextId;
use hashbrown::HashTable;

/// A table of different texts.
#[derive(Clone, Default, Debug)]
pub struct Texts {
    buffer: String,
    /// End of each text in the buffer; it begins where the one before ends.
    ends: Vec<u32>,
    index: HashTable<u32>,
}

impl Texts {
    /// The text of `id`; empty for `NONE`.
    #[inline]
    pub fn get(&self, id: TextId) -> &str {
        slice(&self.buffer, &self.ends, id.index())
    }

    /// The id of `text`, which is added if it is new. `None` once the table holds 4 GiB.
    pub fn intern(&mut self, text: &str) -> Option<TextId> {
        let hash = seeded_hash(text);
        let (buffer, ends) = (&self.buffer, &self.ends);
        if let Some(found) = self.index.find(hash, |i| slice(buffer, ends, *i as usize) == text) {
            return Some(TextId(*found));
        }
        let end = u32::try_from(self.buffer.len() + text.len()).ok()?;
        let id = u32::try_from(self.ends.len()).ok().filter(|i| *i != u32::MAX)?;
        self.buffer.push_str(text);
        self.ends.push(end);
        let (buffer, ends) = (&self.buffer, &self.ends);
        self.index.insert_unique(hash, id, |i| seeded_hash(slice(buffer, ends, *i as usize)));
        Some(TextId(id))
    }
}

fn slice<'a>(buffer: &'a str, ends: &[u32], index: usize) -> &'a str {
    let Some(&end) = ends.get(index) else { return "" };
    let start = if index == 0 { 0 } else { ends[index - 1] };
    &buffer[start as usize..end as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_kept_once() {
        let mut texts = Texts::default();
        let a = texts.intern("a").expect("room");
        let empty = texts.intern("").expect("room");
        assert_eq!(texts.intern("a"), Some(a));
        assert_ne!(a, empty);
        assert_eq!((texts.get(a), texts.get(empty), texts.get(TextId::NONE)), ("a", "", ""));
    }
}
