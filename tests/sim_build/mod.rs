//! Programs built record by record for the tests of the simulator; no compiler is involved.
#![allow(dead_code, clippy::result_large_err)]

pub use murre::sim::{self, SimOptions};
pub use murre_components::diag::Diagnostic;
pub use murre_components::dtype::{DType, HloType};
#[allow(unused_imports)]
pub use murre_components::engine::{EngineId, Target};
pub use murre_components::isa::event::*;
pub use murre_components::isa::*;
pub use murre_components::program::*;

pub const POOL: usize = 0;
pub const ACT: usize = 1;
pub const PE: usize = 2;
pub const DVE: usize = 3;
pub const SP: usize = 4;

/// A program being built: variables in, SBUF tiles, variables out.
pub struct Build {
    pub p: Program,
    pub inputs: Vec<Vec<u8>>,
}

pub fn rec(i: impl Encode) -> Record {
    encode(&i, &Events::NONE)
}

pub fn with(i: impl Encode, e: Events) -> Record {
    encode(&i, &e)
}

pub fn wait(id: u8, n: u32) -> Events {
    Events::NONE.waiting(WAIT_GE, id, n).unwrap()
}

pub fn raise(id: u8) -> Events {
    Events::NONE.updating(UPDATE_INC, id, 0).unwrap()
}

pub fn sb(off: u32) -> Addr4 {
    Addr4::sbuf(0, off).unwrap()
}

pub fn ps(bank: u32, off: u32) -> Addr4 {
    Addr4::psum(0, bank, off).unwrap()
}

pub fn line<const N: usize>(a: Addr4, n: i64) -> Tensor<N> {
    Tensor::contiguous(a, n).unwrap()
}

pub fn drain() -> Record {
    rec(Drain { count: 1 })
}

impl Build {
    pub fn new() -> Build {
        Build { p: Program::empty("t", Target::Trn2), inputs: vec![] }
    }

    pub fn var(&mut self, kind: VarKind, bytes: usize) -> u32 {
        let id = self.p.vars.len() as u32;
        self.p.vars.push(Var { name: format!("v{id}"), kind, bytes: bytes as u64, const_offset: 0 });
        if kind == VarKind::Internal {
            return id;
        }
        let input = kind == VarKind::Input;
        let index = self.p.symbols.iter().filter(|s| s.input == input).count() as u32;
        self.p.symbols.push(Symbol {
            name: format!("v{id}"),
            input,
            index,
            var: id,
            ty: HloType::U8,
            dtype: DType::U8,
            dims: vec![bytes as u64],
        });
        id
    }

    pub fn input(&mut self, bytes: Vec<u8>) -> u32 {
        let id = self.var(VarKind::Input, bytes.len());
        self.inputs.push(bytes);
        id
    }

    pub fn push(&mut self, engine: usize, r: Record) -> &mut Self {
        self.p.streams[engine].push(r);
        self
    }

    /// Loads `bytes` split over `parts` partitions at `off`, waiting for the transfer.
    pub fn load(&mut self, engine: usize, off: u32, parts: u16, bytes: Vec<u8>) -> &mut Self {
        let row = bytes.len() as u32 / parts as u32;
        let v = self.input(bytes);
        let d = copy(var(v, 0), row as i32, tile(off), 0x40000, parts, row);
        self.push(engine, rec(d)).push(engine, drain())
    }

    /// Stores `row` bytes of `parts` partitions at `off` as an output.
    pub fn store(&mut self, engine: usize, off: u32, parts: u16, row: u32) -> &mut Self {
        let v = self.var(VarKind::Output, parts as usize * row as usize);
        let d = copy(tile(off), 0x40000, var(v, 0), row as i32, parts, row);
        self.push(engine, drain()).push(engine, rec(d)).push(engine, drain())
    }

    pub fn run_with(&self, options: &SimOptions) -> Result<Vec<Vec<u8>>, Diagnostic> {
        let mut p = self.p.clone();
        for s in &mut p.streams {
            s.push(rec(Exit {}));
        }
        let p = murre::artifact::read(&murre::artifact::write(&p))?;
        sim::run(&p, &self.inputs, options).map(|o| o.outputs)
    }

