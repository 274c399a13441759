//! Shape inference: an instruction in, the shape that its operation and operands give out, or what is wrong with them.
//!
//! One file per family: [`elementwise`], [`rearrange`] (data movement), [`contract`] (dot and convolution), [`indexed`]
//! (slices at runtime offsets, gather, scatter), [`region`] (what calls computations), [`parallel`] (other devices, the background). Bounds and flags of dynamic
//! dimensions are part of a shape; layouts are not. Facts: `spec/hlo.md 4`, `7`, `8`.

mod contract;
mod elementwise;
mod indexed;
mod parallel;
mod rearrange;
mod region;

pub(crate) use elementwise::is_elementwise;
use murre_components::diag::{Code, codes::verify};
use murre_components::dtype::HloType;
use murre_components::hlo::{ArrayShape, Computation, HloInst, HloModule, HloOp, Shape};
use murre_components::ids::CompId;

/// What is known of the result.
pub(crate) enum Expect {
    /// Exactly this shape.
    Exact(Shape),
    /// This shape up to the flags of dynamic dimensions.
    Bounds(Shape),
    /// What is written, which was checked.
    Written,
}

/// Something wrong with an instruction.
pub(crate) struct Problem {
    pub code: Code,
    pub message: String,
    pub found: String,
    pub expected: String,
}

/// The result of a rule: `Err` once a problem was noted that leaves no shape to speak of.
pub(crate) type Rule<T> = Result<T, ()>;

/// An instruction under inspection. Operands and computations that are missing from the tables read as absent.
pub(crate) struct Inspect<'m> {
    pub module: &'m HloModule,
    pub inst: HloInst<'m>,
    pub problems: Vec<Problem>,
}

/// `i64` arithmetic on extents never leaves the type: it saturates, and a saturated extent matches no written one.
pub(crate) fn window_extent(dim: i64, w: &murre_components::hlo::WindowDim) -> i64 {
    let dilated = if dim <= 0 { 0 } else { (dim - 1).saturating_mul(w.base_dilation).saturating_add(1) };
    let padded = dilated.saturating_add(w.pad_low).saturating_add(w.pad_high);
    let reach = (w.size - 1).saturating_mul(w.window_dilation).saturating_add(1);
    if padded < reach || w.stride < 1 { 0 } else { (padded - reach) / w.stride + 1 }
}

impl<'m> Inspect<'m> {
    pub(crate) fn new(module: &'m HloModule, inst: HloInst<'m>) -> Self {
        Inspect { module, inst, problems: Vec::new() }
    }

    fn problem<T>(&mut self, code: Code, message: String, found: String, expected: String) -> Rule<T> {
        self.problems.push(Problem { code, message, found, expected });
        Err(())
    }

    fn bad_attribute<T>(&mut self, message: &str, found: impl ToString, expected: impl ToString) -> Rule<T> {
        self.problem(&verify::VERIFY_ATTRIBUTE, message.to_owned(), found.to_string(), expected.to_string())
    }

    fn bad_operand<T>(&mut self, i: usize, expected: impl ToString) -> Rule<T> {
        let found = self.shape(i).map_or("nothing".to_owned(), |s| s.to_string());
        let what = format!("operand {i} of {} does not fit", self.inst.op.name());
        self.problem(&verify::VERIFY_OPERAND, what, found, expected.to_string())
    }

    /// The operation has exactly `n` operands.
    fn count(&mut self, n: usize) -> Rule<()> {
        if self.inst.operands().len() == n {
            return Ok(());
        }
        let what = format!("{} takes {n} operands", self.inst.op.name());
        self.problem(
            &verify::VERIFY_OPERAND_COUNT,
            what,
            self.inst.operands().len().to_string(),
            n.to_string(),
        )
    }

