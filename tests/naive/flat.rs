//! A decoded instruction as the naive decoder's map, by way of its `Debug` text: so the values compared are the ones in
//! the typed fields, not a second look at the bytes.

use super::{Fields, fold, key};

/// Flattens `{:?}` of a struct: `a: X { b: [1, 2] }` becomes `a.b.0 = 1`, `a.b.1 = 2`.
pub fn flatten(debug: &str, prefix: &str, out: &mut Fields) {
    let mut p = Parser { text: debug, out };
    p.value(prefix);
    assert!(p.text.trim().is_empty(), "left over: {}", p.text);
}

struct Parser<'a> {
    text: &'a str,
    out: &'a mut Fields,
}

fn join(path: &str, part: &str) -> String {
    match (path.is_empty(), part) {
        // The sum type of ADDR8 is a field of its own; the map has no such level.
        (_, "form") => path.to_string(),
        (true, _) => part.to_string(),
        _ => format!("{path}.{part}"),
    }
}

impl Parser<'_> {
    fn eat(&mut self, token: &str) -> bool {
        self.text = self.text.trim_start();
        match self.text.strip_prefix(token) {
            Some(rest) => {
                self.text = rest;
                true
            }
            None => false,
        }
    }

    fn take(&mut self, ok: fn(char) -> bool) -> String {
        self.text = self.text.trim_start();
        let end = self.text.find(|c| !ok(c)).unwrap_or(self.text.len());
        let (token, rest) = self.text.split_at(end);
        self.text = rest;
        token.to_string()
    }

    fn string(&mut self) -> String {
        let mut out = String::new();
        let mut chars = self.text.char_indices();
        while let Some((i, c)) = chars.next() {
            match c {
                '"' => {
                    self.text = &self.text[i + 1..];
                    return out;
                }
                '\\' => match chars.next().expect("an escape").1 {
                    'n' => out.push('\n'),
                    't' => out.push('\t'),
                    'r' => out.push('\r'),
                    '0' => out.push('\0'),
                    'u' => {
                        let hex: String =
                            chars.by_ref().map(|(_, c)| c).skip(1).take_while(|c| *c != '}').collect();
                        out.push(
                            char::from_u32(u32::from_str_radix(&hex, 16).expect("hex")).expect("a char"),
                        );
                    }
                    c => out.push(c),
                },
                c => out.push(c),
            }
        }
        panic!("a string without end")
    }

    fn value(&mut self, path: &str) {
        if self.eat("\"") {
            let text = self.string();
            self.out.insert(key(path), fold(text.as_bytes()));
            return;
        }
        if self.eat("[") {
            let mut i = 0;
            while !self.eat("]") {
                self.value(&join(path, &i.to_string()));
                self.eat(",");
                i += 1;
            }
            return;
        }
        let token = self.take(|c| c.is_alphanumeric() || c == '_' || c == '-');
        if let Some(hex) = token.strip_prefix("0x") {
            self.out.insert(key(path), i64::from_str_radix(hex, 16).expect("hex"));
        } else if let Ok(n) = token.parse::<i128>() {
            self.out.insert(key(path), n as i64);
        } else if token == "true" || token == "false" {
            self.out.insert(key(path), (token == "true") as i64);
        } else if self.eat("(") {
            let inner = match token.as_str() {
                "Literal" | "Pointer" | "Register" => join(path, &token.to_lowercase()),
                _ => path.to_string(),
            };
            self.value(&inner);
            assert!(self.eat(")"), "{token}(...) with more than one field");
        } else if self.eat("{") {
            while !self.eat("}") {
                let name = self.take(|c| c.is_alphanumeric() || c == '_');
                assert!(self.eat(":"), "a field of {token}");
                self.value(&join(path, &name));
                self.eat(",");
            }
        }
        // What is left is a unit variant: the opcode, or `None`.
    }
}
