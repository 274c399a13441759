//! Synthetic back-end programs for tests and benches.
