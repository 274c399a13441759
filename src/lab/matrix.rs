//! The matrix. In: a list of settings, and a way to measure one (a process each, outside of this file). Out: a table of
//! medians, the critical path of the first cell, and a complaint when two cells gave different bytes: that is a bug of
//! ours (MUR0920), whatever the times.

use super::cell::{Measured, Setting};
use super::critical::{Critical, critical_path};
use murre_components::diag::{Diagnostic, codes::cli::LAB_BYTES};
use serde_json::{Value, json};

/// A setting and what it came to.
#[derive(Clone, PartialEq, Debug)]
pub struct Cell {
    /// The setting.
    pub setting: Setting,
    /// What it came to.
    pub measured: Measured,
}

/// All cells, all of one digest.
pub struct Matrix {
    cells: Vec<Cell>,
    critical: Critical,
}

impl Matrix {
    /// A matrix of cells; the first should have one thread, since the critical path is made of its times.
    pub fn new(cells: Vec<Cell>) -> Result<Matrix, Diagnostic> {
        if let Some(first) = cells.first()
            && let Some(other) = cells.iter().find(|c| c.measured.digest != first.measured.digest)
        {
            let message = format!("the artifact of {} differs from that of {}", other.setting, first.setting);
            return Err(Diagnostic::error(&LAB_BYTES, message)
                .found(other.measured.digest.clone())
                .expected(first.measured.digest.clone()));
        }
        let critical = critical_path(cells.first().map_or(&[], |c| &c.measured.passes));
        Ok(Matrix { cells, critical })
    }

    fn base_us(&self) -> f64 {
        self.cells.first().map_or(0.0, |c| c.measured.median_us())
    }

    /// A table, and the critical path below it.
    pub fn text(&self) -> String {
        let mut out = format!(
            "{:<9} {:>7} {:>11} {:>12} {:>12} {:>8}\n",
            "executor", "threads", "batch rows", "median us", "best us", "speed"
        );
        for Cell { setting, measured } in &self.cells {
            out += &format!(
                "{:<9} {:>7} {:>11} {:>12.1} {:>12.1} {:>7.2}x\n",
                setting.executor_name(),
                setting.threads,
                setting.batch_rows,
                measured.median_us(),
                measured.us.first().copied().unwrap_or(0.0),
                self.base_us() / measured.median_us().max(f64::MIN_POSITIVE)
            );
        }
        let Critical { total_us, path_us, path } = &self.critical;
        out += &format!(
            "\n{} artifacts, all the same bytes\npasses {total_us:.1} us, critical path {path_us:.1} us, parallelism available {:.2}\n",
            self.cells.len(),
            self.critical.parallelism()
        );
        out += "critical path, from 1 % of it on:\n";
        for (name, us) in path.iter().filter(|p| p.1 * 100.0 >= *path_us) {
            out += &format!("{us:>12.1} us  {name}\n");
        }
        out
    }

    /// The same as JSON.
    pub fn json(&self) -> Value {
        let cells = self.cells.iter().map(|Cell { setting, measured }| {
            json!({
                "executor": setting.executor_name(), "threads": setting.threads, "batch_rows": setting.batch_rows,
                "median_us": measured.median_us(), "us": measured.us, "digest": measured.digest,
            })
        });
        let path = self.critical.path.iter().map(|(name, us)| json!({ "pass": name, "us": us }));
        json!({
            "cells": cells.collect::<Vec<_>>(),
            "total_us": self.critical.total_us, "critical_path_us": self.critical.path_us,
            "parallelism": self.critical.parallelism(), "critical_path": path.collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(setting: &str, digest: &str, us: f64) -> Cell {
        let passes = vec![("color_sbuf".to_string(), 30.0), ("encode_records".to_string(), 70.0)];
        Cell {
            setting: setting.parse().unwrap(),
            measured: Measured { digest: digest.to_string(), us: vec![us], passes },
        }
    }

    #[test]
    fn equal_cells_become_a_table() {
        let matrix =
            Matrix::new(vec![cell("single:1:64", "a", 100.0), cell("multi:2:64", "a", 50.0)]).unwrap();
        let text = matrix.text();
        assert!(text.contains("2.00x"), "{text}");
        assert!(
            text.contains("passes 100.0 us, critical path 100.0 us, parallelism available 1.00"),
            "{text}"
        );
        assert_eq!(matrix.json()["cells"][1]["median_us"], 50.0);
    }

    #[test]
    fn other_bytes_are_a_bug() {
        let cells = vec![cell("single:1:64", "a", 1.0), cell("multi:2:64", "b", 1.0)];
        let complaint = Matrix::new(cells).err().unwrap();
        assert_eq!(complaint.code.id, "MUR0920");
        assert!(complaint.message.contains("multi:2:64"));
    }
}
