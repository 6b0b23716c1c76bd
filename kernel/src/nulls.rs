//! Kernel only: rows that are NULL, kept as runs: a row with a value costs nothing, and a run of NULLs no more than one.

use std::ops::Range;

use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};

/// Runs of NULLs, in order, none of which touches the next.
#[derive(Default)]
pub struct Nulls {
    runs: Vec<Range<usize>>,
}

impl Nulls {
    /// Adds rows behind all that were added before.
    #[inline]
    pub fn push(&mut self, rows: Range<usize>) {
        match self.runs.last_mut() {
            Some(last) if last.end == rows.start => last.end = rows.end,
            _ => self.runs.push(rows),
        }
    }

    /// Forgets all rows from the given one on.
    pub fn truncate(&mut self, rows: usize) {
        while self.runs.pop_if(|run| run.start >= rows).is_some() {}
        if let Some(last) = self.runs.last_mut() {
            last.end = last.end.min(rows);
        }
    }

    /// Arrow's bitmap of so many rows, or nothing when none is NULL; no run is left.
    pub fn finish(&mut self, rows: usize) -> Option<NullBuffer> {
        if self.runs.is_empty() {
            return None;
        }
        let mut words = vec![u64::MAX; rows.div_ceil(64)];
        for run in self.runs.drain(..) {
            let touched = words.iter_mut().enumerate().take(run.end.div_ceil(64)).skip(run.start / 64);
            for (at, word) in touched {
                let (from, to) = (run.start.saturating_sub(at * 64), (run.end - at * 64).min(64));
                *word &= !(u64::MAX >> (64 - (to - from)) << from);
            }
        }
        // Arrow counts bits from the lowest of the first byte on.
        words.iter_mut().for_each(|word| *word = word.to_le());
        Some(NullBuffer::new(BooleanBuffer::new(Buffer::from_vec(words), 0, rows)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(runs: &[Range<usize>], left: usize, rows: usize) -> Option<Vec<bool>> {
        let mut nulls = Nulls::default();
        runs.iter().for_each(|run| nulls.push(run.clone()));
        nulls.truncate(left);
        let bits = nulls.finish(rows).map(|buffer| buffer.iter().map(|valid| !valid).collect());
        assert!(nulls.finish(rows).is_none());
        bits
    }

    #[test]
    fn runs_become_bits() {
        assert_eq!(bits(&[], 9, 4), None);
        for (start, end) in [(0, 1), (0, 64), (63, 65), (1, 200), (64, 128), (127, 200), (130, 131)] {
            let expected: Vec<_> = (0..200).map(|row| (start..end).contains(&row)).collect();
            assert_eq!(bits(&[0..0, start..end][1..], 200, 200).unwrap(), expected, "{start}..{end}");
        }
        assert_eq!(bits(&[1..2, 2..3, 4..5], 9, 6).unwrap(), [false, true, true, false, true, false]);
    }

    #[test]
    fn truncated_runs_end_in_time() {
        assert_eq!(bits(&[1..3, 4..5, 6..7], 2, 3).unwrap(), [false, true, false]);
        assert_eq!(bits(&[1..3, 4..5], 4, 4).unwrap(), [false, true, true, false]);
        assert_eq!(bits(&[1..3, 4..5], 1, 2), None);
    }
}
