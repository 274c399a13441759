//! Arrays of the host against a program at its bounds. In: arrays of their actual extents. Out: bytes for every input of
//! the program, the extents among them; and back: outputs cut to their extents, or the size that was out of bounds.
//! Facts: `spec/dynamic_shapes.md 6`.

use crate::array::HostArray;
use murre_components::diag::{Diagnostic, codes::sim as codes};
use murre_components::hlo::ArrayShape;
use murre_components::program::{Extent, Extents, Program, SizeCheck, Symbol};

/// Shapes of the visible inputs, as the host sees them.
pub fn input_shapes(program: &Program) -> Vec<ArrayShape> {
    let inputs = program.visible_inputs().enumerate();
    inputs.map(|(k, s)| host_shape(s, k, &program.extents.inputs)).collect()
}

fn host_shape(symbol: &Symbol, number: usize, extents: &[Extent]) -> ArrayShape {
    let dims: Vec<i64> = symbol.dims.iter().map(|&d| i64::try_from(d).unwrap_or(i64::MAX)).collect();
    let mut shape = ArrayShape::new(symbol.ty, dims);
    for e in extents.iter().filter(|e| e.array as usize == number) {
        shape.dynamic.resize(shape.dims.len(), false);
        if let Some(flag) = shape.dynamic.get_mut(e.dimension as usize) {
            *flag = true;
        }
    }
    shape
}

