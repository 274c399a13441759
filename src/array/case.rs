//! Fixture cases: `case.json` in, the vectors' files, true element types and tolerances out.

use super::compare::Tolerance;
use super::files::read_npy_file;
use super::{HostArray, compare};
use murre_components::diag::{Diagnostic, codes::read};
use murre_components::dtype::HloType;
use murre_components::hlo::ArrayShape;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// One leaf of the result: type, extents (of vector 0, when they vary) and tolerance.
#[derive(Clone, Debug)]
pub struct Leaf {
    /// True element type.
    pub ty: HloType,
    /// Extents, or bounds where a dimension is dynamic.
    pub shape: ArrayShape,
    /// How near a result must come.
    pub tolerance: Tolerance,
}

/// One input vector with its goldens, as file names in the case's directory.
#[derive(Clone, Debug)]
pub struct Vector {
    /// `v0`, `v1` ...
    pub name: String,
    /// Input files by entry parameter.
    pub inputs: Vec<String>,
    /// Golden files by result leaf.
    pub outputs: Vec<String>,
    /// Golden files of a run that rounded every low-precision intermediate as the program says, where there was one.
    pub strict: Option<Vec<String>>,
}

/// A fixture: one program, several vectors.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// Its directory.
    pub dir: PathBuf,
    /// Shapes of the entry parameters.
    pub inputs: Vec<ArrayShape>,
    /// The result's leaves.
    pub outputs: Vec<Leaf>,
    /// The vectors.
    pub vectors: Vec<Vector>,
}

/// Reads `case.json` of a fixture directory.
#[allow(clippy::result_large_err)] // one diagnostic a case
pub fn load_case(dir: &Path) -> Result<Case, Diagnostic> {
    let path = dir.join("case.json");
    let file = path.display().to_string();
    let text = std::fs::read_to_string(&path).map_err(|e| {
        Diagnostic::error(&read::ARRAY_MISSING, format!("{file} cannot be read: {e}")).in_file(&file)
    })?;
    let fault = |what: String| Diagnostic::error(&read::CASE_INVALID, what).in_file(&file);
    let json: Value = serde_json::from_str(&text).map_err(|e| fault(format!("{file} is not JSON: {e}")))?;
    case_of(&json, dir).ok_or_else(|| fault(format!("{file} lacks inputs, outputs, tolerances or vectors")))
}

fn case_of(json: &Value, dir: &Path) -> Option<Case> {
    let inputs: Option<Vec<ArrayShape>> = json.get("inputs")?.as_array()?.iter().map(shape_of).collect();
    let leaves = json.get("outputs")?.as_array()?;
    let tolerances = json.get("tolerance")?.as_array()?;
    if leaves.len() != tolerances.len() {
        return None;
    }
    let outputs: Option<Vec<Leaf>> = leaves
        .iter()
        .zip(tolerances)
        .map(|(leaf, tolerance)| {
            let shape = shape_of(leaf)?;
            Some(Leaf { ty: shape.ty, shape, tolerance: tolerance_of(tolerance)? })
        })
        .collect();
    let (inputs, outputs) = (inputs?, outputs?);
    let vectors: Option<Vec<Vector>> = json
        .get("vectors")?
        .as_array()?
        .iter()
        .map(|v| {
            let vector = Vector {
                name: v.get("name")?.as_str()?.to_owned(),
                inputs: names(v.get("inputs")?)?,
                outputs: names(v.get("outputs")?)?,
                strict: match v.get("strict_outputs") {
                    Some(list) => Some(names(list)?),
                    None => None,
                },
            };
            let strict = vector.strict.as_ref().is_none_or(|s| s.len() == outputs.len());
            let whole =
                strict && vector.inputs.len() == inputs.len() && vector.outputs.len() == outputs.len();
            whole.then_some(vector)
        })
        .collect();
    Some(Case {
        name: json.get("name")?.as_str()?.to_owned(),
        dir: dir.to_path_buf(),
        inputs,
        outputs,
        vectors: vectors?,
    })
}

