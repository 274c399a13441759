//! The scheduling laboratory: what executor, threads and batch size do to the time of a compilation, and that they do
//! nothing else. In: a module and a list of settings. Out: times of each setting, the bytes compared, and how much the
//! passes could overlap at best. One idea a file: `cell` measures one setting in its own process, since a pool of threads
//! is made once; `critical` finds the longest chain of passes that wait for each other; `matrix` puts it together.

mod cell;
mod critical;
mod matrix;

pub use cell::{Measured, Setting, measure};
pub use critical::{Critical, critical_path};
pub use matrix::{Cell, Matrix};
