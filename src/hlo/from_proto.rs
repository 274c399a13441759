//! Wire messages in, module out: ids become dense, computations come callees first, instructions operands first, and
//! literals leave their layout order for row-major order.
//!
//! A proto promises no order; where it has a legal one it is kept. What the ids name must exist, and nothing may
//! depend on itself. Facts: `spec/hlo.md 5`.

use super::proto::{HloComputationProto, HloInstructionProto, HloModuleProto, ShapeProto};
use super::{proto_attributes, proto_literal};
use crate::hlo::lex::escape;
use murre_components::diag::{Code, Diagnostic, codes::read};
use murre_components::dtype::HloType;
use murre_components::hash::{SeededMap, seeded_map};
use murre_components::hlo::{
    ArrayShape, Attrs, Computation, HloInstruction, HloModule, HloOp, Shape, SourceLoc, UNBOUNDED,
};
use murre_components::ids::{CompId, HloId};

/// A fault inside the proto; the caller adds where.
pub(super) type Fault = Box<Diagnostic>;

pub(super) fn fault(code: Code, message: impl Into<String>) -> Fault {
    Box::new(Diagnostic::error(code, message))
}

/// Converts a module. `origin` names the input in diagnostics.
pub fn convert(proto: &HloModuleProto, origin: &str) -> Result<HloModule, Vec<Diagnostic>> {
    let mut faults = Vec::new();
    let module = build(proto, &mut faults);
    for fault in &mut faults {
        fault.file = Some(origin.to_owned());
    }
    match module {
        Some(module) if faults.is_empty() => Ok(module),
        _ => Err(faults),
    }
}

/// An order of `0..edges.len()` in which what an element needs comes before it, the given order where that is legal;
/// `Err` names an element on a cycle. Works on an explicit stack.
fn dependency_order(edges: &[Vec<usize>]) -> Result<Vec<usize>, usize> {
    const NEW: u8 = 0;
    const OPEN: u8 = 1;
    const DONE: u8 = 2;
    let mut state = vec![NEW; edges.len()];
    let mut order = Vec::with_capacity(edges.len());
    for start in 0..edges.len() {
        if state[start] != NEW {
            continue;
        }
        let mut stack = vec![(start, 0)];
        state[start] = OPEN;
        while let Some((node, next)) = stack.last_mut() {
            match edges[*node].get(*next) {
                Some(&needed) => {
                    *next += 1;
                    match state[needed] {
                        NEW => {
                            state[needed] = OPEN;
                            stack.push((needed, 0));
                        }
                        OPEN => return Err(needed),
                        _ => {}
                    }
                }
                None => {
                    state[*node] = DONE;
                    order.push(*node);
                    stack.pop();
                }
            }
        }
    }
    Ok(order)
}

