//! Rows of a made-up protocol.

use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, MapBuilder, StringBuilder};
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, StructArray, UInt64Array};
use arrow_schema::{DataType, Field};

use super::Encoder;

const TEMPLATE: &str = r#"{"before":[{"form":"integer","null":"null"},{"form":{"text":"raw"},"null":"null"}],
    "after":[{"form":"integer","null":"null"},{"form":{"text":"raw"},"null":"none"}],"heads":["ts"],"most":40,
    "cases":[{"ops":["insert"],"before":false,"after":true,"key":[{"head":0}],"value":[{"literal":"+"},{"after":0},{"literal":"="},{"after":1}]},
             {"ops":null,"before":true,"after":true,"key":[{"head":0}],"value":[{"before":1},{"literal":">"},{"after":1}]}]}"#;

/// What is written, or nothing.
pub(super) fn text(write: impl FnOnce(&mut Vec<u8>) -> Option<()>) -> Option<String> {
    let mut out = Vec::new();
    write(&mut out).map(|()| String::from_utf8(out).unwrap())
}

fn image(ids: Vec<Option<i64>>, names: Vec<Option<&str>>, there: Vec<bool>) -> ArrayRef {
    let fields = vec![Field::new("id", DataType::Int64, true), Field::new("name", DataType::Utf8, true)];
    let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(ids)), Arc::new(StringArray::from(names))];
    Arc::new(StructArray::new(fields.into(), columns, Some(there.into())))
}

fn rows() -> RecordBatch {
    let ops = StringArray::from(vec!["insert", "insert", "update", "delete", "insert", "insert"]);
    let ts = UInt64Array::from(vec![Some(1), Some(2), Some(u64::MAX), Some(4), None, Some(6)]);
    let names = vec![Some("a\"b"), None, Some("é"), None, Some("x"), Some("too long to be written, by its template")];
    let after =
        image(vec![Some(1), None, Some(-3), None, Some(5), Some(6)], names, vec![true, true, true, false, true, true]);
    let before = image(vec![None; 6], vec![Some("old"); 6], vec![false, false, true, true, false, false]);
    let mut irregular = MapBuilder::new(None, StringBuilder::new(), BinaryBuilder::new());
    (0..6).for_each(|_| irregular.append(true).unwrap());
    let irregular: ArrayRef = Arc::new(irregular.finish());
    let columns: [(&str, ArrayRef); 5] =
        [("op", Arc::new(ops)), ("before", before), ("after", after), ("irregular", irregular), ("ts", Arc::new(ts))];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn encoder(template: &str) -> Encoder {
    let mut encoder = Encoder::new(vec![(0x20, 0x7e)]);
    assert_eq!(encoder.register(template), Some(0));
    encoder
}

#[test]
fn rows_are_written_by_their_case_and_odd_ones_leave_no_trace() {
    let written = encoder(TEMPLATE).encode(0, &rows()).unwrap();
    assert_eq!(written.rows.values(), &[0, 1, 2]);
    let texts = |array: &arrow_array::BinaryArray| -> Vec<String> {
        array.iter().map(|text| String::from_utf8(text.unwrap().to_vec()).unwrap()).collect()
    };
    assert_eq!(texts(&written.keys.unwrap()), ["1", "2", "18446744073709551615"]);
    assert_eq!(texts(&written.values), ["+1=\"a\\\"b\"", "+null=none", "\"old\">\"é\""]);
}

#[test]
fn framed_texts_stand_behind_their_lengths() {
    let framed = TEMPLATE.replace("\"most\"", "\"framed\":true,\"most\"");
    let written = encoder(&framed).encode(0, &rows()).unwrap();
    assert_eq!(written.values.value(1), b"\0\0\0\0\0\0\0\x0a+null=none");
    assert_eq!(written.keys.unwrap().value(1), b"\0\0\0\0\0\0\0\x012");
}

#[test]
fn a_slice_is_written_as_the_rows_it_has() {
    let encoder = encoder(TEMPLATE);
    let (whole, part) = (encoder.encode(0, &rows()).unwrap(), encoder.encode(0, &rows().slice(1, 2)).unwrap());
    assert_eq!(part.rows.values(), &[0, 1]);
    assert_eq!(part.values.value(0), whole.values.value(1));
    assert_eq!(part.values.value(1), whole.values.value(2));
}

#[test]
fn what_a_template_names_must_be_there() {
    for broken in [
        TEMPLATE.replace("{\"head\":0}", "{\"head\":1}"),
        TEMPLATE.replace("{\"after\":1}", "{\"after\":2}"),
        TEMPLATE.replace("\"before\":false", "\"before\":true,\"x\":1"),
        TEMPLATE.replacen("[{\"head\":0}]", "null", 1),
        TEMPLATE.replace("\"integer\"", "\"number\""),
        TEMPLATE.replace("{\"before\":1}", "{\"before\":1},{\"before\":2}"),
        "{}".to_owned(),
    ] {
        assert_eq!(Encoder::new(vec![]).register(&broken), None, "{broken}");
    }
    let encoder = encoder(&TEMPLATE.replace("[\"ts\"]", "[\"sequence\"]"));
    assert!(encoder.encode(0, &rows()).is_none());
    assert!(encoder.encode(1, &rows()).is_none());
    let other = self::encoder(&TEMPLATE.replacen("\"integer\"", "\"vector\"", 1));
    assert!(other.encode(0, &rows()).is_none());
}