/// The bytes of each input of the program. All faults are reported together.
pub fn to_device(program: &Program, inputs: &[HostArray]) -> Result<Vec<Vec<u8>>, Vec<Diagnostic>> {
    let mut bytes: Vec<Vec<u8>> = Vec::with_capacity(inputs.len() + program.extents.inputs.len());
    if program.extents.inputs.is_empty() {
        bytes.extend(inputs.iter().map(|a| a.data.clone()));
        return Ok(bytes);
    }
    let shapes = input_shapes(program);
    if shapes.len() != inputs.len() {
        let fault = Diagnostic::error(&codes::SIM_INPUT, "the program takes another number of inputs");
        let (found, expected) = (format!("{} inputs", inputs.len()), format!("{} inputs", shapes.len()));
        return Err(vec![fault.found(found).expected(expected)]);
    }
    let mut faults = Vec::new();
    for (k, (array, shape)) in inputs.iter().zip(&shapes).enumerate() {
        match array.clone().conform(shape, &format!("input {k}")) {
            Ok(array) if shape.has_dynamic() => {
                let bounds: Vec<u64> = shape.dims.iter().map(|d| (*d).max(0) as u64).collect();
                bytes.push(resized(&array, &bounds).data);
            }
            Ok(array) => bytes.push(array.data),
            Err(fault) => faults.push(fault.ordered(k as u32)),
        }
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    for e in &program.extents.inputs {
        let extent = inputs.get(e.array as usize).and_then(|a| a.dims.get(e.dimension as usize));
        let extent = extent.and_then(|n| i32::try_from(*n).ok()).unwrap_or(i32::MAX);
        bytes.push(extent.to_le_bytes().to_vec());
    }
    Ok(bytes)
}

fn scalar(bytes: Option<&Vec<u8>>) -> i32 {
    let word = bytes.and_then(|b| b.as_slice().try_into().ok());
    word.map_or(0, i32::from_le_bytes)
}

/// The visible outputs at their extents; a failed check of a size is a fault.
#[allow(clippy::result_large_err)] // one diagnostic a run
pub fn to_host(program: &Program, outputs: Vec<Vec<u8>>) -> Result<Vec<HostArray>, Diagnostic> {
    let hidden = outputs.get(program.visible_outputs().count()..).unwrap_or_default();
    let extents = &program.extents.outputs;
    if program.extents.reports {
        let failed = scalar(hidden.get(extents.len()));
        if failed != 0 {
            let size = scalar(hidden.get(extents.len() + 1));
            let fault = |what: String| Diagnostic::error(&codes::SIM_SIZE, what).found(size.to_string());
            let check =
                usize::try_from(failed).ok().and_then(|k| program.extents.checks.get(k.checked_sub(1)?));
            return Err(match check {
                None => fault(format!("check {failed} of a run-time size failed")),
                Some(c) if c.bound == SizeCheck::BESIDE => {
                    let (name, d) = (&c.instruction, c.dimension);
                    let what = format!(
                        "{name} reads dimension {d} of an operand behind its end, which is at {size}"
                    );
                    let fault = Diagnostic::error(&codes::SIM_EXTENTS, what).found(size.to_string());
                    fault.on(name).expected("the same extent as its other operands")
                }
                Some(c) => {
                    fault(format!("{} gives dimension {} the size {size}", c.instruction, c.dimension))
                        .on(&c.instruction)
                        .expected(format!("a size from 0 to {}", c.bound))
                }
            });
        }
    }
    let arrays = program.outputs().zip(outputs);
    let arrays = arrays.map(|(s, data)| HostArray { ty: s.ty, dims: s.dims.clone(), data }).collect();
    Ok(visible(arrays, &program.extents))
}

/// Of all results of a program or of a rewritten module: those that the host sees, at their extents.
pub fn visible(mut results: Vec<HostArray>, extents: &Extents) -> Vec<HostArray> {
    let hidden = results.split_off(results.len().saturating_sub(extents.hidden_outputs()));
    for (k, array) in results.iter_mut().enumerate() {
        let mut dims = array.dims.clone();
        for (e, size) in extents.outputs.iter().zip(&hidden).filter(|(e, _)| e.array as usize == k) {
            if let Some(d) = dims.get_mut(e.dimension as usize) {
                *d = (scalar(Some(&size.data)).max(0) as u64).min(*d);
            }
        }
        *array = resized(array, &dims);
    }
    results
}

/// The array with other extents: what both have stays in its place, the rest is zero.
pub fn resized(array: &HostArray, dims: &[u64]) -> HostArray {
    let data = match dims == array.dims {
        true => array.data.clone(),
        false => recast(&array.data, array.ty.bytes(), &array.dims, dims),
    };
    HostArray { ty: array.ty, dims: dims.to_vec(), data }
}

/// The row-major elements of extents `from` in an array of extents `into`: what both have is copied, the rest is zero.
fn recast(data: &[u8], width: usize, from: &[u64], into: &[u64]) -> Vec<u8> {
    let count = |dims: &[u64]| dims.iter().fold(1usize, |n, d| n.saturating_mul(*d as usize));
    let mut out = vec![0; count(into).saturating_mul(width)];
    let common: Vec<usize> = from.iter().zip(into).map(|(a, b)| (*a).min(*b) as usize).collect();
    let Some((row, outer)) = common.split_last() else {
        out.copy_from_slice(data.get(..width).unwrap_or(&[]));
        return out;
    };
    let rows: usize = outer.iter().product();
    for r in 0..rows {
        let (mut rest, mut read, mut write, mut step) = (r, 0, 0, (1, 1));
        for d in (0..from.len()).rev() {
            let index = if d + 1 == from.len() { 0 } else { rest % common[d] };
            if d + 1 < from.len() {
                rest /= common[d];
            }
            (read, write) = (read + index * step.0, write + index * step.1);
            step = (step.0 * from[d] as usize, step.1 * into[d] as usize);
        }
        let (read, write, n) = (read * width, write * width, row * width);
        if let (Some(from), Some(to)) = (data.get(read..read + n), out.get_mut(write..write + n)) {
            to.copy_from_slice(from);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_grow_to_their_bounds_and_shrink_back() {
        let data: Vec<u8> = (1..=6).collect();
        let wide = recast(&data, 1, &[2, 3], &[3, 4]);
        assert_eq!(wide, [1, 2, 3, 0, 4, 5, 6, 0, 0, 0, 0, 0]);
        assert_eq!(recast(&wide, 1, &[3, 4], &[2, 3]), data);
        assert!(recast(&wide, 1, &[3, 4], &[0, 3]).is_empty());
        assert_eq!(recast(&[7, 8], 2, &[], &[]), [7, 8]);
        assert_eq!(recast(&[1, 2, 3, 4], 2, &[2], &[3]), [1, 2, 3, 4, 0, 0]);
    }
}
