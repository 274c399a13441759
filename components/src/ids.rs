//! Dense ids. Every cross-reference in the world is one of these: a `u32` newtype that indexes a table
//! or a side array. `NONE` (all ones) is the absent reference.

macro_rules! dense_id {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// The absent reference.
            pub const NONE: Self = Self(u32::MAX);

            /// The id of row `index`.
            #[inline]
            pub fn new(index: usize) -> Self {
                debug_assert!(index < u32::MAX as usize);
                Self(index as u32)
            }

            /// The row this id names. Meaningless for `NONE`.
            #[inline]
            pub fn index(self) -> usize {
                self.0 as usize
            }

            /// Whether this is a reference at all.
            #[inline]
            pub fn is_some(self) -> bool {
                self.0 != u32::MAX
            }

            /// Whether this is the absent reference.
            #[inline]
            pub fn is_none(self) -> bool {
                self.0 == u32::MAX
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::NONE
            }
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                if self.is_none() { f.write_str(concat!(stringify!($name), "(-)")) } else { write!(f, concat!(stringify!($name), "({})"), self.0) }
            }
        }
    )*};
}

dense_id! {
    /// An HLO instruction, by its row in [`crate::hlo::HloModule`].
    HloId;
    /// An HLO computation.
    CompId;
    /// An interned HLO shape.
    ShapeId;
    /// Interned attributes of HLO instructions.
    AttrId;
    /// An interned text of an HLO module.
    TextId;
    /// A Penguin node.
    NodeId;
    /// A BIR instruction: its row in the instruction table, in the order of creation (not program order).
    InstId;
    /// An access pattern.
    ApId;
    /// A virtual register.
    RegId;
    /// A memory location.
    LocId;
    /// A loop axis.
    AxisId;
    /// An interned quasi-affine expression.
    ExprId;
    /// A basic block of the lowered program.
    BlockId;
    /// A DMA queue.
    QueueId;
    /// A DMA block: a list of descriptors behind one trigger.
    DmaBlockId;
    /// A DMA descriptor.
    DescId;
}
