//! Expressions and dynamic infos as JSON, in the second version of the format, whose tags name the kind
//! (`spec/ir.md 3.5, 4`).
//!
//! ```text
//! 8*%r3 + 5   ->   {"AffExprKind":{"terms":[{"idx":{"IntRuntimeValueKind":{"regref":"%r3"}},"coeff":8}],"c":5}}
//! ```

use super::dynamic::DynamicApInfo;
use super::expr::{Expr, Exprs};
use crate::ids::{ExprId, RegId};

impl Exprs {
    /// The expression as JSON; `reg` writes a register's name.
    pub fn json(&self, e: ExprId, reg: &dyn Fn(RegId) -> String) -> String {
        let inner = |e: &ExprId| self.json(*e, reg);
        let divided = |tag: &str, numer: &ExprId, denom: &i64| {
            format!("{{\"{tag}\":{{\"numer\":{},\"denom\":{denom}}}}}", inner(numer))
        };
        match self.get(e) {
            Expr::IndirectArg { arg_id } => format!("{{\"IndirectArgId\":{{\"arg_id\":{arg_id}}}}}"),
            Expr::AxisIv(axis) => format!("{{\"AffIVKind\":{{\"axis\":\"i{}\"}}}}", axis.0),
            Expr::RuntimeInt(r) => {
                format!("{{\"IntRuntimeValueKind\":{{\"regref\":\"{}\"}}}}", reg(*r).escape_default())
            }
            Expr::Affine { terms, c } => {
                let term = |(i, k): &(ExprId, i64)| format!("{{\"idx\":{},\"coeff\":{k}}}", inner(i));
                let terms: Vec<String> = terms.iter().map(term).collect();
                format!("{{\"AffExprKind\":{{\"terms\":[{}],\"c\":{c}}}}}", terms.join(","))
            }
            Expr::Sum(operands) => {
                let all: Vec<String> = operands.iter().map(inner).collect();
                format!("{{\"SumKind\":[{}]}}", all.join(","))
            }
            Expr::Mult { operand, coef } => {
                format!("{{\"MultKind\":{{\"var\":{},\"scale\":{coef}}}}}", inner(operand))
            }
            Expr::FloorDiv { numer, denom } => divided("FloorDivKind", numer, denom),
            Expr::Modulo { numer, denom } => divided("ModuloKind", numer, denom),
        }
    }
}

impl DynamicApInfo {
    /// The info as JSON. `actual_ap` is the static geometry of its pattern, as the caller writes patterns.
    pub fn json(&self, exprs: &Exprs, actual_ap: &str, reg: &dyn Fn(RegId) -> String) -> String {
        let terms: Vec<String> = self
            .terms
            .iter()
            .map(|t| format!("{{\"aff_expr\":{},\"coef\":{}}}", exprs.json(t.expr, reg), t.coef))
            .collect();
        format!(
            "{{\"dynamic_ap_info\":{{\"actual_ap\":\"{}\",\"offset_expr\":[{}],\"c\":{},\"indirect_dim\":{},\
             \"indirect_dim_max_index\":{},\"num_tensor_indirect_indices\":{},\"tensor_indirect_arg_id\":{}}}}}",
            actual_ap.escape_default(),
            terms.join(","),
            self.c,
            self.indirect_dim,
            self.indirect_dim_max_index,
            self.num_tensor_indirect_indices,
            self.tensor_indirect_arg_id,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use crate::ids::{AxisId, RegId};

    #[test]
    fn each_kind_has_its_tag() {
        let mut x = Exprs::default();
        let i = x.intern(Expr::AxisIv(AxisId(2)));
        let r = x.intern(Expr::RuntimeInt(RegId(3)));
        let a = x.intern(Expr::IndirectArg { arg_id: 1 });
        let affine = x.affine([(r, 8)], 5);
        let (m, q) = (x.modulo(i, 4).unwrap(), x.floor_div(a, 3).unwrap());
        let scaled = x.scale(q, 2);
        let sum = x.add(m, scaled);
        let reg = |r: RegId| format!("%r{}", r.0);
        let json = |e| x.json(e, &reg);
        let index = "{\"IndirectArgId\":{\"arg_id\":1}}";
        assert_eq!(json(a), index);
        assert_eq!(json(i), "{\"AffIVKind\":{\"axis\":\"i2\"}}");
        assert_eq!(
            json(affine),
            "{\"AffExprKind\":{\"terms\":[{\"idx\":{\"IntRuntimeValueKind\":{\"regref\":\"%r3\"}},\"coeff\":8}],\"c\":5}}"
        );
        let one_i =
            "{\"AffExprKind\":{\"terms\":[{\"idx\":{\"AffIVKind\":{\"axis\":\"i2\"}},\"coeff\":1}],\"c\":0}}";
        let modulo = format!("{{\"ModuloKind\":{{\"numer\":{one_i},\"denom\":4}}}}");
        let mult = format!(
            "{{\"MultKind\":{{\"var\":{{\"FloorDivKind\":{{\"numer\":{index},\"denom\":3}}}},\"scale\":2}}}}"
        );
        assert_eq!(json(sum), format!("{{\"SumKind\":[{modulo},{mult}]}}"));
    }

    #[test]
    fn a_dynamic_info_has_its_keys() {
        let mut x = Exprs::default();
        let r = x.intern(Expr::RuntimeInt(RegId(3)));
        let info = DynamicApInfo {
            kind: OffsetKind::Scalar,
            terms: [DynamicTerm { expr: r, coef: 8 }].into_iter().collect(),
            c: 16,
            indirect_dim: 0,
            indirect_dim_max_index: 89,
            tensor_indirect_arg_id: -1,
            num_tensor_indirect_indices: 0,
            offset_reg: RegId::NONE,
            bound_reg: RegId::NONE,
        };
        assert_eq!(
            info.json(&x, "dram0[f32 +16 8@1]", &|r| format!("%r{}", r.0)),
            "{\"dynamic_ap_info\":{\"actual_ap\":\"dram0[f32 +16 8@1]\",\"offset_expr\":[{\"aff_expr\":\
             {\"IntRuntimeValueKind\":{\"regref\":\"%r3\"}},\"coef\":8}],\"c\":16,\"indirect_dim\":0,\
             \"indirect_dim_max_index\":89,\"num_tensor_indirect_indices\":0,\"tensor_indirect_arg_id\":-1}}"
        );
    }
}
