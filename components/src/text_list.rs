//! Many short texts back to back: one allocation for all of them, a text is a range. For tables of names.

/// Texts by their position.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TextList {
    text: String,
    /// Where each text ends; it begins where the one before it ends.
    ends: Vec<usize>,
}

impl TextList {
    /// Adds a text.
    pub fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.ends.push(self.text.len());
    }

    /// Adds a text that is there already, at this position.
    pub fn push_again(&mut self, position: usize) {
        if let Some(end) = self.ends.get(position).copied() {
            let start = position.checked_sub(1).map_or(0, |before| self.ends[before]);
            self.text.extend_from_within(start..end);
            self.ends.push(self.text.len());
        }
    }

    /// The text at a position.
    pub fn get(&self, position: usize) -> Option<&str> {
        let end = *self.ends.get(position)?;
        let start = position.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.text[start..end])
    }

    /// Number of texts.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The texts in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let mut start = 0;
        self.ends.iter().map(move |end| &self.text[std::mem::replace(&mut start, *end)..*end])
    }
}

impl<T: AsRef<str>> FromIterator<T> for TextList {
    fn from_iter<I: IntoIterator<Item = T>>(texts: I) -> Self {
        let mut list = TextList::default();
        texts.into_iter().for_each(|t| list.push(t.as_ref()));
        list
    }
}

#[cfg(test)]
mod tests {
    use super::TextList;

    #[test]
    fn texts_are_found_by_position() {
        let mut list = TextList::from_iter(["one", "", "three"]);
        assert_eq!((list.len(), list.is_empty()), (3, false));
        assert_eq!([0, 1, 2, 3].map(|k| list.get(k)), [Some("one"), Some(""), Some("three"), None]);
        assert_eq!(list.iter().collect::<Vec<_>>(), ["one", "", "three"]);
        assert_ne!(list, TextList::from_iter(["on", "e", "three"]));
        list.push_again(0);
        assert_eq!((list.get(3), list.len()), (Some("one"), 4));
    }
}
