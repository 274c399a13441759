//! In: routed and bound DMAs. Out: the same; with every level off no generator route is left. Three checks: no
//! generator route while all levels are off; the route of a dynamic copy is eligible; a hardware-generated copy is on
//! an engine with a generator. None is tolerated for a scalar offset here: descriptor lowering refuses it with its own
//! code. A fourth check is ours: software generation needs its scratch. Facts: `spec/ir.md 7.4`, D18.

use super::assign_hwdge_engine::valid_engines;
use super::blame;
use super::dge_instruction_type::Flavour;
use super::dynamic_dma_scan::DmaView;
use crate::columns;
use crate::options::CompileOptions;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::{Diagnostics, codes::lower};
use murre_components::engine::EngineId;
use murre_components::hlo::HloModule;
use murre_components::ids::InstId;

/// The system.
pub fn dynamic_dma_cleanup(
    mut insts: Query<(&mut InstHead, &InstOperands, &InstFrom)>,
    aps: Query<(&ApHead, &ApPattern)>,
    locs: Query<&LocHead>,
    payloads: Res<Payloads>,
    options: Res<CompileOptions>,
    module: Res<HloModule>,
    sink: Res<Diagnostics>,
) {
    let (heads, patterns) = columns!(aps);
    let view = DmaView { heads, patterns, locs: columns!(locs), payloads: &payloads };
    let enabled = options.dge_levels.0 != 0;
    let Ok(tables) = insts.contiguous_iter_mut() else { return };
    for (mut head, operands, from) in tables {
        for (row, h) in head.bypass_change_detection().iter_mut().enumerate() {
            if h.op != Opcode::DmaCopy || !h.live() {
                continue;
            }
            let fault = |code, what: String| {
                sink.push(blame(
                    code,
                    format!("DMACopy {row}: {what}"),
                    &module,
                    from[row].hlo,
                    InstId::new(row),
                ));
            };
            if !enabled {
                if matches!(h.dge, DgeType::Swdge | DgeType::Hwdge) {
                    fault(&lower::DMA_DGE_DISABLED, format!("route {:?} with every DGE level off", h.dge));
                }
                h.dge = DgeType::None;
            }
            let flavour = operands[row].range().find_map(|ap| view.flavour(ap));
            if h.dge == DgeType::Swdge && options.dge_scratch_bytes == 0 {
                let what = format!("DMACopy {row}: {}", lower::DMA_NO_SCRATCH.title);
                let d = blame(&lower::DMA_NO_SCRATCH, what, &module, from[row].hlo, InstId::new(row));
                let help = "give --dynamic-dma-scratch-size-per-partition more than 0, or from trn2 on --dge-route hw";
                sink.push(d.help(match flavour {
                    Some(Flavour::Vector) => "give --dynamic-dma-scratch-size-per-partition more than 0; vectors of offsets are software's alone",
                    _ => help,
                }));
            }
            if enabled && flavour.is_some() && h.dge != DgeType::Unassigned {
                match view.route(*h, operands[row], &options) {
                    Ok(r) if r.eligible.has(h.dge) => {}
                    Ok(_) if h.dge == DgeType::None && flavour == Some(Flavour::Scalar) => {}
                    Ok(_) => {
                        fault(&lower::DMA_ROUTE_NOT_ELIGIBLE, format!("route {:?} is not eligible", h.dge))
                    }
                    Err(code) => fault(code, code.title.to_string()),
                }
            }
            let bound = !matches!(h.engine, EngineId::Unassigned | EngineId::Dma);
            if h.dge == DgeType::Hwdge && bound && !valid_engines(options.target.arch()).contains(&h.engine) {
                fault(&lower::DMA_HWDGE_ENGINE, format!("hardware-generated on {}", h.engine.name()));
            }
        }
    }
}