    /// The shape of operand `i`.
    fn shape(&self, i: usize) -> Option<&'m Shape> {
        let id = self.inst.operands().get(i)?;
        self.module.get(*id).map(|x| x.shape())
    }

    fn any(&mut self, i: usize) -> Rule<&'m Shape> {
        match self.shape(i) {
            Some(shape) => Ok(shape),
            None => {
                let (op, n) = (self.inst.op.name(), self.inst.operands().len());
                let what = format!("{op} lacks operand {i}");
                self.problem(
                    &verify::VERIFY_OPERAND_COUNT,
                    what,
                    n.to_string(),
                    format!("at least {}", i + 1),
                )
            }
        }
    }

    /// Operand `i`, which must be an array.
    fn array(&mut self, i: usize) -> Rule<&'m ArrayShape> {
        match self.any(i)? {
            Shape::Array(array) => Ok(array),
            _ => self.bad_operand(i, "an array"),
        }
    }

    /// Operand `i`, which must be an array whose element type passes.
    fn array_of(&mut self, i: usize, what: &str, passes: impl Fn(HloType) -> bool) -> Rule<&'m ArrayShape> {
        let array = self.array(i)?;
        if passes(array.ty) { Ok(array) } else { self.bad_operand(i, what) }
    }

    /// Operand `i`, a scalar of this type.
    fn scalar(&mut self, i: usize, ty: HloType) -> Rule<()> {
        let array = self.array(i)?;
        if array.ty == ty && array.rank() == 0 {
            Ok(())
        } else {
            self.bad_operand(i, format!("{}[]", ty.name()))
        }
    }

    fn computation(&mut self, i: usize) -> Rule<&'m Computation> {
        let id = self.inst.called().get(i).copied().unwrap_or(CompId::NONE);
        match self.module.computations.get(id.index()) {
            Some(c) => Ok(c),
            None => {
                let what = format!("{} lacks called computation {i}", self.inst.op.name());
                self.problem(
                    &verify::VERIFY_COMPUTATION,
                    what,
                    self.inst.called().len().to_string(),
                    (i + 1).to_string(),
                )
            }
        }
    }

    /// Parameter shapes and root shape of a computation.
    fn signature(&self, c: &Computation) -> (Vec<&'m Shape>, Option<&'m Shape>) {
        let shape = |id: &murre_components::ids::HloId| self.module.get(*id).map(|x| x.shape());
        (c.parameters.iter().filter_map(shape).collect(), shape(&c.root))
    }

    /// Called computation `i` takes `parameters` and gives `result` (anything, when `None`). Returns its root's shape.
    fn fits(&mut self, i: usize, parameters: &[Shape], result: Option<&Shape>) -> Rule<&'m Shape> {
        let computation = self.computation(i)?;
        let (own, root) = self.signature(computation);
        let matches = own.len() == parameters.len() && own.iter().zip(parameters).all(|(a, b)| accepts(a, b));
        if !matches {
            let list = |shapes: Vec<String>| format!("({})", shapes.join(", "));
            let found = list(own.iter().map(|s| s.to_string()).collect());
            let expected = list(parameters.iter().map(|s| s.to_string()).collect());
            let what = format!("the parameters of '{}' do not fit {}", computation.name, self.inst.op.name());
            return self.problem(&verify::VERIFY_COMPUTATION, what, found, expected);
        }
        match (root, result) {
            (Some(root), Some(wanted)) if !accepts(wanted, root) => {
                let what =
                    format!("the result of '{}' does not fit {}", computation.name, self.inst.op.name());
                self.problem(&verify::VERIFY_COMPUTATION, what, root.to_string(), wanted.to_string())
            }
            (Some(root), _) => Ok(root),
            (None, _) => Err(()),
        }
    }

    /// Every dimension number is in range and none occurs twice.
    fn distinct_dims(&mut self, name: &str, dims: &[i64], rank: usize) -> Rule<()> {
        let mut seen = vec![false; rank];
        for &d in dims {
            match usize::try_from(d).ok().and_then(|d| seen.get_mut(d)) {
                Some(slot) if !*slot => *slot = true,
                _ => {
                    let what = format!("{name} of {} is wrong", self.inst.op.name());
                    let expected = format!("different dimensions below {rank}");
                    return self.problem(&verify::VERIFY_ATTRIBUTE, what, format!("{dims:?}"), expected);
                }
            }
        }
        Ok(())
    }

    /// The written shape as an array.
    fn written(&mut self) -> Rule<&'m ArrayShape> {
        match self.inst.shape() {
            Shape::Array(array) => Ok(array),
            other => {
                let what = format!("{} gives an array", self.inst.op.name());
                self.problem(&verify::VERIFY_SHAPE, what, other.to_string(), "an array".to_owned())
            }
        }
    }

    fn bad_shape<T>(&mut self, message: &str, expected: impl ToString) -> Rule<T> {
        let found = self.inst.shape().to_string();
        self.problem(&verify::VERIFY_SHAPE, message.to_owned(), found, expected.to_string())
    }

    /// What the operation gives.
    pub(crate) fn expect(&mut self) -> Rule<Expect> {
        use HloOp::*;
        match self.inst.op {
            Parameter => {
                self.count(0)?;
                Ok(Expect::Written)
            }
            Constant | Broadcast | Transpose | Reverse | Concatenate | Iota | Slice | Pad | Reshape
            | DynamicReshape | Tuple | GetTupleElement | GetDimensionSize | SetDimensionSize | Bitcast
            | BitcastConvert | Copy | OptimizationBarrier | AfterAll => self.rearrange(),
            Dot | Convolution | Cholesky | TriangularSolve => self.contract(),
            DynamicSlice | DynamicUpdateSlice | Gather | Scatter => self.indexed(),
            Reduce | ReduceWindow | SelectAndScatter | Sort | Map | While | Conditional | Call | Fusion => {
                self.region()
            }
            TopK | RngBitGenerator | BatchNormTraining | BatchNormInference | BatchNormGrad => {
                self.compound()
            }
            Fft | Rng | RngGetAndUpdateState | StochasticConvert => self.generated(),
            op if elementwise::is_elementwise(op) => self.elementwise(),
            _ => self.parallel(),
        }
    }
}