fn build(proto: &HloModuleProto, faults: &mut Vec<Diagnostic>) -> Option<HloModule> {
    let mut index: SeededMap<i64, usize> = seeded_map();
    for (i, c) in proto.computations.iter().enumerate() {
        if index.insert(c.id, i).is_some() {
            faults.push(Diagnostic::error(
                &read::READ_DUPLICATE,
                format!("a second computation with id {}", c.id),
            ));
        }
    }
    let mut edges = vec![Vec::new(); proto.computations.len()];
    for (i, c) in proto.computations.iter().enumerate() {
        for inst in &c.instructions {
            for id in &inst.called_computation_ids {
                match index.get(id) {
                    Some(&callee) => edges[i].push(callee),
                    None => faults.push(
                        Diagnostic::error(
                            &read::READ_MISSING_COMPUTATION,
                            format!("computation id {id} does not exist"),
                        )
                        .on(&inst.name),
                    ),
                }
            }
        }
    }
    if !faults.is_empty() {
        return None;
    }
    let order = match dependency_order(&edges) {
        Ok(order) => order,
        Err(at) => {
            let name = proto.computations.get(at).map_or("", |c| c.name.as_str());
            let what = format!("computation '{name}' calls itself, directly or through others");
            faults.push(Diagnostic::error(&read::READ_CYCLE, what));
            return None;
        }
    };
    let mut module = HloModule { name: proto.name.clone(), ..HloModule::default() };
    let mut comp_ids: SeededMap<i64, CompId> = seeded_map();
    for i in order {
        let computation = proto.computations.get(i)?;
        let id = CompId::new(module.computations.len());
        comp_ids.insert(computation.id, id);
        add_computation(&mut module, proto, computation, id, &comp_ids, faults);
    }
    match comp_ids.get(&proto.entry_computation_id) {
        Some(id) => module.entry = *id,
        None => {
            let found = (0..module.computations.len()).rev().find(|i| {
                module.computations.get(*i).is_some_and(|c| c.name == proto.entry_computation_name)
            });
            match found {
                Some(i) => module.entry = CompId::new(i),
                None => {
                    let what =
                        format!("the entry computation, id {}, does not exist", proto.entry_computation_id);
                    faults.push(Diagnostic::error(&read::READ_ENTRY, what));
                }
            }
        }
    }
    module_extra(proto, &mut module);
    Some(module)
}

fn module_extra(proto: &HloModuleProto, module: &mut HloModule) {
    if let Some(program) = &proto.host_program_shape
        && let Some(Ok(result)) = program.result.as_ref().map(|r| shape(r, 0))
    {
        let parameters: Result<Vec<String>, Fault> =
            program.parameters.iter().map(|p| shape(p, 0).map(|s| s.to_string())).collect();
        if let Ok(parameters) = parameters {
            let text = format!("{{({})->{result}}}", parameters.join(", "));
            module.extra.push(("entry_computation_layout".to_owned(), text));
        }
    }
    if let Some(text) = proto.frontend_attributes.as_ref().and_then(attribute_map) {
        module.extra.push(("frontend_attributes".to_owned(), text));
    }
}

fn attribute_map(attributes: &super::proto::FrontendAttributes) -> Option<String> {
    if attributes.map.is_empty() {
        return None;
    }
    let pairs: Vec<String> = attributes.map.iter().map(|(k, v)| format!("{k}=\"{}\"", escape(v))).collect();
    Some(format!("{{{}}}", pairs.join(",")))
}

