//! DMAs get a route, an engine and a queue.

mod alloc_queues;
mod assign_hwdge_engine;
mod assign_trigger_engine;
mod dynamic_dma_cleanup;
mod dynamic_dma_scan;

pub use alloc_queues::AllocQueues;
pub use assign_hwdge_engine::AssignHwdgeEngine;
pub use assign_trigger_engine::AssignTriggerEngine;
pub use dynamic_dma_cleanup::DynamicDmaCleanup;
pub use dynamic_dma_scan::DynamicDmaScan;
