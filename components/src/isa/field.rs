//! How a field stands in a record. In: typed values and a 64-byte record. Out: bytes, or typed values, or a
//! [`Fault`] that names the byte. Every layout of the profile is one `layout!` declaration; the struct, its
//! encoder, its decoder, the list of reserved bytes and the text form all come from that one place.
//! Facts: `spec/isa_compute.md 12.1, 12.2`.

use super::Addr4;
use crate::diag::{Code, Diagnostic, codes::isa as code};
use crate::program::Record;

/// What is wrong with a record or a word: a code, the byte, what stands there and what should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The registered code.
    pub code: Code,
    /// Offset of the byte in the record (or in the word), where there is one.
    pub at: u8,
    /// The value found.
    pub found: i64,
    /// What the profile asks for.
    pub expected: &'static str,
}

impl Fault {
    /// A fault at byte `at`.
    pub const fn new(code: Code, at: u8, found: i64, expected: &'static str) -> Self {
        Fault { code, at, found, expected }
    }

    /// The same fault, `by` bytes further on: from an offset in a slot to an offset in the record.
    pub const fn shifted(mut self, by: u8) -> Self {
        self.at = self.at.wrapping_add(by);
        self
    }
}

impl From<Fault> for Diagnostic {
    fn from(f: Fault) -> Self {
        let d =
            Diagnostic::error(f.code, format!("{} (byte +{:02X})", f.code.title, f.at)).expected(f.expected);
        let sign = if f.found < 0 { "-" } else { "" };
        d.found(format!("{sign}{:#x}", f.found.unsigned_abs()))
    }
}

/// Which part of its byte a one-byte field takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Whole,
    /// Bits 0..3.
    Low,
    /// Bits 4..7.
    High,
}

/// Where a field stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Offset of the first byte.
    pub at: u8,
    /// Nibble or whole byte.
    pub part: Part,
    /// Offset of the byte that says where an immediate comes from; 0 for every other field.
    pub src: u8,
}

/// Whole bytes from `at`.
pub const fn at(at: u8) -> Place {
    Place { at, part: Part::Whole, src: 0 }
}

/// The low nibble of a byte.
pub const fn low(at: u8) -> Place {
    Place { at, part: Part::Low, src: 0 }
}

/// The high nibble of a byte.
pub const fn high(at: u8) -> Place {
    Place { at, part: Part::High, src: 0 }
}

/// An immediate: value bytes from `at`, source byte at `src`.
pub const fn imm(at: u8, src: u8) -> Place {
    Place { at, part: Part::Whole, src }
}

/// How a field reads in text (`spec/isa_compute.md 12.7`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A dtype that the text of its tensor carries; no key of its own.
    Carried,
    /// A dtype with a key of its own.
    Dtype,
    /// Little-endian unsigned number of the field's width.
    Uint,
    /// The same in hexadecimal.
    Hex,
    /// A 32-bit signed number.
    Int,
    /// fp32 bits.
    Float,
    /// A code with names; codes without one read as numbers.
    Names(&'static [(u8, &'static str)]),
    /// A register number.
    Register,
    /// A TENSORnD (or gather) slot whose dtype stands at the place.
    Tensor(Place, Role),
    /// A lone ADDR4.
    Word,
    /// An immediate of 4 or 8 bytes; `true` for the Activate bias, whose source codes differ.
    Imm(bool),
    /// Signed 16-bit numbers.
    Steps16,
    /// Signed 32-bit numbers.
    Steps32,
    /// Unsigned 16-bit numbers.
    Counts,
    /// Single bytes in hexadecimal.
    Bytes,
    /// Unsigned 32-bit numbers in hexadecimal.
    Words,
    /// An ADDR8.
    Addr8,
    /// A bound register byte.
    Bound,
    /// A NUL-padded name.
    Name,
    /// A descriptor's row length, where 0 means 65536.
    RowBytes,
    /// Index of a record in the stream, shown even when it is 0.
    Target,
}

/// What an instruction does with an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Reads it.
    Source,
    /// Writes it.
    Destination,
}

/// One field of a layout.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Name in the struct and key in the text.
    pub key: &'static str,
    /// Where.
    pub place: Place,
    /// How it reads.
    pub kind: Kind,
    /// Width in bytes.
    pub bytes: u8,
}