fn add_computation(
    module: &mut HloModule,
    proto: &HloModuleProto,
    computation: &HloComputationProto,
    id: CompId,
    comp_ids: &SeededMap<i64, CompId>,
    faults: &mut Vec<Diagnostic>,
) {
    let name = &computation.name;
    let mut index: SeededMap<i64, usize> = seeded_map();
    let mut names: SeededMap<&str, ()> = seeded_map();
    for (i, inst) in computation.instructions.iter().enumerate() {
        if index.insert(inst.id, i).is_some() {
            let what = format!("a second instruction with id {}", inst.id);
            faults.push(Diagnostic::error(&read::READ_DUPLICATE, what).on(&inst.name));
        }
        if names.insert(&inst.name, ()).is_some() {
            let what = format!("a second instruction '{}' in '{name}'", inst.name);
            faults.push(Diagnostic::error(&read::READ_DUPLICATE, what).on(&inst.name));
        }
    }
    let mut edges = vec![Vec::new(); computation.instructions.len()];
    for (i, inst) in computation.instructions.iter().enumerate() {
        for operand in &inst.operand_ids {
            match index.get(operand) {
                Some(&o) => edges[i].push(o),
                None => {
                    let what = format!("operand id {operand} of '{}' is not in '{name}'", inst.name);
                    faults.push(Diagnostic::error(&read::READ_UNDEFINED, what).on(&inst.name));
                }
            }
        }
    }
    let order = match dependency_order(&edges) {
        Ok(order) => order,
        Err(at) => {
            let on = computation.instructions.get(at).map_or("", |i| i.name.as_str());
            let what = format!("instruction '{on}' depends on itself");
            faults.push(Diagnostic::error(&read::READ_CYCLE, what).on(on));
            return;
        }
    };
    let base = module.instructions.len();
    let mut placed = vec![HloId::NONE; order.len()];
    for (position, &i) in order.iter().enumerate() {
        placed[i] = HloId::new(base + position);
    }
    let mut parameters: Vec<(u32, HloId)> = Vec::new();
    for &i in &order {
        let inst = &computation.instructions[i];
        let operands = edges[i].iter().map(|o| placed[*o]).collect();
        match instruction(proto, inst, id, operands, comp_ids) {
            Ok(converted) => {
                if let Attrs::Parameter { number } = converted.attrs {
                    parameters.push((number, placed[i]));
                }
                module.instructions.push(converted);
            }
            Err(fault) => {
                faults.push(fault.on(&inst.name).ordered(module.instructions.len() as u32));
                return;
            }
        }
    }
    parameters.sort();
    if parameters.iter().enumerate().any(|(i, (n, _))| i != *n as usize) {
        let found: Vec<u32> = parameters.iter().map(|(n, _)| *n).collect();
        let what = format!("the parameters of '{name}' are not numbered 0, 1, 2 ...");
        faults.push(Diagnostic::error(&read::READ_PARAMETERS, what).found(format!("{found:?}")));
    }
    let Some(root) = index.get(&computation.root_id).map(|i| placed[*i]) else {
        let what = format!("the root of '{name}', id {}, does not exist", computation.root_id);
        faults.push(Diagnostic::error(&read::READ_PROTO, what));
        return;
    };
    module.computations.push(Computation {
        name: name.clone(),
        instructions: (base..module.instructions.len()).map(HloId::new).collect(),
        parameters: parameters.into_iter().map(|(_, i)| i).collect(),
        root,
    });
}

fn instruction(
    proto: &HloModuleProto,
    inst: &HloInstructionProto,
    computation: CompId,
    operands: Vec<HloId>,
    comp_ids: &SeededMap<i64, CompId>,
) -> Result<HloInstruction, Fault> {
    let op = HloOp::from_name(&inst.opcode).ok_or_else(|| {
        let what = format!("unknown opcode '{}'", inst.opcode);
        Box::new(Diagnostic::error(&read::READ_UNKNOWN_OPCODE, what).found(&inst.opcode))
    })?;
    let given =
        inst.shape.as_ref().ok_or_else(|| fault(&read::READ_PROTO, "the instruction has no shape"))?;
    let shape = shape(given, 0)?;
    let mut attrs = proto_attributes::attributes(op, inst)?;
    if op == HloOp::Constant {
        let literal =
            inst.literal.as_ref().ok_or_else(|| fault(&read::READ_ELIDED, "the constant has no literal"))?;
        attrs = Attrs::Constant(std::sync::Arc::new(proto_literal::literal(literal, &shape)?));
    }
    let mut extra = Vec::new();
    if let Some(text) = inst.frontend_attributes.as_ref().and_then(attribute_map) {
        extra.push(("frontend_attributes".to_owned(), text));
    }
    if !inst.backend_config.is_empty() {
        let text = String::from_utf8_lossy(&inst.backend_config);
        extra.push(("backend_config".to_owned(), format!("\"{}\"", escape(&text))));
    }
    Ok(HloInstruction {
        name: inst.name.clone(),
        op,
        shape,
        operands,
        called: inst.called_computation_ids.iter().filter_map(|c| comp_ids.get(c).copied()).collect(),
        attrs,
        computation,
        loc: location(proto, inst),
        extra,
    })
}

