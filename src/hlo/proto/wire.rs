//! Fields of a message on the wire, one at a time and without copies. The primitives are `prost`'s; unknown fields are
//! stepped over by their wire type.

use prost::encoding::{WireType, decode_varint};

/// The value of a field.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    Fixed,
}

/// One field: its number, its value, and its bytes with the key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field<'a> {
    pub number: u32,
    pub value: Value<'a>,
    pub raw: &'a [u8],
}

/// The message is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Damaged;

/// The fields of a message in order.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    whole: &'a [u8],
    rest: &'a [u8],
}

#[inline(always)]
fn varint(rest: &mut &[u8]) -> Result<u64, Damaged> {
    match **rest {
        [a, ..] if a < 0x80 => {
            *rest = &rest[1..];
            Ok(u64::from(a))
        }
        [a, b, ..] if b < 0x80 => {
            *rest = &rest[2..];
            Ok(u64::from(a & 0x7f) | u64::from(b) << 7)
        }
        _ => decode_varint(rest).map_err(|_| Damaged),
    }
}

impl<'a> Fields<'a> {
    pub fn new(message: &'a [u8]) -> Self {
        Fields { whole: message, rest: message }
    }

    /// The next field; `None` at the end of the message.
    #[inline(always)]
    pub fn next_field(&mut self) -> Result<Option<Field<'a>>, Damaged> {
        let start = self.rest;
        if start.is_empty() {
            return Ok(None);
        }
        let mut rest = start;
        let key = varint(&mut rest)?;
        let number = u32::try_from(key >> 3).map_err(|_| Damaged)?;
        let take = |n: usize, rest: &mut &'a [u8]| {
            let (head, tail) = rest.split_at_checked(n).ok_or(Damaged)?;
            *rest = tail;
            Ok(head)
        };
        let value = match WireType::try_from(key & 7).map_err(|_| Damaged)? {
            WireType::Varint => Value::Varint(varint(&mut rest)?),
            WireType::LengthDelimited => {
                let n = usize::try_from(varint(&mut rest)?).map_err(|_| Damaged)?;
                Value::Bytes(take(n, &mut rest)?)
            }
            WireType::ThirtyTwoBit => take(4, &mut rest).map(|_| Value::Fixed)?,
            WireType::SixtyFourBit => take(8, &mut rest).map(|_| Value::Fixed)?,
            // Groups: no HLO proto has had one.
            WireType::StartGroup | WireType::EndGroup => return Err(Damaged),
        };
        self.rest = rest;
        Ok(Some(Field { number, value, raw: &start[..start.len() - rest.len()] }))
    }
}

impl<'a> Fields<'a> {
    /// `run`, bytes of fields that followed each other, with those of the field just read, if it follows; otherwise the
    /// run is written out and a new one begins.
    #[inline]
    pub fn joined(&self, run: &'a [u8], raw: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
        let end = self.whole.len() - self.rest.len();
        let start = end - raw.len();
        let follows = !run.is_empty() && std::ptr::eq(run.as_ptr_range().end, raw.as_ptr());
        if follows {
            return &self.whole[start - run.len()..end];
        }
        out.extend_from_slice(run);
        raw
    }
}

impl<'a> Value<'a> {
    /// A message, bytes or packed field; empty for anything else.
    #[inline]
    pub fn bytes(self) -> Result<&'a [u8], Damaged> {
        match self {
            Value::Bytes(b) => Ok(b),
            _ => Err(Damaged),
        }
    }

    /// Text.
    #[inline]
    pub fn text(self) -> Result<&'a str, Damaged> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Damaged)
    }

    /// A number.
    #[inline]
    pub fn int(self) -> Result<i64, Damaged> {
        match self {
            Value::Varint(n) => Ok(n as i64),
            _ => Err(Damaged),
        }
    }

    /// Numbers of a repeated field, packed or not, added to `out`.
    #[inline]
    pub fn ints(self, out: &mut Vec<i64>) -> Result<(), Damaged> {
        match self {
            Value::Varint(n) => out.push(n as i64),
            Value::Bytes(mut packed) => {
                while !packed.is_empty() {
                    out.push(varint(&mut packed)? as i64);
                }
            }
            Value::Fixed => return Err(Damaged),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_in_order_and_damage_is_found() {
        // 1: varint 300; 2: "ab"; 3: fixed 32; 4: packed 1, 2.
        let bytes = [8, 0xac, 2, 18, 2, b'a', b'b', 29, 0, 0, 0, 0, 34, 2, 1, 2];
        let mut fields = Fields::new(&bytes);
        let mut next = || fields.next_field().expect("whole").map(|f| (f.number, f.value));
        assert!(matches!(next(), Some((1, Value::Varint(300)))));
        assert!(matches!(next(), Some((2, v)) if v.text() == Ok("ab")));
        assert!(matches!(next(), Some((3, Value::Fixed))));
        let mut list = Vec::new();
        assert!(matches!(next(), Some((4, v)) if v.ints(&mut list).is_ok()));
        assert_eq!(list, [1, 2]);
        assert!(next().is_none());
        // A length of a gigabyte, a group, a cut varint.
        for bad in [&[18, 0x80, 0x80, 0x80, 0x80, 4][..], &[11], &[8, 0x80]] {
            assert!(Fields::new(bad).next_field().is_err(), "{bad:?}");
        }
    }
}
