//! What a module's outer facts say of its entry computation: layouts of parameters and result, and which of them share
//! memory. Both forms of a module state them, and both must fit the computation. Facts: `spec/hlo.md 4`.

use super::infer::same_bounds;
use murre_components::diag::{Diagnostic, Span, codes::read};
use murre_components::hlo::{HloModule, Shape};

/// A parameter that shares memory with a part of the result, or gives its memory away.
pub(super) struct Alias {
    pub output: Option<Vec<i64>>,
    pub parameter: i64,
    pub index: Vec<i64>,
    pub at: Option<Span>,
}

/// What is said of the entry computation, to be checked when that has been read.
#[derive(Default)]
pub(super) struct Outer {
    /// Shapes of the parameters and of the result.
    pub layout: Option<(Vec<Shape>, Shape, Option<Span>)>,
    pub aliases: Vec<Alias>,
}

/// The part of a shape at an index of nested tuples.
fn part<'s>(shape: &'s Shape, index: &[i64]) -> Option<&'s Shape> {
    index.iter().try_fold(shape, |shape, i| match shape {
        Shape::Tuple(parts) => parts.get(usize::try_from(*i).ok()?),
        _ => None,
    })
}

/// Bytes of the arrays of a shape.
fn bytes(shape: &Shape) -> u64 {
    let arrays = shape.leaves().into_iter().filter_map(|s| s.array());
    arrays.fold(0u64, |n, a| n.saturating_add(a.elements().saturating_mul(a.ty.bytes() as u64)))
}

fn signature(parameters: &[Shape], result: &Shape) -> String {
    let list: Vec<String> = parameters.iter().map(|s| s.to_string()).collect();
    format!("({})->{result}", list.join(", "))
}

impl Outer {
    /// What does not fit the entry computation, and where it is said.
    pub fn faults(&self, module: &HloModule) -> Vec<(Option<Span>, Diagnostic)> {
        let mut faults = Vec::new();
        let entry = module.entry_comp();
        let own: Vec<Shape> = entry.parameters.iter().map(|p| module.inst(*p).shape().clone()).collect();
        let root = module.inst(entry.root).shape();
        if let Some((parameters, result, at)) = &self.layout {
            let fits = parameters.len() == own.len()
                && parameters.iter().zip(&own).all(|(a, b)| same_bounds(a, b))
                && same_bounds(result, root);
            if !fits {
                let what = "entry_computation_layout does not fit the entry computation";
                let fault = Diagnostic::error(&read::READ_OPERAND_SHAPE, what);
                let fault = fault.found(signature(parameters, result)).expected(signature(&own, root));
                faults.push((*at, fault));
            }
        }
        for alias in &self.aliases {
            let parameter = usize::try_from(alias.parameter).ok().and_then(|n| own.get(n));
            let fits = parameter.is_some_and(|shape| part(shape, &alias.index).is_some())
                && alias.output.as_ref().is_none_or(|output| part(root, output).is_some());
            let found = format!("parameter {}, index {:?}", alias.parameter, alias.index);
            let mut fault =
                |what| faults.push((alias.at, Diagnostic::error(&read::READ_ATTRIBUTE, what).found(&found)));
            let Some(own) = parameter.and_then(|shape| part(shape, &alias.index)).filter(|_| fits) else {
                fault("an alias names a parameter or result that does not exist");
                continue;
            };
            let given = alias.output.as_ref().and_then(|output| part(root, output));
            if given.is_some_and(|given| bytes(given) != bytes(own)) {
                fault("a parameter and the result that shares its memory differ in size");
            }
        }
        faults
    }
}
