//! In which order to decode records whose tables take turns.
//!
//! ```text
//! records  a0 b1 c2 a3 b4 c5 …  ─▶  a0 a3 … b1 b4 … c2 c5 …      some hundred at a time: they lie near by then
//! ```
//!
//! A table has some dozen columns, each a few bytes here and a few there: a processor keeps those of one table at hand, not
//! those of many. Rows of one table stay in their order, and what is odd is put in order again.

/// How many records are looked at together.
const SPAN: usize = 1024;

/// Rows route by route, if they ascend; else they stay as they are.
pub fn by_route(rows: &[i32], mut route: impl FnMut(i32) -> Option<usize>) -> Vec<i32> {
    let mut order = Vec::with_capacity(rows.len());
    let (ascending, mut routed) = (rows.is_sorted(), Vec::with_capacity(SPAN));
    for span in rows.chunks(SPAN) {
        routed.clear();
        routed.extend(span.iter().map(|&row| (route(row), row)));
        if ascending {
            routed.sort_unstable();
        }
        order.extend(routed.iter().map(|(_, row)| row));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_route_stay_in_their_order() {
        let route = |row: i32| (row != 4).then_some(row.unsigned_abs() as usize % 2);
        let rows = |rows: &[i32]| by_route(rows, route);
        assert_eq!(rows(&[0, 1, 2, 3, 4, 5]), [4, 0, 2, 1, 3, 5]);
        assert_eq!(rows(&[3, 2, 1]), [3, 2, 1]);
        let many: Vec<_> = (0..2050).collect();
        let found = rows(&many);
        assert_eq!((found[1022], found[1023], found[1024]), (1021, 1023, 1024));
        assert_eq!(found.len(), many.len());
    }
}
