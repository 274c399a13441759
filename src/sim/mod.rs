//! sim
mod memory;
mod numerics;