    pub fn run(&self) -> Result<Vec<Vec<u8>>, Diagnostic> {
        self.run_with(&SimOptions { max_steps: 100_000, ..Default::default() })
    }

    pub fn fault(&self) -> (&'static str, String) {
        let d = self.run().expect_err("the program must be refused");
        (d.code.id, d.message)
    }
}

pub fn var(id: u32, off: u32) -> Addr8 {
    Addr8::variable(id, off).unwrap()
}

pub fn tile(off: u32) -> Addr8 {
    Addr8::immediate(off as u64).unwrap()
}

pub fn copy(src: Addr8, src_step: i32, dst: Addr8, dst_step: i32, rows: u16, row: u32) -> DmaDirect {
    DmaDirect {
        priority: 0,
        semaphore: 0,
        increment: 0,
        dge_op: 0,
        src,
        src_step: [src_step, 0],
        src_num: [rows, 1],
        src_row: RowBytes::new(row).unwrap(),
        src_bound: BoundRegister::NONE,
        dst_bound: BoundRegister::NONE,
        dst,
        dst_step: [dst_step, 0],
        dst_num: [rows, 1],
        dst_row: RowBytes::new(row).unwrap(),
        src_dtype: 3,
        dst_dtype: 3,
    }
}

pub fn f(v: &[f32]) -> Vec<u8> {
    v.iter().flat_map(|x| x.to_le_bytes()).collect()
}

pub fn w(v: &[u32]) -> Vec<u8> {
    v.iter().flat_map(|x| x.to_le_bytes()).collect()
}

pub fn floats(b: &[u8]) -> Vec<f32> {
    b.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

pub fn words(b: &[u8]) -> Vec<u32> {
    b.as_chunks().0.iter().map(|b| u32::from_le_bytes(*b)).collect()
}

pub fn lit(v: f32) -> Imm<u32> {
    Imm::Literal(v.to_bits())
}

pub fn scalar(
    opcode: TensorScalarOp,
    cmd: u8,
    op0: u8,
    imm0: f32,
    op1: u8,
    src: u32,
    dst: u32,
    n: i64,
) -> TensorScalar {
    TensorScalar {
        opcode,
        cmd,
        src: line(sb(src), n),
        src_dtype: 10,
        out_dtype: 10,
        channels: 1,
        op0,
        op1,
        reverse: 0,
        imm0: lit(imm0),
        imm1: lit(0.0),
        dst: line(sb(dst), n),
    }
}

pub fn tr(
    opcode: TensorReduceOp,
    src: Tensor<4>,
    st: u8,
    dst: Tensor<4>,
    dt: u8,
    channels: u8,
) -> TensorReduce {
    TensorReduce {
        opcode,
        src: Operand::Pattern(src),
        src_dtype: st,
        out_dtype: dt,
        channels,
        negate: 0,
        op: 0,
        axis: 0,
        mask: 0,
        dst: Operand::Pattern(dst),
    }
}

pub fn set(register: u8, value: u32) -> Record {
    let (mut dst, mut imm) = ([0; 8], [0; 8]);
    (dst[0], imm[0]) = (register, value);
    rec(RegisterMove { count: 1, dtype: 8, source: 1, src: [0; 8], dst, imm })
}

pub fn alu(op: u8, dst: u8, src0: u8, imm: u64) -> Record {
    rec(RegisterAlu {
        op,
        dtype: 8,
        source: 1,
        dst_dtype: 0,
        src0,
        src0_high: 0,
        src1: 0,
        src1_high: 0,
        dst,
        dst_high: 0,
        imm,
    })
}

pub fn save(register: u8, variable: u32) -> Record {
    rec(VariableAccess {
        opcode: VariableAccessOp::TensorSave,
        dtype: 8,
        num: [1, 1],
        variable,
        offset: 0,
        step: [1, 1],
        data: register,
        data_high: 0,
    })
}

pub fn accumulator(dst: u32) -> ReadAccumulator {
    ReadAccumulator {
        opcode: ReadAccumulatorOp::DveReadAccumulator,
        out_dtype: 10,
        negate: 0,
        channels: 1,
        dst: line(sb(dst), 1),
    }
}
