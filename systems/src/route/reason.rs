//! Why a DMA goes the way it goes: one reason for its route, one for its engine, one for its queue. The passes of this
//! stage write them as columns by instruction id; reports print [`DmaWhy::text`]. Nothing but reports reads them.
//! Facts: `spec/ir.md 7.2`, 8.
//!
//! ```text
//! DMACopy(sp) sbuf:3 <- in0[reg7 + ..] dge=hwdge     asked for by --dge-route hw: hardware generator; in a loop
//!                                                    engine: bound by the ladder of its present engine
//!                                                    queue: generated copies of its engine; opened by it
//! ```

use bevy_ecs::prelude::*;
use murre_components::bir::QueueKind;
use murre_components::ids::InstId;

/// The row of the route table that decided, or what overruled it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum RouteReason {
    /// No DMA, or not scanned.
    #[default]
    NotScanned,
    /// The route was there before the first scan.
    Preset,
    /// Row 1: no DMA copy, or no operands.
    NotACopy,
    /// Row 1: every DGE level is off.
    LevelsOff,
    /// Row 3.
    Transpose,
    /// Row 3'.
    TransposeShape,
    /// Row 4.
    DynamicTranspose,
    /// Row 5a, scalar.
    ScalarOffset,
    /// Row 5a, vector.
    VectorOffset,
    /// Row 6: an IO copy that fits.
    IoFits,
    /// Row 6: an IO copy that fits no generator.
    IoDoesNotFit,
    /// Row 6: an IO copy while its level is off.
    IoLevelOff,
    /// Row 6: a spill or reload that fits.
    SpillFits,
    /// Row 6: a spill or reload that fits no generator.
    SpillDoesNotFit,
    /// Row 6: a spill or reload while its level is off.
    SpillLevelOff,
    /// Row 6: fits the hardware generator alone.
    FitsHardware,
    /// Row 7.
    Default,
    /// `--dge-route hw` took it.
    HardwareAsked,
    /// `--dge-route hw` could not take a vector of offsets.
    VectorIsSoftware,
    /// `--dge-route hw` could not take a cast.
    CastIsSoftware,
    /// `--dge-route sw` took it away from the hardware generator.
    SoftwareAsked,
}

impl RouteReason {
    /// One line for people.
    pub fn text(self) -> &'static str {
        match self {
            RouteReason::NotScanned => "not a DMA",
            RouteReason::Preset => "the route was set before the scan",
            RouteReason::NotACopy => "not a DMA copy, or without operands: descriptors are built ahead",
            RouteReason::LevelsOff => "every DGE level is off: descriptors are built ahead",
            RouteReason::Transpose => "a transpose that the hardware generator can do",
            RouteReason::TransposeShape => "a transpose whose shape the hardware generator cannot do",
            RouteReason::DynamicTranspose => "a transpose at a run-time offset: software generator",
            RouteReason::ScalarOffset => "an offset in a register: software generator",
            RouteReason::VectorOffset => "a vector of run-time offsets: software generator",
            RouteReason::IoFits => "an input or output copy that one generated record can do",
            RouteReason::IoDoesNotFit => {
                "an input or output copy past the generator's limits: descriptors are built ahead"
            }
            RouteReason::IoLevelOff => {
                "an input or output copy, and DGE level io is off: descriptors are built ahead"
            }
            RouteReason::SpillFits => "a spill or reload that one generated record can do",
            RouteReason::SpillDoesNotFit => {
                "a spill or reload past the generator's limits: descriptors are built ahead"
            }
            RouteReason::SpillLevelOff => {
                "a spill or reload, and DGE level spill_reload is off: descriptors are built ahead"
            }
            RouteReason::FitsHardware => {
                "more rows than the software generator's ring holds: hardware generator"
            }
            RouteReason::Default => "a static copy between intermediates: descriptors are built ahead",
            RouteReason::HardwareAsked => "asked for by --dge-route hw: hardware generator",
            RouteReason::VectorIsSoftware => {
                "hardware takes no vector of run-time offsets, whatever --dge-route says: software generator"
            }
            RouteReason::CastIsSoftware => {
                "hardware does not convert types, whatever --dge-route says: software generator"
            }
            RouteReason::SoftwareAsked => "asked for by --dge-route sw: not the hardware generator",
        }
    }
}

/// Why a DMA is issued by its engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum EngineReason {
    /// No DMA, or not looked at.
    #[default]
    NotBound,
    /// It had the engine already.
    AsLowered,
    /// The engine that wrote the value last.
    Writer,
    /// The tail rule: hardware-generated copies on several engines.
    IoToSp,
    /// Up to generation 4: by the engine it stood on.
    Ladder,
    /// Generation 5: its turn.
    Turn,
    /// A generated copy whose offset register is on an engine with a generator.
    Kept,
    /// Software generation.
    Software,
    /// Nobody chose.
    NobodyChose,
}

