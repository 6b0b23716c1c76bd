//! Mirrors protocols/debezium_mysql/headers.py: record headers to the members `headers` and `context` of an origin.
//!
//! ```text
//! __debezium.newkey                               {"schema":{…},"payload":{"id":2003}}         word for word, of any name
//! __debezium.context.connectorLogicalName         {"schema":{"type":"string",…},"payload":"srv1"}
//! __debezium.context.taskId                       … "0"
//! __debezium.context.connectorName                … "mysql"
//! __debezium.context.runId                        … a UUID                                     the last four
//! ```
//!
//! Records of a connector mostly have the same headers: what they were made into is kept until others come.

use crate::cursor::Cursor;
use crate::debezium::text::push_quoted;
use crate::strict_json::string;

const NAMES: [&[u8]; 4] = [
    b"__debezium.context.connectorLogicalName",
    b"__debezium.context.taskId",
    b"__debezium.context.connectorName",
    b"__debezium.context.runId",
];
const SHOWN: [&[u8]; 4] = [b"\"connectorLogicalName\":\"", b"\"taskId\":\"", b"\"connectorName\":\"", b"\"runId\":\""];
const OPENING: &[u8] = b"{\"schema\":{\"type\":\"string\",\"optional\":false},\"payload\":";

/// Name and value of a header.
pub type Header<'a> = (&'a [u8], Option<&'a [u8]>);

/// A record's headers.
#[derive(Clone, Copy)]
pub struct SentHeaders<'a> {
    /// In their order.
    pub headers: &'a [Header<'a>],
    /// Whether they are those of the record before, unmatched or not.
    pub again: bool,
}

/// What the latest headers were made into.
#[derive(Default)]
pub struct Headers {
    names: [Vec<u8>; 2],
    text: Option<Vec<u8>>,
}

impl Headers {
    /// The members of the origin, each behind a comma; `name` and `connector` are the source block's, without escapes.
    pub fn read(&mut self, headers: &[Header<'_>], name: &[u8], connector: &[u8]) -> Option<&[u8]> {
        let same = self.names.iter().zip([name, connector]).all(|(a, b)| a == b);
        if !same || self.text.is_none() {
            self.text = members(headers, name, connector);
            self.names = [name.to_vec(), connector.to_vec()];
        }
        self.text.as_deref()
    }

    /// Forgets what was made: other headers follow.
    pub fn forget(&mut self) {
        self.text = None;
    }
}

fn members(headers: &[Header<'_>], name: &[u8], connector: &[u8]) -> Option<Vec<u8>> {
    let (others, last) = headers.split_at(headers.len().saturating_sub(4));
    let is_context = last.iter().map(|(name, _)| *name).eq(NAMES);
    let mut out = Vec::new();
    let others = if is_context { others } else { headers };
    for (at, (name, value)) in others.iter().enumerate() {
        out.extend_from_slice(if at == 0 { b",\"headers\":[[" } else { b",[" });
        push_utf8(name, &mut out)?;
        out.push(b',');
        match value {
            Some(value) => push_utf8(value, &mut out)?,
            None => out.extend_from_slice(b"null"),
        }
        out.push(b']');
    }
    if !others.is_empty() {
        out.push(b']');
    }
    if is_context {
        push_context(last, [Some(name), None, Some(connector), None], &mut out)?;
    }
    Some(out)
}

fn push_utf8(bytes: &[u8], out: &mut Vec<u8>) -> Option<()> {
    simdutf8::basic::from_utf8(bytes).ok()?;
    push_quoted(bytes, out);
    Some(())
}

/// The parts of the context that the source block does not contain.
fn push_context(headers: &[Header<'_>], known: [Option<&[u8]>; 4], out: &mut Vec<u8>) -> Option<()> {
    let wrapped = headers.first()?.1?.starts_with(OPENING);
    out.extend_from_slice(b",\"context\":{");
    let mut comma = !wrapped;
    if !wrapped {
        out.extend_from_slice(b"\"schemas\":false");
    }
    for (((_, value), known), shown) in headers.iter().zip(known).zip(SHOWN) {
        let text = payload((*value)?, wrapped)?;
        if known == Some(text) {
            continue;
        }
        if comma {
            out.push(b',');
        }
        comma = true;
        out.extend_from_slice(shown);
        out.extend_from_slice(text);
        out.push(b'"');
    }
    out.push(b'}');
    Some(())
}

/// The text of a header; one that would need escapes is not for here.
fn payload(value: &[u8], wrapped: bool) -> Option<&[u8]> {
    let inside = if wrapped { value.strip_prefix(OPENING)?.strip_suffix(b"}")? } else { value };
    let mut c = Cursor::new(inside);
    let text = string(&mut c)?;
    (c.is_empty() && !text.escaped && text.raw.iter().all(|&b| b < 0xf0)).then_some(text.raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(wrapped: bool) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        let texts = ["srv1", "0", "mysql", "a-b"];
        let shown = |text: &str| {
            if wrapped { [OPENING, format!("\"{text}\"}}").as_bytes()].concat() } else { format!("\"{text}\"").into() }
        };
        NAMES.iter().zip(texts).map(|(name, text)| (name.to_vec(), Some(shown(text)))).collect()
    }

    fn read(headers: &mut Headers, sent: &[(Vec<u8>, Option<Vec<u8>>)], name: &str) -> Option<String> {
        let sent: Vec<_> = sent.iter().map(|(n, v)| (n.as_slice(), v.as_deref())).collect();
        headers.forget();
        headers.read(&sent, name.as_bytes(), b"mysql").map(|text| String::from_utf8(text.to_vec()).unwrap())
    }

    #[test]
    fn the_context_is_what_the_source_block_does_not_say() {
        let mut headers = Headers::default();
        for _ in 0..2 {
            let text = read(&mut headers, &context(true), "srv1").unwrap();
            assert_eq!(text, r#","context":{"taskId":"0","runId":"a-b"}"#);
            let text = read(&mut headers, &context(false), "srv2").unwrap();
            let expected = r#","context":{"schemas":false,"connectorLogicalName":"srv1","taskId":"0","runId":"a-b"}"#;
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn other_headers_are_kept_word_for_word() {
        let mut headers = vec![(b"a\"".to_vec(), Some(b"{\"\n\"}".to_vec())), (b"b".to_vec(), None)];
        let text = read(&mut Headers::default(), &headers, "srv1").unwrap();
        assert_eq!(text, r#","headers":[["a\"","{\"\n\"}"],["b",null]]"#);
        headers.extend(context(true));
        let text = read(&mut Headers::default(), &headers, "srv1").unwrap();
        assert!(text.ends_with(r#"],"context":{"taskId":"0","runId":"a-b"}"#), "{text}");
        assert_eq!(read(&mut Headers::default(), &[], "srv1").unwrap(), "");
    }

    #[test]
    fn headers_that_python_must_look_at_are_refused() {
        let mut headers = context(true);
        headers[1].1 = None;
        assert!(read(&mut Headers::default(), &headers, "srv1").is_none());
        headers[1].1 = Some([OPENING, b"\"\\n\"}"].concat());
        assert!(read(&mut Headers::default(), &headers, "srv1").is_none());
        assert!(read(&mut Headers::default(), &[(b"a".to_vec(), Some(b"\xff".to_vec()))], "srv1").is_none());
    }
}