fn names(list: &Value) -> Option<Vec<String>> {
    // A file of the case lies in its directory, or in one below.
    let below = |name: &&str| {
        !name.contains('\\')
            && Path::new(name).components().all(|c| matches!(c, std::path::Component::Normal(_)))
    };
    list.as_array()?.iter().map(|n| n.as_str().filter(below).map(str::to_owned)).collect()
}

fn shape_of(leaf: &Value) -> Option<ArrayShape> {
    let ty = HloType::from_name(leaf.get("dtype")?.as_str()?)?;
    let extents = leaf.get("bound").or_else(|| leaf.get("shape"))?.as_array()?;
    let dims: Option<Vec<i64>> = extents.iter().map(|d| d.as_i64().filter(|d| *d >= 0)).collect();
    let mut shape = ArrayShape::new(ty, dims?);
    if let Some(dynamic) = leaf.get("dynamic_dims").and_then(Value::as_array) {
        shape.dynamic = vec![false; shape.rank()];
        for d in dynamic {
            *shape.dynamic.get_mut(usize::try_from(d.as_u64()?).ok()?)? = true;
        }
    }
    Some(shape)
}

fn tolerance_of(json: &Value) -> Option<Tolerance> {
    match json.get("kind")?.as_str()? {
        "exact" => Some(Tolerance::Exact),
        "close" => {
            Some(Tolerance::Close { rtol: json.get("rtol")?.as_f64()?, atol: json.get("atol")?.as_f64()? })
        }
        _ => None,
    }
}

impl Case {
    /// The inputs of a vector.
    pub fn read_inputs(&self, vector: &Vector) -> Result<Vec<HostArray>, Vec<Diagnostic>> {
        self.read(&vector.inputs, self.inputs.iter())
    }

    /// The goldens of a vector.
    pub fn read_goldens(&self, vector: &Vector) -> Result<Vec<HostArray>, Vec<Diagnostic>> {
        self.read(&vector.outputs, self.outputs.iter().map(|o| &o.shape))
    }

    /// The goldens of a run of the vector that rounded every low-precision intermediate as the program says.
    pub fn read_strict_goldens(&self, vector: &Vector) -> Result<Option<Vec<HostArray>>, Vec<Diagnostic>> {
        let Some(files) = &vector.strict else { return Ok(None) };
        self.read(files, self.outputs.iter().map(|o| &o.shape)).map(Some)
    }

    #[allow(clippy::result_large_err)] // one diagnostic a file
    fn read<'s>(
        &self,
        files: &[String],
        shapes: impl Iterator<Item = &'s ArrayShape>,
    ) -> Result<Vec<HostArray>, Vec<Diagnostic>> {
        let mut arrays = Vec::new();
        let mut faults = Vec::new();
        for (file, shape) in files.iter().zip(shapes) {
            match read_npy_file(&self.dir.join(file)).and_then(|a| a.conform(shape, file)) {
                Ok(array) => arrays.push(array),
                Err(fault) => faults.push(fault),
            }
        }
        if faults.is_empty() { Ok(arrays) } else { Err(faults) }
    }

    /// Compares the results of a vector with its goldens, leaf by leaf: the leaves that differ, with what differs.
    pub fn compare(&self, got: &[HostArray], goldens: &[HostArray]) -> Vec<(usize, compare::Mismatch)> {
        if got.len() != goldens.len() || got.len() != self.outputs.len() {
            let message = format!("got {} results, want {}", got.len(), goldens.len());
            return vec![(0, compare::Mismatch { message })];
        }
        let pairs = got.iter().zip(goldens).zip(&self.outputs).enumerate();
        pairs
            .filter_map(|(i, ((g, w), leaf))| compare::compare(g, w, &leaf.tolerance).err().map(|m| (i, m)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_case_has_a_code() {
        let dir = tempfile::tempdir().expect("a scratch directory");
        assert_eq!(load_case(dir.path()).err().map(|d| d.code.id), Some("MUR0124"));
        for text in [
            "{",
            "{}",
            r#"{"name":"x","inputs":[],"outputs":[{"dtype":"f99","shape":[]}],"tolerance":[{}],"vectors":[]}"#,
        ] {
            std::fs::write(dir.path().join("case.json"), text).expect("writing");
            assert_eq!(load_case(dir.path()).err().map(|d| d.code.id), Some("MUR0127"), "{text}");
        }
    }
}