impl EngineReason {
    /// One line for people.
    pub fn text(self) -> &'static str {
        match self {
            EngineReason::NotBound => "not bound",
            EngineReason::AsLowered => "the engine it was lowered for",
            EngineReason::Writer => "wrote the value last in this block, so that no semaphore stands between",
            EngineReason::IoToSp => {
                "copies are hardware-generated on several engines, so SP issues inputs and outputs"
            }
            EngineReason::Ladder => "has a hardware generator, chosen by the engine that the copy stood on",
            EngineReason::Turn => "has a hardware generator, and it was its turn",
            EngineReason::Kept => "has a hardware generator and holds the offset register",
            EngineReason::Software => "Pool is the software generator",
            EngineReason::NobodyChose => "no engine wrote the value in this block: SP issues it",
        }
    }
}

/// Why a DMA is in its queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QueueReason {
    /// The kind asked for; `None` for what is no DMA.
    pub kind: Option<QueueKind>,
    /// Whether the queue was opened for this one.
    pub opened: bool,
}

impl QueueReason {
    /// One line for people.
    pub fn text(self) -> &'static str {
        match (self.kind, self.opened) {
            (None, _) => "no queue",
            (Some(QueueKind::Input), true) => "reads an input; opened by it",
            (Some(QueueKind::Input), false) => "reads an input, like others of its engine",
            (Some(QueueKind::Output), true) => "writes an output; opened by it",
            (Some(QueueKind::Output), false) => "writes an output, like others of its engine",
            (Some(QueueKind::Data), true) => "neither input nor output; opened by it",
            (Some(QueueKind::Data), false) => "neither input nor output, like others of its engine",
            (Some(QueueKind::Dynamic), true) => "generated on the device; opened by it",
            (Some(QueueKind::Dynamic), false) => "generated on the device, like others of its engine",
        }
    }
}

/// Why each instruction has its route, by instruction id.
#[derive(Resource, Default, Debug, Clone, PartialEq)]
pub struct RouteReasons(pub Vec<RouteReason>);

/// Which DMAs stand in a loop body, by instruction id; empty for a program without loops.
#[derive(Resource, Default, Debug, Clone, PartialEq)]
pub struct InLoop(pub Vec<bool>);

/// Why each instruction has its engine, by instruction id.
#[derive(Resource, Default, Debug, Clone, PartialEq)]
pub struct EngineReasons(pub Vec<EngineReason>);

/// Why each instruction has its queue, by instruction id.
#[derive(Resource, Default, Debug, Clone, PartialEq)]
pub struct QueueReasons(pub Vec<QueueReason>);

/// The whole answer for one DMA.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)]
pub struct DmaWhy {
    pub route: RouteReason,
    pub in_loop: bool,
    pub engine: EngineReason,
    pub queue: QueueReason,
}

impl DmaWhy {
    /// The reasons of an instruction as far as the passes have run. Pieces that lowering cut off a copy have none of
    /// their own: ask for their owner.
    pub fn of(world: &World, inst: InstId) -> DmaWhy {
        fn at<T: Copy + Default>(column: Option<&Vec<T>>, inst: InstId) -> T {
            column.and_then(|c| c.get(inst.index())).copied().unwrap_or_default()
        }
        DmaWhy {
            route: at(world.get_resource::<RouteReasons>().map(|r| &r.0), inst),
            in_loop: at(world.get_resource::<InLoop>().map(|r| &r.0), inst),
            engine: at(world.get_resource::<EngineReasons>().map(|r| &r.0), inst),
            queue: at(world.get_resource::<QueueReasons>().map(|r| &r.0), inst),
        }
    }

    /// Three lines for people: route, engine, queue.
    pub fn text(self) -> [String; 3] {
        let place = if self.in_loop { "; in a loop, once a trip" } else { "" };
        [format!("{}{place}", self.route.text()), self.engine.text().to_owned(), self.queue.text().to_owned()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_of_what_no_pass_has_seen_say_so() {
        let mut world = World::new();
        assert_eq!(DmaWhy::of(&world, InstId(3)).text(), ["not a DMA", "not bound", "no queue"]);
        world.insert_resource(RouteReasons(vec![RouteReason::ScalarOffset]));
        world.insert_resource(InLoop(vec![true]));
        let text = DmaWhy::of(&world, InstId(0)).text();
        assert_eq!(text[0], "an offset in a register: software generator; in a loop, once a trip");
    }
}
