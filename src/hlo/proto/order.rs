//! A legal order for what a proto lists in any order.

/// An order of `0..edges.len()` in which what an element needs comes before it, the given order where that is legal;
/// `Err` names an element on a cycle. Works on an explicit stack.
pub(super) fn dependency_order(edges: &[Vec<usize>]) -> Result<Vec<usize>, usize> {
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