/// A layout: its fields, the bytes with one legal value, and which bytes are used at all.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// In byte order.
    pub fields: &'static [Field],
    /// Bytes with exactly one legal, non-zero value.
    pub fixed: &'static [(u8, u8)],
    /// Bit `i` set: byte `i` is a field or fixed. A clear bit outside the header is a reserved byte.
    pub cover: u64,
}

/// The shape with these fields and fixed bytes.
pub const fn shape(fields: &'static [Field], fixed: &'static [(u8, u8)]) -> Shape {
    let mut cover = 0u64;
    let mut i = 0;
    while i < fields.len() {
        let f = fields[i];
        let mut b = 0;
        while b < f.bytes {
            cover |= 1 << (f.place.at + b);
            b += 1;
        }
        if f.place.src != 0 {
            cover |= 1 << f.place.src;
        }
        i += 1;
    }
    i = 0;
    while i < fixed.len() {
        cover |= 1 << fixed[i].0;
        i += 1;
    }
    Shape { fields, fixed, cover }
}

/// A value that can stand in a record.
pub trait Wire: Sized {
    /// Bytes it takes.
    const BYTES: u8;
    /// Writes it into a record whose bytes there are zero.
    fn put(&self, r: &mut Record, p: Place);
    /// Reads it.
    fn get(r: &Record, p: Place) -> Result<Self, Fault>;
}

/// The `N` bytes from `at`; zeros where the record ends first, which no declared field reaches.
#[inline]
pub fn bytes_at<const N: usize>(r: &Record, at: u8) -> [u8; N] {
    let mut out = [0; N];
    for (o, b) in out.iter_mut().zip(r.iter().skip(at as usize)) {
        *o = *b;
    }
    out
}

/// Stores bytes from `at`.
#[inline]
pub fn store(r: &mut Record, at: u8, bytes: &[u8]) {
    for (o, b) in r.iter_mut().skip(at as usize).zip(bytes) {
        *o = *b;
    }
}

impl Wire for u8 {
    const BYTES: u8 = 1;
    #[inline]
    fn put(&self, r: &mut Record, p: Place) {
        let old = bytes_at::<1>(r, p.at)[0];
        let new = match p.part {
            Part::Whole => *self,
            Part::Low => (old & 0xF0) | (*self & 0x0F),
            Part::High => (old & 0x0F) | (*self << 4),
        };
        store(r, p.at, &[new]);
    }
    #[inline]
    fn get(r: &Record, p: Place) -> Result<Self, Fault> {
        let b = bytes_at::<1>(r, p.at)[0];
        Ok(match p.part {
            Part::Whole => b,
            Part::Low => b & 0x0F,
            Part::High => b >> 4,
        })
    }
}

macro_rules! wire_number {
    ($($ty:ty),*) => {$(
        impl Wire for $ty {
            const BYTES: u8 = size_of::<$ty>() as u8;
            #[inline]
            fn put(&self, r: &mut Record, p: Place) {
                store(r, p.at, &self.to_le_bytes());
            }
            #[inline]
            fn get(r: &Record, p: Place) -> Result<Self, Fault> {
                Ok(<$ty>::from_le_bytes(bytes_at(r, p.at)))
            }
        }
    )*};
}
wire_number!(u16, u32, u64, i16, i32);

impl<T: Wire + Copy + Default, const N: usize> Wire for [T; N] {
    const BYTES: u8 = T::BYTES * N as u8;
    #[inline]
    fn put(&self, r: &mut Record, p: Place) {
        for (i, v) in self.iter().enumerate() {
            v.put(r, at(p.at + i as u8 * T::BYTES));
        }
    }
    #[inline]
    fn get(r: &Record, p: Place) -> Result<Self, Fault> {
        let mut out = [T::default(); N];
        for (i, v) in out.iter_mut().enumerate() {
            *v = T::get(r, at(p.at + i as u8 * T::BYTES))?;
        }
        Ok(out)
    }
}

/// fp32 bits; compared bit by bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct F32Bits(pub u32);

impl F32Bits {
    /// The bits of `v`.
    pub fn of(v: f32) -> Self {
        F32Bits(v.to_bits())
    }
    /// The number.
    pub fn value(self) -> f32 {
        f32::from_bits(self.0)
    }
}

impl Wire for F32Bits {
    const BYTES: u8 = 4;
    #[inline]
    fn put(&self, r: &mut Record, p: Place) {
        self.0.put(r, p);
    }
    #[inline]
    fn get(r: &Record, p: Place) -> Result<Self, Fault> {
        Ok(F32Bits(u32::get(r, p)?))
    }
}

