//! The state of a core between records: memories, registers, semaphores, events and what engines hide inside.
//! Facts: `spec/isa_compute.md 12.4`, `spec/isa.md 5.8, 8.2`, D15.

use super::memory::Memory;
use murre_components::diag::{Diagnostic, codes::sim as codes};
use murre_components::isa::Events;

/// Index of an engine's stream.
pub const POOL: usize = 0;
/// Activation.
pub const ACT: usize = 1;
/// Tensor engine.
pub const PE: usize = 2;
/// Vector engine.
pub const DVE: usize = 3;
/// Sync engine.
pub const SP: usize = 4;

/// 64 registers of 32 bits; a register nobody wrote is poison.
#[derive(Clone)]
pub struct Registers {
    words: [u32; 64],
    written: u64,
}

impl Registers {
    fn new() -> Self {
        Registers { words: [u32::MAX; 64], written: 0 }
    }

    /// A written register's word.
    pub fn get(&self, id: u8) -> Result<u32, Diagnostic> {
        match self.words.get(id as usize) {
            Some(w) if self.written >> id & 1 == 1 => Ok(*w),
            Some(_) => Err(Diagnostic::error(&codes::SIM_POISON, format!("register {id} was never written"))),
            None => Err(Diagnostic::error(&codes::SIM_REGISTER, format!("there is no register {id}"))),
        }
    }

    /// Two registers as one number.
    pub fn get_pair(&self, low: u8, high: u8) -> Result<u64, Diagnostic> {
        Ok(self.get(low)? as u64 | (self.get(high)? as u64) << 32)
    }

    /// Writes a register.
    pub fn set(&mut self, id: u8, word: u32) -> Result<(), Diagnostic> {
        let slot = self.words.get_mut(id as usize);
        *slot
            .ok_or_else(|| Diagnostic::error(&codes::SIM_REGISTER, format!("there is no register {id}")))? =
            word;
        self.written |= 1 << id;
        Ok(())
    }
}

/// 24 generator words of a partition: four lanes of six.
pub type Lanes = [u32; 24];

/// What PoolBufferLoad left.
#[derive(Default)]
pub struct PoolBuffer {
    /// Elements by partition.
    pub values: Vec<Vec<u64>>,
    /// Wire tag.
    pub tag: u8,
    /// Index of the first element.
    pub start: u32,
}

/// What LoadStationary left: weights by physical row and column, poison where `None` row.
pub struct Weights {
    /// `rows * 128 + columns`.
    pub values: Vec<f32>,
    /// Which cells hold something.
    pub loaded: Vec<bool>,
    /// The load's K, M, row group, column group, transpose.
    pub shape: Option<(u8, u8, u8, u8, u8)>,
}

/// The core.
pub struct Core {
    /// SBUF, PSUM, DRAM.
    pub memory: Memory,
    /// By stream.
    pub registers: [Registers; 5],
    /// 256 counters.
    pub semaphores: Vec<u32>,
    /// 256 one-bit events.
    pub events: Vec<bool>,
    /// fp32 accumulators of ACT and DVE, by partition.
    pub accumulators: [Vec<f32>; 2],
    /// Resident activation set.
    pub table_set: Option<u8>,
    /// Loaded weights.
    pub weights: Weights,
    /// Shuffle mask of DVE.
    pub mask: Option<[u8; 32]>,
    /// Match values of DVE, by partition.
    pub matches: Vec<Option<[f32; 8]>>,
    /// Generators of Pool and DVE.
    pub generators: [Vec<Lanes>; 2],
    /// Buffer of Pool.
    pub pool_buffer: PoolBuffer,
}

impl Core {
    /// A fresh core.
    pub fn new(memory: Memory) -> Core {
        Core {
            memory,
            registers: std::array::from_fn(|_| Registers::new()),
            semaphores: vec![0; 256],
            events: vec![false; 256],
            accumulators: [vec![0.0; 128], vec![0.0; 128]],
            table_set: None,
            weights: Weights { values: vec![0.0; 128 * 128], loaded: vec![false; 128 * 128], shape: None },
            mask: None,
            matches: vec![None; 128],
            generators: [vec![[1; 24]; 128], vec![[1; 24]; 128]],
            pool_buffer: PoolBuffer::default(),
        }
    }

