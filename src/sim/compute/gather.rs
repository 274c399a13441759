//! PoolBufferLoad (67) and Gather (68) on Pool. Facts: `spec/isa_compute.md 8`, `spec/isa.md 3.6`.

use super::super::core::PoolBuffer;
use super::super::numerics::cast;
use super::{Done, On, cannot, same, state};
use murre_components::isa::{GatherBuffer, PoolBufferLoad};

pub(super) fn pool_buffer_load(on: &mut On<'_>, x: &PoolBufferLoad) -> Done {
    let v = on.view(&x.src, x.dtype, x.channels)?;
    if v.count > 512 {
        return Err(cannot(format!("{} elements; the pool buffer holds 512", v.count)));
    }
    let mut values = vec![Vec::new(); 128];
    for p in 0..x.channels as usize {
        values[v.partition + p] = on.bits(&v, p)?;
    }
    on.core.pool_buffer = PoolBuffer { values, tag: x.dtype, start: x.start };
    Ok(())
}

pub(super) fn gather(on: &mut On<'_>, x: &GatherBuffer) -> Done {
    let v = on.view(&x.index, x.index_dtype, x.channels)?;
    let d = on.target(&x.dst, x.out_dtype, x.channels)?;
    same("indices and destination", v.count, d.count)?;
    for p in 0..x.channels as usize {
        let indices = on.bits(&v, p)?;
        let buffer = &on.core.pool_buffer;
        let row = buffer.values.get(v.partition + p).filter(|r| !r.is_empty());
        let row = row.ok_or_else(|| state("a gather without a loaded pool buffer"))?;
        let out: Vec<Option<u64>> = indices
            .iter()
            .map(|i| match row.get((*i as u32).wrapping_sub(buffer.start) as usize) {
                Some(bits) => Some(cast(buffer.tag, x.out_dtype, *bits)),
                None => (x.miss == 0).then_some(x.immediate as u64),
            })
            .collect();
        on.core.memory.write_some(&d, p, &out)?;
    }
    if x.free_buffer != 0 {
        on.core.pool_buffer = PoolBuffer::default();
    }
    Ok(())
}