/// Where an instruction's scalar comes from (`spec/isa_compute.md 2.2`). `B` is the bits of a literal: `u32`, or `u64`
/// for TensorScalarAddr.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Imm<B> {
    /// The record holds the value.
    Literal(B),
    /// One element per partition at this address.
    Pointer(Addr4),
    /// The value is the content of this register.
    Register(u8),
}

impl<B: Default> Default for Imm<B> {
    fn default() -> Self {
        Imm::Literal(B::default())
    }
}

/// The Activate bias: same three sources, other codes (0 pointer, 1 literal, 2 register).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bias(pub Imm<u32>);

const LITERAL_POINTER: [u8; 3] = [0, 1, 2];
const POINTER_LITERAL: [u8; 3] = [1, 0, 2];

fn put_imm<B: Wire>(v: &Imm<B>, codes: [u8; 3], r: &mut Record, p: Place) {
    let [literal, pointer, register] = codes;
    let src = match v {
        Imm::Literal(b) => {
            b.put(r, at(p.at));
            literal
        }
        Imm::Pointer(a) => {
            a.word().put(r, at(p.at));
            pointer
        }
        Imm::Register(n) => {
            n.put(r, at(p.at));
            register
        }
    };
    store(r, p.src, &[src]);
}

fn get_imm<B: Wire>(codes: [u8; 3], r: &Record, p: Place) -> Result<Imm<B>, Fault> {
    let [literal, pointer, _] = codes;
    let src = bytes_at::<1>(r, p.src)[0];
    if src == literal {
        return Ok(Imm::Literal(B::get(r, at(p.at))?));
    }
    if src > 2 {
        return Err(Fault::new(&code::ISA_FIELD, p.src, src as i64, "an immediate source 0, 1 or 2"));
    }
    let spare = if B::BYTES > 4 { u32::get(r, at(p.at + 4))? } else { 0 };
    if spare != 0 {
        return Err(Fault::new(
            &code::ISA_RESERVED,
            p.at + 4,
            spare as i64,
            "zero above an address or register",
        ));
    }
    let word = u32::get(r, at(p.at))?;
    if src == pointer {
        return Addr4::from_word(word).map(Imm::Pointer).map_err(|f| f.shifted(p.at));
    }
    if word > 0x3F {
        return Err(Fault::new(
            &code::ISA_REGISTER,
            p.at,
            word as i64,
            "a register number 0..63, then zero bytes",
        ));
    }
    Ok(Imm::Register(word as u8))
}

impl<B: Wire> Wire for Imm<B> {
    const BYTES: u8 = B::BYTES;
    fn put(&self, r: &mut Record, p: Place) {
        put_imm(self, LITERAL_POINTER, r, p);
    }
    fn get(r: &Record, p: Place) -> Result<Self, Fault> {
        get_imm(LITERAL_POINTER, r, p)
    }
}

impl Wire for Bias {
    const BYTES: u8 = 4;
    fn put(&self, r: &mut Record, p: Place) {
        put_imm(&self.0, POINTER_LITERAL, r, p);
    }
    fn get(r: &Record, p: Place) -> Result<Self, Fault> {
        get_imm(POINTER_LITERAL, r, p).map(Bias)
    }
}

/// A NUL-padded name of at most `N - 1` bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Name<const N: usize>([u8; N]);

impl<const N: usize> Name<N> {
    /// The name, when it fits and holds no NUL.
    pub fn new(text: &str) -> Result<Self, Fault> {
        let mut bytes = [0; N];
        if text.len() >= N || text.bytes().any(|b| b == 0) {
            return Err(Fault::new(
                &code::ISA_NAME,
                0,
                text.len() as i64,
                "a name without NUL that leaves room for one",
            ));
        }
        for (o, b) in bytes.iter_mut().zip(text.bytes()) {
            *o = b;
        }
        Ok(Name(bytes))
    }

    /// The text up to the first NUL.
    pub fn as_str(&self) -> &str {
        let end = self.0.iter().position(|b| *b == 0).unwrap_or(N);
        self.0.get(..end).and_then(|b| core::str::from_utf8(b).ok()).unwrap_or("")
    }
}

impl<const N: usize> core::fmt::Debug for Name<N> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Debug::fmt(self.as_str(), f)
    }
}