fn location(proto: &HloModuleProto, inst: &HloInstructionProto) -> SourceLoc {
    let Some(metadata) = &inst.metadata else { return SourceLoc::default() };
    let mut loc = SourceLoc {
        op_name: metadata.op_name.clone(),
        file: metadata.source_file.clone(),
        line: u32::try_from(metadata.source_line).unwrap_or(0),
        ..SourceLoc::default()
    };
    // The tables count from 1.
    let at = |id: i32| usize::try_from(id).ok()?.checked_sub(1);
    let resolved = proto.stack_frame_index.as_ref().and_then(|tables| {
        let frame = tables.stack_frames.get(at(metadata.stack_frame_id)?)?;
        let place = tables.file_locations.get(at(frame.file_location_id)?)?;
        Some((tables.file_names.get(at(place.file_name_id)?)?, place.line))
    });
    if let Some((file, line)) = resolved {
        loc.file = file.clone();
        loc.line = u32::try_from(line).unwrap_or(0);
    }
    loc
}

/// A shape. `prost` bounds the depth of messages, and tuples may nest only as deep as in text.
pub(super) fn shape(proto: &ShapeProto, depth: usize) -> Result<Shape, Fault> {
    if depth > super::text::MAX_TUPLE_DEPTH {
        return Err(fault(&read::READ_TOO_DEEP, "tuples nest too deep"));
    }
    let ty = HloType::from_number(proto.element_type).ok_or_else(|| {
        fault(&read::READ_SHAPE, format!("element type number {} is unknown", proto.element_type))
    })?;
    match ty {
        HloType::Tuple => {
            let parts: Result<Vec<Shape>, Fault> =
                proto.tuple_shapes.iter().map(|s| shape(s, depth + 1)).collect();
            return Ok(Shape::Tuple(parts?));
        }
        HloType::Token => return Ok(Shape::Token),
        HloType::Opaque => return Ok(Shape::Opaque),
        _ => {}
    }
    let rank = proto.dimensions.len();
    let mut dynamic = proto.is_dynamic_dimension.clone();
    if dynamic.len() > rank {
        return Err(fault(&read::READ_SHAPE, "more dynamic-dimension flags than dimensions"));
    }
    dynamic.resize(rank, false);
    for (d, extent) in proto.dimensions.iter().enumerate() {
        if *extent < 0 && !(*extent == UNBOUNDED && dynamic[d]) {
            return Err(
                fault(&read::READ_SHAPE, "a dimension's extent is negative").found_boxed(extent.to_string())
            );
        }
    }
    let layout = proto.layout.as_ref().map(|l| l.minor_to_major.clone()).unwrap_or_default();
    if !layout.is_empty() {
        let mut sorted = layout.clone();
        sorted.sort();
        if sorted.len() != rank || sorted.iter().enumerate().any(|(i, d)| *d != i as i64) {
            return Err(fault(&read::READ_SHAPE, "a layout must name every dimension once"));
        }
    }
    if !dynamic.contains(&true) {
        dynamic.clear();
    }
    Ok(Shape::Array(ArrayShape { ty, dims: proto.dimensions.clone(), dynamic, layout }))
}

/// `Diagnostic::found` for a boxed fault.
trait FoundBoxed {
    fn found_boxed(self, what: String) -> Self;
}

impl FoundBoxed for Fault {
    fn found_boxed(mut self, what: String) -> Fault {
        self.found = Some(what);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::dependency_order;

    #[test]
    fn a_legal_order_is_kept_and_a_cycle_is_found() {
        assert_eq!(dependency_order(&[vec![], vec![0], vec![1]]), Ok(vec![0, 1, 2]));
        assert_eq!(dependency_order(&[vec![2], vec![0], vec![]]), Ok(vec![2, 0, 1]));
        assert!(dependency_order(&[vec![1], vec![0]]).is_err());
        let chain: Vec<Vec<usize>> =
            (0..100_000).map(|i| if i < 99_999 { vec![i + 1] } else { vec![] }).collect();
        assert_eq!(dependency_order(&chain).map(|o| o[0]), Ok(99_999));
    }
}
