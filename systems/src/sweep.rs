//! A sweep over a table in batches. In: a mutable column, a batch size, and what to do with a run of rows. Out: the same
//! column, each row written once. With a pool of several threads the batches run at once; since no batch sees another's
//! rows, neither the batch size nor the threads can change what is written. Below one batch, or with one thread, it is
//! a plain loop.

use crate::options::{CompileOptions, ExecutorChoice};
use bevy_tasks::ComputeTaskPool;

/// Rows of a batch unless the options say otherwise: less does not pay for its task (`spec/ecs.md 3`).
pub const BATCH_ROWS: u32 = 4096;

/// Rows of a batch that the options ask for; `None` when sweeps are not to be split.
pub fn batch_rows(options: &CompileOptions) -> Option<usize> {
    let rows = match (options.batch_rows, options.executor) {
        (Some(rows), _) => rows,
        (None, ExecutorChoice::Multi) => BATCH_ROWS,
        (None, ExecutorChoice::Single) => return None,
    };
    Some(rows.max(1) as usize)
}

/// Calls `each` with every batch of `rows` and the index of its first row.
#[inline]
pub fn sweep<T: Send>(rows: &mut [T], batch: Option<usize>, each: impl Fn(usize, &mut [T]) + Sync) {
    let Some(batch) = batch.filter(|b| *b < rows.len()) else { return each(0, rows) };
    let batches = rows.chunks_mut(batch).enumerate();
    let Some(pool) = ComputeTaskPool::try_get().filter(|pool| pool.thread_num() > 1) else {
        return batches.for_each(|(k, part)| each(k * batch, part));
    };
    pool.scope(|scope| {
        for (k, part) in batches {
            let each = &each;
            scope.spawn(async move { each(k * batch, part) });
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_written_once_whatever_the_batch() {
        crate::compile::set_threads(3);
        for batch in [None, Some(1), Some(7), Some(1000), Some(5000)] {
            let mut rows = vec![0usize; 1000];
            sweep(&mut rows, batch, |first, part| {
                part.iter_mut().enumerate().for_each(|(k, row)| *row += first + k)
            });
            assert!(rows.iter().copied().eq(0..1000), "{batch:?}");
        }
    }
}
