//! Activation functions and the table sets that hold them. In: a function. Out: its wire code, whether it is
//! hardwired, and which sets have it. Facts: `spec/isa_compute.md 4.3`.

use serde::{Deserialize, Serialize};

macro_rules! functions {
    ($($name:ident = $ordinal:literal, $text:literal, $code:literal;)*) => {
        /// An activation function, by its IR ordinal.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[repr(u8)]
        #[allow(missing_docs)]
        pub enum ActFunc { $($name = $ordinal),* }

        impl ActFunc {
            /// Every function, by IR ordinal.
            pub const ALL: &'static [ActFunc] = &[$(ActFunc::$name),*];

            /// The wire code.
            pub const fn code(self) -> u8 {
                match self { $(ActFunc::$name => $code),* }
            }

            /// The text name.
            pub const fn name(self) -> &'static str {
                match self { $(ActFunc::$name => $text),* }
            }

            /// The function with this wire code.
            pub const fn from_code(code: u8) -> Option<ActFunc> {
                match code { $($code => Some(ActFunc::$name),)* _ => None }
            }
        }

        /// Names of the wire codes.
        pub const NAMES: &[(u8, &str)] = &[$(($code, $text)),*];
        /// The legal wire codes.
        pub const CODES: &[u8] = &[$($code),*];
    };
}

functions! {
    Identity = 0, "identity", 1;
    Square = 1, "square", 30;
    Relu = 2, "relu", 2;
    Lrelu = 3, "lrelu", 3;
    Prelu = 4, "prelu", 4;
    Sigmoid = 5, "sigmoid", 5;
    Tanh = 6, "tanh", 6;
    Exp = 7, "exp", 7;
    Softplus = 8, "softplus", 9;
    Sqrt = 9, "sqrt", 8;
    Rsqrt = 10, "rsqrt", 29;
    Ln = 11, "ln", 10;
    Erf = 12, "erf", 21;
    Sin = 13, "sin", 19;
    Arctan = 14, "arctan", 28;
    Sign = 15, "sign", 31;
    Gelu = 16, "gelu", 23;
    Mish = 17, "mish", 24;
    GeluApprxTanh = 18, "gelu_apprx_tanh", 25;
    GeluApprxSigmoid = 19, "gelu_apprx_sigmoid", 26;
    DerivativeGeluApprxSigmoid = 20, "derivative_gelu_apprx_sigmoid", 38;
    DerivativeGelu = 21, "derivative_gelu", 32;
    DerivativeErf = 22, "derivative_erf", 22;
    Copy = 23, "copy", 128;
    Abs = 24, "abs", 33;
    Reciprocal = 25, "reciprocal", 129;
    AbsReciprocalSqrt = 26, "abs_reciprocal_sqrt", 34;
    Silu = 27, "silu", 36;
    DerivativeSilu = 28, "derivative_silu", 37;
    IsFinite = 29, "is_finite", 35;
}

use ActFunc::*;

/// The 21 table sets; one is resident at a time.
pub const TABLE_SETS: [&[ActFunc]; 21] = [
    &[Exp, Tanh],
    &[Softplus],
    &[Sigmoid, Tanh, Erf, Arctan],
    &[Sqrt],
    &[],
    &[Ln],
    &[Ln, Exp],
    &[Sigmoid],
    &[Tanh],
    &[Sin, Arctan],
    &[Gelu, DerivativeGelu, Tanh],
    &[GeluApprxTanh],
    &[GeluApprxSigmoid],
    &[Rsqrt, AbsReciprocalSqrt],
    &[Reciprocal],
    &[Silu, DerivativeSilu, Sigmoid],
    &[Mish],
    &[Erf, DerivativeErf],
    &[Exp],
    &[],
    &[DerivativeGeluApprxSigmoid],
];

impl ActFunc {
    /// Available whatever set is resident.
    pub const fn hardwired(self) -> bool {
        matches!(self, Identity | Square | Relu | Lrelu | Prelu | Sign | Copy | Abs | IsFinite)
    }

    /// Whether table set `set` provides the function (hardwired ones: always).
    pub fn in_set(self, set: u8) -> bool {
        self.hardwired() || TABLE_SETS.get(set as usize).is_some_and(|s| s.contains(&self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_is_reachable_and_codes_are_unique() {
        for (i, f) in ActFunc::ALL.iter().enumerate() {
            assert_eq!(*f as usize, i);
            assert_eq!(ActFunc::from_code(f.code()), Some(*f));
            assert!(f.hardwired() || (0..21).any(|s| f.in_set(s)), "{f:?} is in no set");
        }
    }
}