/// Whether a value of shape `given` may be bound to a parameter of shape `own`: bounds and types agree, and no
/// run-time extent is forgotten.
pub(crate) fn accepts(own: &Shape, given: &Shape) -> bool {
    match (own, given) {
        (Shape::Array(a), Shape::Array(b)) => {
            a.ty == b.ty && a.dims == b.dims && (0..a.rank()).all(|d| a.is_dynamic(d) || !b.is_dynamic(d))
        }
        (Shape::Tuple(a), Shape::Tuple(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(x, y)| accepts(x, y))
        }
        (Shape::Token, Shape::Token) | (Shape::Opaque, Shape::Opaque) => true,
        _ => false,
    }
}

/// Same element types and bounds, flags of dynamic dimensions aside.
pub(crate) fn same_bounds(a: &Shape, b: &Shape) -> bool {
    match (a, b) {
        (Shape::Array(a), Shape::Array(b)) => a.ty == b.ty && a.dims == b.dims,
        (Shape::Tuple(a), Shape::Tuple(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(x, y)| same_bounds(x, y))
        }
        _ => a.same(b),
    }
}

/// The shape of an instruction whose text leaves it out, when its operands give it.
pub(crate) fn inferred_shape(module: &HloModule, inst: HloInst<'_>) -> Option<Shape> {
    match Inspect::new(module, inst).expect() {
        Ok(Expect::Exact(shape) | Expect::Bounds(shape)) => Some(shape),
        _ => None,
    }
}

/// An array shape without a layout; flags are dropped when no dimension is dynamic.
fn array(ty: HloType, dims: Vec<i64>, mut dynamic: Vec<bool>) -> Shape {
    if !dynamic.contains(&true) {
        dynamic.clear();
    }
    Shape::Array(ArrayShape { dynamic, ..ArrayShape::new(ty, dims) })
}

/// The flags of `shape`, one a dimension.
fn flags(shape: &ArrayShape) -> Vec<bool> {
    (0..shape.rank()).map(|d| shape.is_dynamic(d)).collect()
}

/// The shape without its layouts.
fn bare(shape: &Shape) -> Shape {
    match shape {
        Shape::Array(a) => array(a.ty, a.dims.clone(), flags(a)),
        Shape::Tuple(parts) => Shape::Tuple(parts.iter().map(bare).collect()),
        other => other.clone(),
    }
}