impl<const N: usize> Wire for Name<N> {
    const BYTES: u8 = N as u8;
    fn put(&self, r: &mut Record, p: Place) {
        store(r, p.at, &self.0);
    }
    fn get(r: &Record, p: Place) -> Result<Self, Fault> {
        let bytes: [u8; N] = bytes_at(r, p.at);
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(N);
        let fault = |found: usize| {
            Fault::new(
                &code::ISA_NAME,
                p.at,
                found as i64,
                "UTF-8 text, a NUL, and zeros to the end of the field",
            )
        };
        if end == N || bytes.iter().skip(end).any(|b| *b != 0) {
            return Err(fault(end));
        }
        if bytes.get(..end).is_none_or(|b| core::str::from_utf8(b).is_err()) {
            return Err(fault(end));
        }
        Ok(Name(bytes))
    }
}

/// Declares one layout: the struct, its opcodes, its [`Shape`], `write` and `read`.
macro_rules! layout {
    (
        $(#[$doc:meta])*
        $name:ident: $op:ident { $($(#[$odoc:meta])* $oname:ident = $ocode:literal),+ $(,)? }
        { $($(#[$fdoc:meta])* $field:ident: $ty:ty = $place:expr, $kind:expr;)* }
        $(fixed { $($fat:literal = $fval:literal),* })?
    ) => {
        #[doc = concat!("The opcodes of [`", stringify!($name), "`].")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        #[allow(missing_docs)]
        pub enum $op { $($(#[$odoc])* $oname = $ocode),+ }

        impl $op {
            /// The opcode with this byte.
            pub fn from_byte(b: u8) -> Option<Self> {
                match b { $($ocode => Some($op::$oname),)+ _ => None }
            }
        }

        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs)]
        pub struct $name {
            /// Which instruction of the layout.
            pub opcode: $op,
            $($(#[$fdoc])* pub $field: $ty,)*
        }

        impl $name {
            /// Fields, fixed bytes and coverage.
            pub const SHAPE: $crate::isa::field::Shape = $crate::isa::field::shape(
                &[$($crate::isa::field::Field {
                    key: stringify!($field), place: $place, kind: $kind,
                    bytes: <$ty as $crate::isa::field::Wire>::BYTES,
                }),*],
                &[$($(($fat, $fval)),*)?],
            );
            #[inline]
            pub(crate) fn code(&self) -> u8 { self.opcode as u8 }
            #[inline]
            pub(crate) fn write(&self, _r: &mut $crate::program::Record) {
                $($crate::isa::field::Wire::put(&self.$field, _r, $place);)*
            }
            pub(crate) fn read(r: &$crate::program::Record) -> Result<Self, $crate::isa::field::Fault> {
                let byte = r[0];
                let opcode = $op::from_byte(byte).ok_or($crate::isa::field::Fault::new(
                    &$crate::diag::codes::isa::ISA_UNKNOWN_OPCODE, 0, byte as i64, "an opcode of this layout"))?;
                Ok($name { opcode, $($field: $crate::isa::field::Wire::get(r, $place)?,)* })
            }
        }
    };
    (
        $(#[$doc:meta])*
        $name:ident = $code:literal
        { $($(#[$fdoc:meta])* $field:ident: $ty:ty = $place:expr, $kind:expr;)* }
        $(fixed { $($fat:literal = $fval:literal),* })?
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs)]
        pub struct $name {
            $($(#[$fdoc])* pub $field: $ty,)*
        }

        impl $name {
            /// Fields, fixed bytes and coverage.
            pub const SHAPE: $crate::isa::field::Shape = $crate::isa::field::shape(
                &[$($crate::isa::field::Field {
                    key: stringify!($field), place: $place, kind: $kind,
                    bytes: <$ty as $crate::isa::field::Wire>::BYTES,
                }),*],
                &[$($(($fat, $fval)),*)?],
            );
            #[inline]
            pub(crate) fn code(&self) -> u8 { $code }
            #[inline]
            pub(crate) fn write(&self, _r: &mut $crate::program::Record) {
                $($crate::isa::field::Wire::put(&self.$field, _r, $place);)*
            }
            pub(crate) fn read(_r: &$crate::program::Record) -> Result<Self, $crate::isa::field::Fault> {
                Ok($name { $($field: $crate::isa::field::Wire::get(_r, $place)?,)* })
            }
        }
    };
}
pub(crate) use layout;
