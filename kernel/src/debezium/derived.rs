//! Mirrors protocols/debezium_mysql/values/times.py, protocols/debezium_mysql/values/numbers.py: texts that are derived or checked: times, decimals, labels.

use arrow_array::ArrayRef;
use arrow_schema::ArrowError;

use super::floats::{Style, spelled};
use super::token::{between_quotes, number};
use crate::columns::{Bytes, Column, Spelling};
use crate::cursor::Cursor;
use crate::strict_json::{int64, unescape};

/// From a value's bytes, of a number or of a string that has been checked, to the text that stands for it.
pub type Derive = Box<dyn Fn(&[u8], &mut Vec<u8>) -> Option<()> + Send + Sync>;

/// Texts that are made of something else, or checked.
pub struct Derived {
    texts: Bytes,
    scratch: Vec<u8>,
    derive: Derive,
}

impl Derived {
    /// An empty column.
    pub fn new(derive: Derive) -> Self {
        Self { texts: Bytes::new(Spelling::Plain, true), scratch: Vec::new(), derive }
    }

    fn derive(&mut self, text: &[u8]) -> Option<()> {
        self.scratch.clear();
        (self.derive)(text, &mut self.scratch)?;
        self.texts.push(Some(&self.scratch))
    }
}

impl Column for Derived {
    fn read(&mut self, c: &mut Cursor<'_>) -> Option<bool> {
        if c.peek() == Some(b'n') {
            c.eat(b"null")?;
            self.texts.push(None)?;
            return Some(false);
        }
        self.derive(number(c)?.0)?;
        Some(true)
    }

    fn read_checked(&mut self, whole: &[u8], _escaped: bool) -> Option<()> {
        self.derive(whole)
    }

    fn pad(&mut self, rows: usize) {
        self.texts.pad(rows);
    }

    fn truncate(&mut self, rows: usize) {
        self.texts.truncate(rows);
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        self.texts.finish()
    }
}

/// The text of a TIME from a number of units of so many nanoseconds, at most `most` microseconds from zero, with `digits`.
pub fn time(unit_ns: i64, most: i64, digits: usize) -> Derive {
    Box::new(move |text, out| {
        let mut c = Cursor::new(text);
        let ns = i128::from(int64(&mut c)?) * i128::from(unit_ns);
        c.is_empty().then_some(())?;
        push_time(ns, most, digits, out)
    })
}

/// Appends the text of a TIME of so many nanoseconds, at most `most` microseconds from zero, with so many digits.
pub fn push_time(ns: i128, most: i64, digits: usize, out: &mut Vec<u8>) -> Option<()> {
    let us = i64::try_from(ns / 1000).ok()?;
    if ns % 1000 != 0 || !(-most..=most).contains(&us) {
        return None;
    }
    if us < 0 {
        out.push(b'-');
    }
    let (seconds, fraction) = (us.abs() / 1_000_000, us.abs() % 1_000_000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    push_padded(hour, if hour > 99 { 3 } else { 2 }, out);
    out.push(b':');
    push_padded(minute, 2, out);
    out.push(b':');
    push_padded(second, 2, out);
    out.push(b'.');
    push_padded(fraction, 6, out);
    out.truncate(out.len().saturating_sub(6 - digits));
    Some(())
}

fn push_padded(value: i64, width: usize, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + width, b'0');
    let mut left = value;
    for slot in out.iter_mut().skip(start).rev() {
        *slot = b'0' + u8::try_from(left % 10).unwrap_or_default();
        left /= 10;
    }
}

/// A decimal that is a double on the wire: its text, where that is plain.
pub fn plain_decimal() -> Derive {
    Box::new(|text, out| {
        spelled::<f64>(text, Style::Go)?;
        out.extend_from_slice(text);
        (text != b"-0" && !text.contains(&b'e')).then_some(())
    })
}

/// A string that is one of the members, or with `many` several of them with commas between, or none.
pub fn labels(members: Vec<String>, many: bool) -> Derive {
    Box::new(move |text, out| {
        unescape(between_quotes(text)?, out)?;
        let known = |label: &[u8]| members.iter().any(|m| m.as_bytes() == label);
        let good = if many { out.split(|&b| b == b',').all(|l| l.is_empty() || known(l)) } else { known(out) };
        good.then_some(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn derived(derive: Derive, text: &str) -> Option<String> {
        let mut out = Vec::new();
        derive(text.as_bytes(), &mut out)?;
        String::from_utf8(out).ok()
    }

    #[test]
    fn times_are_made_of_numbers() {
        const MOST: i64 = 838 * 3_600_000_000;
        assert_eq!(derived(time(1000, MOST, 6), "773138588000").unwrap(), "214:45:38.588000");
        assert_eq!(derived(time(1000, MOST, 6), "-1").unwrap(), "-00:00:00.000001");
        assert_eq!(derived(time(1_000_000, MOST, 3), "1").unwrap(), "00:00:00.001");
        assert_eq!(derived(time(1, MOST, 6), "1001"), None);
        assert_eq!(derived(time(1000, MOST, 6), "9999999999999"), None);
        assert_eq!(derived(time(1000, MOST, 6), "-9223372036854775808"), None);
    }

    #[test]
    fn labels_are_members() {
        let members = || vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(derived(labels(members(), true), "\"a,b\"").unwrap(), "a,b");
        assert_eq!(derived(labels(members(), false), "\"\\u0061\"").unwrap(), "a");
        assert!(derived(labels(members(), false), "\"a,b\"").is_none());
        assert!(derived(labels(members(), true), "\"a,c\"").is_none());
    }
}
