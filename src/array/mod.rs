//! Arrays on the host: what `.npy` and `.npz` files hold, and how results are compared with goldens.

pub mod float;