    /// What a wait compares its counter with.
    fn threshold(&self, engine: usize, mode: u8, value: u32) -> Result<u32, Diagnostic> {
        if mode & 0x80 == 0 || mode & 0x7F == 0 { Ok(value) } else { self.registers[engine].get(value as u8) }
    }

    /// Whether a wait lets its record run.
    pub fn wait_holds(&self, engine: usize, mode: u8, id: u8, value: u32) -> Result<bool, Diagnostic> {
        let counter = self.semaphores[id as usize];
        let event = self.events[id as usize];
        let threshold = self.threshold(engine, mode, value)?;
        Ok(match mode & 0x7F {
            1 => counter == threshold,
            2 => counter < threshold,
            3 => counter <= threshold,
            4 => counter > threshold,
            5 => counter >= threshold,
            6 | 7 => event,
            14 | 15 => !event,
            _ => true,
        })
    }

    /// The side effect of a wait that let its record run: what was released there is known to the engine.
    pub fn wait_taken(&mut self, engine: usize, mode: u8, id: u8, value: u32) -> Result<(), Diagnostic> {
        let threshold = self.threshold(engine, mode, value)?;
        if let Some(races) = &mut self.memory.races {
            let clocks = &mut races.get_mut().clocks;
            match mode & 0x7F {
                1..=3 => clocks.wait(engine, id, None),
                4 => clocks.wait(engine, id, Some(threshold.saturating_add(1))),
                5 => clocks.wait(engine, id, Some(threshold)),
                6 | 14 => clocks.wait_event(engine, id),
                7 | 15 => {
                    clocks.wait_event(engine, id);
                    clocks.update_event(engine, id);
                }
                _ => {}
            }
        }
        match mode {
            7 => self.events[id as usize] = false,
            15 => self.events[id as usize] = true,
            _ => {}
        }
        Ok(())
    }

    /// Applies an update. Reads and completion coincide here, so bit 4 of the mode makes no difference.
    pub fn update(&mut self, mode: u8, id: u8, value: u32) -> Result<(), Diagnostic> {
        let counter = &mut self.semaphores[id as usize];
        let before = *counter;
        let event = &mut self.events[id as usize];
        let fault = |what: &str| Err(Diagnostic::error(&codes::SIM_STATE, format!("event {id} was {what}")));
        match mode & 0x0F {
            1 if *event => return fault("set twice without being cleared"),
            2 if !*event => return fault("cleared while it was not set"),
            1 => *event = true,
            2 => *event = false,
            3 => *counter = counter.wrapping_add(1),
            4 => *counter = counter.wrapping_sub(1),
            5 => *counter = counter.wrapping_add(value),
            7 => *counter = counter.wrapping_sub(value),
            9 => *counter = value,
            _ => {}
        }
        let after = *counter;
        if let Some(races) = &mut self.memory.races {
            let races = races.get_mut();
            let actor = races.actor();
            match mode & 0x0F {
                1 | 2 => races.clocks.update_event(actor, id),
                5 if value == 0 => {}
                3 | 5 => races.clocks.update(actor, id, before, after, true),
                4 | 7 | 9 => races.clocks.update(actor, id, before, after, false),
                _ => {}
            }
        }
        Ok(())
    }

    /// Sets a counter to zero; what it released is forgotten.
    pub fn reset(&mut self, id: usize) {
        if let Some(counter) = self.semaphores.get_mut(id) {
            *counter = 0;
        }
        if let Some(races) = &mut self.memory.races {
            races.get_mut().clocks.reset(id);
        }
    }

    /// Applies the update of a record's events.
    pub fn complete(&mut self, e: &Events) -> Result<(), Diagnostic> {
        self.update(e.update_mode, e.update_id, e.value)
    }
}
