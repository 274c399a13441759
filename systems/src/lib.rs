//! The verbs of murre: every pass is a system, one folder a stage.
