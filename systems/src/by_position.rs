//! Rows by their place in the program. In: a number of rows, and the position of each that counts. Out: those rows,
//! by position and then by row. Passes that sweep over live ranges take them in this order; the positions are as many
//! as the program is long, so they are counted and not compared: one pass over the rows and one over the positions.
//!
//! ```text
//! row       0  1  2  3
//! position  7  2  -  2      ->   1, 3, 0
//! ```

/// Positions a row for which counting still pays; above it the rows are few in a long program and are compared.
const SPARSE: usize = 64;

/// The rows that have a position, by it and then by row.
pub fn by_position(rows: usize, at: impl Fn(usize) -> Option<u32>) -> Vec<u32> {
    let (mut kept, mut last) = (0, 0);
    for position in (0..rows).filter_map(&at) {
        kept += 1;
        last = last.max(position as usize);
    }
    if last / SPARSE > kept {
        let mut sorted: Vec<(u32, u32)> = (0..rows).filter_map(|r| Some((at(r)?, r as u32))).collect();
        sorted.sort_unstable();
        return sorted.into_iter().map(|(_, r)| r).collect();
    }
    // Before the second loop `next[p]` is where position p begins, after it where p ends.
    let mut next = vec![0u32; last + 2];
    for position in (0..rows).filter_map(&at) {
        next[position as usize + 1] += 1;
    }
    let mut sum = 0;
    for n in &mut next {
        sum += *n;
        *n = sum;
    }
    let mut sorted = vec![0u32; kept];
    for (row, position) in (0..rows).filter_map(|r| Some((r, at(r)?))) {
        let slot = &mut next[position as usize];
        sorted[*slot as usize] = row as u32;
        *slot += 1;
    }
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synth::Lcg;

    #[test]
    fn equals_a_sort_by_position_and_row() {
        let mut rng = Lcg::new(3);
        // Dense, sparse, and none at all.
        for (rows, positions) in [(500, 40), (500, 4000), (3, 1_000_000), (0, 1), (1, 1)] {
            let places: Vec<Option<u32>> =
                (0..rows).map(|_| (rng.below(5) > 0).then(|| rng.below(positions))).collect();
            let mut expected: Vec<u32> = (0..rows).filter(|&r| places[r as usize].is_some()).collect();
            expected.sort_by_key(|&r| (places[r as usize], r));
            assert_eq!(
                by_position(rows as usize, |r| places[r]),
                expected,
                "{rows} rows, {positions} positions"
            );
        }
        assert_eq!(by_position(2, |r| Some(u32::MAX - r as u32)), [1, 0]);
        assert!(by_position(4, |_| None).is_empty());
    }
}
