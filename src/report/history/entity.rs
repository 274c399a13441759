//! Names of entities. In: what someone typed, in the notation of `--print-after` or of the components' names. Out: the
//! entities it can mean; `i3` is the axis of the tables and an instruction, and a name of the HLO may look like any of them.

use serde::Serialize;

/// Something with a row.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(tag = "kind", content = "id", rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Entity {
    Hlo(String),
    Node(u32),
    Inst(u32),
    Ap(u32),
    Reg(u32),
    Loc(u32),
    Axis(u32),
    Queue(u32),
    Block(u32),
    Desc(u32),
}

/// Prefixes of rows, and what makes the entity. A prefix that means two things stands twice.
const PREFIXES: [(&str, fn(u32) -> Entity); 18] = [
    ("%r", Entity::Reg),
    ("%", Entity::Inst),
    ("inst", Entity::Inst),
    ("i", Entity::Inst),
    ("i", Entity::Axis),
    ("axis", Entity::Axis),
    ("axis i", Entity::Axis),
    ("n", Entity::Node),
    ("node", Entity::Node),
    ("ap", Entity::Ap),
    ("r", Entity::Reg),
    ("loc", Entity::Loc),
    ("dram", Entity::Loc),
    ("sbuf", Entity::Loc),
    ("psum", Entity::Loc),
    ("queue", Entity::Queue),
    ("block", Entity::Block),
    ("desc", Entity::Desc),
];

impl Entity {
    /// What can be asked for.
    pub const NOTATIONS: &'static str = "an HLO name, %12 or i12 (instruction), r7, ap4, loc3 (or dram3, sbuf3, psum3), \
        axis0, n5 (node), queue1, block2, desc6";

    /// Everything that a text can mean.
    pub fn parse(text: &str) -> Vec<Entity> {
        let text = text.trim();
        let mut out = vec![Entity::Hlo(text.trim_start_matches('%').to_owned())];
        // `dram2(cache)` and `%r4:pool.r2` say more than the row.
        let row = text.split(['(', ':']).next().unwrap_or_default();
        for (prefix, entity) in PREFIXES {
            let id =
                row.strip_prefix(prefix).map(str::trim).filter(|d| d.bytes().all(|b| b.is_ascii_digit()));
            if let Some(id) = id.and_then(|d| d.parse().ok()) {
                out.push(entity(id));
            }
        }
        out
    }

    /// The notation that `parse` takes.
    pub fn name(&self) -> String {
        match self {
            Entity::Hlo(name) => name.clone(),
            Entity::Node(k) => format!("n{k}"),
            Entity::Inst(k) => format!("%{k}"),
            Entity::Ap(k) => format!("ap{k}"),
            Entity::Reg(k) => format!("r{k}"),
            Entity::Loc(k) => format!("loc{k}"),
            Entity::Axis(k) => format!("axis{k}"),
            Entity::Queue(k) => format!("queue{k}"),
            Entity::Block(k) => format!("block{k}"),
            Entity::Desc(k) => format!("desc{k}"),
        }
    }

    /// What kind of row it is.
    pub fn kind(&self) -> &'static str {
        match self {
            Entity::Hlo(_) => "HLO instruction",
            Entity::Node(_) => "Penguin node",
            Entity::Inst(_) => "instruction",
            Entity::Ap(_) => "access pattern",
            Entity::Reg(_) => "register",
            Entity::Loc(_) => "location",
            Entity::Axis(_) => "loop axis",
            Entity::Queue(_) => "DMA queue",
            Entity::Block(_) => "DMA block",
            Entity::Desc(_) => "descriptor",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notations_of_the_dumps_are_understood() {
        let rows = |text: &str| Entity::parse(text).split_off(1);
        assert_eq!(rows("%9"), [Entity::Inst(9)]);
        assert_eq!(rows("%r4:pool.r2"), [Entity::Reg(4)]);
        assert_eq!(rows("dram2(cache)"), [Entity::Loc(2)]);
        assert_eq!(rows("i0"), [Entity::Inst(0), Entity::Axis(0)]);
        assert_eq!(rows("axis i0"), [Entity::Axis(0)]);
        assert_eq!(rows("n12"), [Entity::Node(12)]);
        assert!(rows("pos.1").is_empty() && rows("r99999999999").is_empty() && rows("r").is_empty());
        for entity in ["n1", "ap2", "r3", "loc4", "axis5", "queue6", "block7", "desc8", "%9"] {
            assert!(rows(entity).iter().any(|e| e.name() == entity), "{entity}");
        }
        assert_eq!(Entity::parse("%pos.1"), [Entity::Hlo("pos.1".into())]);
    }
}
