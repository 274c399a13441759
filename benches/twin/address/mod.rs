//! Run-time addresses, loops and branches become register arithmetic.

mod expand_all_engine;
mod expand_dynamic_ap_info;
mod lower_ap;
mod lower_branch;
mod rewire_dynamic_ap_registers;

pub use expand_all_engine::ExpandAllEngine;
pub use expand_dynamic_ap_info::ExpandDynamicApInfo;
pub use lower_ap::LowerAp;
pub use lower_branch::LowerBranch;
pub use rewire_dynamic_ap_registers::RewireDynamicApRegisters;
