//! Donated parameters: `input_output_alias` of the module header says that a result may live where a parameter stood.
//!
//! In: the header's text and the entry's shapes. Out: the result leaf of each donated parameter leaf. Lowering may then
//! overwrite the parameter's variable once its last reader has run, as it does with locations of its own, and a
//! result that ends up whole in that variable is not copied: both symbols name one variable.

use super::uses::leaf_count;
use murre_components::hlo::{HloModule, Shape};

/// A donation: parameter number and leaf, result leaf.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Donation {
    /// Parameter number.
    pub parameter: usize,
    /// Leaf of the parameter.
    pub leaf: usize,
    /// Leaf of the result.
    pub output: usize,
}

/// Leaf number of a shape index, if it names one leaf.
fn leaf_of(mut shape: &Shape, index: &[usize]) -> Option<usize> {
    let mut leaf = 0;
    for &i in index {
        let Shape::Tuple(parts) = shape else { return None };
        leaf += parts.iter().take(i).map(leaf_count).sum::<usize>();
        shape = parts.get(i)?;
    }
    matches!(shape, Shape::Array(_)).then_some(leaf)
}

/// Reads `{ {0}: (1, {}, may-alias), ... }`: result index, parameter number, parameter index.
fn entries(text: &str) -> Option<Vec<(Vec<usize>, usize, Vec<usize>)>> {
    let list = |s: &str| -> Option<Vec<usize>> {
        let numbers = s.split(',').map(str::trim).filter(|n| !n.is_empty());
        numbers.map(|n| n.parse().ok()).collect()
    };
    let mut rest = text.trim().strip_prefix('{')?;
    let mut out = Vec::new();
    while let Some(open) = rest.find('{') {
        let (output, tail) = rest[open + 1..].split_once('}')?;
        let (number, tail) = tail.split_once('(')?.1.split_once([',', ')'])?;
        // The parameter's index may be left out.
        let until = tail.split(')').next()?;
        let index = match until.split_once('{') {
            Some((_, inner)) => inner.split_once('}')?.0,
            None => "",
        };
        out.push((list(output)?, number.trim().parse().ok()?, list(index)?));
        rest = match number.is_empty() || !tail.contains(')') {
            true => tail,
            false => tail.split_once(')')?.1,
        };
    }
    Some(out)
}

/// The donations of a module; what is not understood is no donation.
pub fn donations(module: &HloModule) -> Vec<Donation> {
    let entry = module.entry_comp();
    let root = module.inst(entry.root).shape();
    let texts = module.extra.iter().filter(|(key, _)| key == "input_output_alias");
    let mut out: Vec<Donation> = Vec::new();
    for (output, parameter, index) in texts.flat_map(|(_, text)| entries(text).unwrap_or_default()) {
        let Some(shape) = entry.parameters.get(parameter).map(|p| module.inst(*p).shape()) else { continue };
        if let (Some(output), Some(leaf)) = (leaf_of(root, &output), leaf_of(shape, &index)) {
            let new = Donation { parameter, leaf, output };
            let taken = |d: &Donation| d.output == output || (d.parameter, d.leaf) == (parameter, leaf);
            if !out.iter().any(taken) {
                out.push(new);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read() {
        assert_eq!(
            entries("{ {0}: (1, {}, may-alias), {1,2}: (3, {0}, must-alias) }"),
            Some(vec![(vec![0], 1, vec![]), (vec![1, 2], 3, vec![0])])
        );
        assert_eq!(entries("{ {}: (0) }"), Some(vec![(vec![], 0, vec![])]));
        assert_eq!(entries("{}"), Some(vec![]));
        assert_eq!(entries("{ {0}: nothing }"), None);
    }
}
