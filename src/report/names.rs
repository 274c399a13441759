//! Names in text forms: how a register, a location, an expression or an operator is written. In: the tables and an id.
//! Out: a short name, the same in every report.

use super::tables::Tables;
use murre_components::bir::*;
use murre_components::hlo::HloModule;
use murre_components::ids::*;
use murre_components::isa::AluOp;

/// What names need to look at.
pub struct Names<'a> {
    /// The tables.
    pub tables: &'a Tables,
    /// The module as simplification left it.
    pub module: &'a HloModule,
    /// The expressions.
    pub exprs: Option<&'a Exprs>,
}

impl Names<'_> {
    /// `%r12` before colouring, `%r12:pool.r5` behind it, `-` for none.
    pub fn reg(&self, id: RegId) -> String {
        let Some(reg) = self.tables.regs.get(id.index()).filter(|_| id.is_some()) else { return "-".into() };
        let RegHead { engine, width, colour, .. } = reg.head;
        match (colour, width) {
            (RegHead::UNCOLOURED, _) => format!("%r{}", id.0),
            (c, 2) => format!("%r{}:{}.r{}+r{}", id.0, engine.name(), c, c as u32 + 1),
            (c, _) => format!("%r{}:{}.r{}", id.0, engine.name(), c),
        }
    }

    /// The name of a register that address code minted, one a lane: `Reg_12_45_RegAPOffset_sbuf5` where a symbolic
    /// pattern was lowered (`spec/ir.md 5.4`), `45-reg-mult-out-dram0` in front of a dynamic DMA (5.5).
    pub fn address_reg(&self, id: RegId) -> Option<String> {
        let reg = self.tables.regs.get(id.index()).filter(|r| r.from.inst.is_some())?;
        let (inst, role, loc) = (reg.from.inst.0, reg.head.role, self.loc(reg.from.loc));
        let lane = |suffix: &str| match role {
            RegRole::ApOffset
            | RegRole::SubTensorId
            | RegRole::Temp
            | RegRole::DramAddr0
            | RegRole::ApAddr => format!("Reg_{}_{inst}_{suffix}_{loc}", id.0),
            _ => format!("{inst}-{suffix}-{loc}"),
        };
        Some(match reg.head.width {
            2 if role.high_suffix() != role.suffix() => {
                format!("{}:{}", lane(role.suffix()), lane(role.high_suffix()))
            }
            _ => lane(role.suffix()),
        })
    }

    /// `sbuf5`, `psum2`, `dram0(x)`.
    pub fn loc(&self, id: LocId) -> String {
        let Some(loc) = self.tables.locs.get(id.index()).filter(|_| id.is_some()) else { return "-".into() };
        let space = match loc.head.space {
            Space::Dram => "dram",
            Space::Sbuf => "sbuf",
            Space::Psum => "psum",
        };
        match (loc.head.space, self.hlo(loc.from.hlo)) {
            (Space::Dram, Some(name)) => format!("{space}{}({name})", id.0),
            _ => format!("{space}{}", id.0),
        }
    }

    /// The name of an HLO instruction.
    pub fn hlo(&self, id: HloId) -> Option<&str> {
        self.module.get(id).filter(|_| id.is_some()).map(|i| i.name())
    }

    /// An expression, `4*i0 + %r3 + 2`.
    pub fn expr(&self, id: ExprId) -> String {
        let Some(exprs) = self.exprs.filter(|x| id.is_some() && id.index() < x.len()) else {
            return "-".into();
        };
        match exprs.get(id) {
            Expr::IndirectArg { arg_id } => format!("arg{arg_id}"),
            Expr::AxisIv(axis) => format!("i{}", axis.0),
            Expr::RuntimeInt(reg) => self.reg(*reg),
            Expr::Sum(operands) => operands.iter().map(|o| self.expr(*o)).collect::<Vec<_>>().join(" + "),
            Expr::Mult { operand, coef } => format!("{coef}*({})", self.expr(*operand)),
            Expr::FloorDiv { numer, denom } => format!("({}) floordiv {denom}", self.expr(*numer)),
            Expr::Modulo { numer, denom } => format!("({}) mod {denom}", self.expr(*numer)),
            Expr::Affine { terms, c } => {
                let mut parts: Vec<String> = terms
                    .iter()
                    .map(|(e, k)| if *k == 1 { self.expr(*e) } else { format!("{k}*{}", self.expr(*e)) })
                    .collect();
                if *c != 0 || parts.is_empty() {
                    parts.push(c.to_string());
                }
                parts.join(" + ")
            }
        }
    }
}

/// Names that differ from `name` in few characters, the nearest first, at most three.
pub fn nearest<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> Vec<String> {
    let allowed = 1 + name.chars().count() / 3;
    let mut near: Vec<(usize, &str)> =
        names.map(|n| (distance(name, n, allowed), n)).filter(|(d, _)| *d <= allowed).collect();
    near.sort();
    near.dedup();
    near.into_iter().take(3).map(|(_, n)| n.to_owned()).collect()
}

/// Insertions, deletions and replacements between two names; more than `most` when their lengths say so. A name that begins
/// with the other one differs by one: `pos` is meant for `pos.1`.
fn distance(a: &str, b: &str, most: usize) -> usize {
    if b.strip_prefix(a).is_some_and(|rest| rest.starts_with(['.', '_'])) {
        return 1;
    }
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().abs_diff(b.len()) > most {
        return most + 1;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// The name of a wire ALU operator.
pub fn alu(wire: u8) -> String {
    AluOp::from_wire(wire).map_or_else(|| format!("op{wire:#04x}"), |op| op.name().to_string())
}

/// The comparison of a CompareAndBranch, by its IR number.
pub fn comparison(op: u8) -> &'static str {
    ["<", "<=", "==", "!=", ">=", ">"].get(op as usize % 6).copied().unwrap_or("?")
}

/// The route of a DMA.
pub fn route(dge: DgeType) -> &'static str {
    match dge {
        DgeType::None => "pre-built descriptors",
        DgeType::Swdge => "SWDGE",
        DgeType::Hwdge => "HWDGE",
        DgeType::Unassigned => "unassigned",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_finds_its_neighbours() {
        let names = ["pos.1", "cache", "position", "pos.12", "cash"];
        assert_eq!(nearest("pos", names.into_iter()), ["pos.1", "pos.12"]);
        assert_eq!(nearest("cahe", names.into_iter()), ["cache", "cash"]);
        assert!(nearest("weights", names.into_iter()).is_empty());
        assert_eq!(distance("kitten", "sitting", 9), 3);
    }
}
