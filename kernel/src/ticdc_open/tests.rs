//! Records as both producers write them, and damaged ones.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, TimestampMicrosecondType, UInt64Type};
use arrow_array::{Array, RecordBatch};

use super::Decoder;
use crate::rows::Op;

const CLASSIC: &str = r#"{"ts":463267594595935302,"scm":"shop","tbl":"items","rid":-7,"ptn":0,"t":1}"#;
const NEWARCH: &str = r#"{"ts":463267594595935302,"scm":"shop","tbl":"items","t":1}"#;
const INSERT: &str = r#"{"u":{"id":{"t":8,"h":true,"f":11,"v":7},"at":{"t":12,"f":65,"v":"2026-01-02 03:04:05.100"}}}"#;
const DELETE: &str = r#"{"d":{"id":{"t":8,"h":true,"f":11,"v":-9},"at":{"t":12,"f":65,"v":null}}}"#;
const UPDATE: &str = r#"{"u":{"id":{"t":8,"h":true,"f":11,"v":7},"at":{"t":12,"f":65,"v":null}},"p":{"id":{"t":8,"h":true,"f":11,"v":7},"at":{"t":12,"f":65,"v":"2026-01-02 03:04:05.100"}}}"#;

fn shape(at: &str) -> String {
    format!(
        r#"{{"database":"shop","table":"items","columns":[{{"name":"id","type":"bigint"}},{{"name":"at","type":"{at}"}}],
            "wire":{{"columns":[{{"t":8,"h":true,"f":11}},{{"t":12,"f":65}}]}}}}"#
    )
}

fn decoder(shapes: &[&str]) -> Decoder {
    let mut decoder = Decoder::new(Op::Insert, Some(0));
    for (number, at) in shapes.iter().enumerate() {
        assert_eq!(decoder.register(&shape(at)), Some(number));
    }
    decoder
}

fn framed(messages: &[&str]) -> Vec<u8> {
    messages.iter().flat_map(|m| [&(m.len() as i64).to_be_bytes()[..], m.as_bytes()].concat()).collect()
}

fn record(messages: &[(&str, &str)]) -> (Vec<u8>, Vec<u8>) {
    let (keys, values): (Vec<_>, Vec<_>) = messages.iter().copied().unzip();
    ([&1i64.to_be_bytes()[..], &framed(&keys)].concat(), framed(&values))
}

fn decode(decoder: &mut Decoder, messages: &[(&str, &str)]) -> Option<Vec<(usize, RecordBatch)>> {
    let (key, value) = record(messages);
    let done = decoder.decode(3, &key, &value);
    let tables = decoder.finish().unwrap();
    assert!(done.is_some() || tables.is_empty(), "an unmatched record left rows behind");
    done.map(|()| tables)
}

fn strings(batch: &RecordBatch, name: &str) -> Vec<Option<String>> {
    batch.column_by_name(name).unwrap().as_string::<i32>().iter().map(|v| v.map(str::to_owned)).collect()
}

#[test]
fn rows_of_either_producer_become_columns() {
    let messages = [(CLASSIC, INSERT), (NEWARCH, UPDATE), (NEWARCH, DELETE)];
    let tables = decode(&mut decoder(&["datetime(3)"]), &messages).unwrap();
    let [(0, batch)] = &tables[..] else { panic!("one shape, got {}", tables.len()) };
    let text = |s: &str| Some(s.to_owned());
    assert_eq!(strings(batch, "op"), ["insert", "update", "delete"].map(text));
    assert_eq!(strings(batch, "origin"), [text(r#"{"rid":-7,"ptn":0}"#), None, None]);
    assert_eq!(batch["record"].as_primitive::<Int32Type>().values(), &[3, 3, 3]);
    assert_eq!(batch["index"].as_primitive::<Int32Type>().values(), &[0, 1, 2]);
    assert_eq!(batch["commit_ts"].as_primitive::<UInt64Type>().values(), &[463_267_594_595_935_302; 3]);
    let (before, after) = (batch["before"].as_struct(), batch["after"].as_struct());
    assert_eq!((before.is_null(0), before.null_count()), (true, 1));
    assert_eq!((after.is_null(2), after.null_count()), (true, 1));
    let ids = |image: &arrow_array::StructArray| image["id"].as_primitive::<Int64Type>().iter().collect::<Vec<_>>();
    assert_eq!(ids(before), [None, Some(7), Some(-9)]);
    assert_eq!(ids(after), [Some(7), Some(7), None]);
    let at = before["at"].as_primitive::<TimestampMicrosecondType>();
    assert_eq!(at.iter().collect::<Vec<_>>(), [None, Some(1_767_323_045_100_000), None]);
}

#[test]
fn a_record_with_one_message_has_no_index() {
    let tables = decode(&mut decoder(&["datetime(3)"]), &[(NEWARCH, INSERT)]).unwrap();
    assert!(tables[0].1["index"].is_null(0));
}

#[test]
fn without_old_values_a_lone_row_is_an_upsert() {
    let mut decoder = Decoder::new(Op::Upsert, Some(0));
    decoder.register(&shape("datetime(3)")).unwrap();
    let tables = decode(&mut decoder, &[(NEWARCH, INSERT), (NEWARCH, UPDATE)]).unwrap();
    assert_eq!(strings(&tables[0].1, "op"), [Some("upsert".into()), Some("update".into())]);
}

#[test]
fn a_row_joins_the_first_shape_that_agrees() {
    let mut decoder = decoder(&["datetime", "datetime(3)"]);
    let numbers =
        |tables: Vec<(usize, RecordBatch)>| tables.iter().map(|(n, b)| (*n, b.num_rows())).collect::<Vec<_>>();
    // The route that matched last is tried first; a NULL must not let it keep the row.
    let messages = [(NEWARCH, INSERT), (NEWARCH, DELETE), (NEWARCH, INSERT), (NEWARCH, UPDATE)];
    assert_eq!(numbers(decode(&mut decoder, &messages).unwrap()), [(0, 1), (1, 3)]);
}

#[test]
fn digits_that_differ_between_the_images_are_odd() {
    let mixed = UPDATE
        .replace("\"at\":{\"t\":12,\"f\":65,\"v\":null}", "\"at\":{\"t\":12,\"f\":65,\"v\":\"2026-01-02 03:04:05\"}");
    assert!(decode(&mut decoder(&["datetime", "datetime(3)"]), &[(NEWARCH, &mixed)]).is_none());
}

#[test]
fn names_are_spelled_by_either_writer() {
    let described = r#"{"database":"a&b","table":"<\"\b\u2028é>","columns":[{"name":"a<b","type":"int"}],"wire":{"columns":[{"t":3}]}}"#;
    let mut decoder = Decoder::new(Op::Insert, Some(0));
    decoder.register(described).unwrap();
    let html = r#"{"ts":1,"scm":"a\u0026b","tbl":"\u003c\"\b\u2028é\u003e","t":1}"#;
    let raw = "{\"ts\":1,\"scm\":\"a&b\",\"tbl\":\"<\\\"\\u0008\u{2028}é>\",\"t\":1}";
    let values = [r#"{"u":{"a\u003cb":{"t":3,"v":1}}}"#, r#"{"u":{"a<b":{"t":3,"v":1}}}"#];
    let messages = [(html, values[0]), (raw, values[1])];
    assert_eq!(decode(&mut decoder, &messages).unwrap()[0].1.num_rows(), 2);
}

#[test]
fn other_keys_are_odd() {
    for key in [
        "",
        "{}",
        r#"{"ts":1,"t":3}"#,
        r#"{"ts":1,"scm":"shop","tbl":"items","t":2}"#,
        r#"{"ts":1,"scm":"shop","tbl":"items","t":1,"ohk":true}"#,
        r#"{"ts":1,"scm":"shop","tbl":"items","t":1,"rid":1}"#,
        r#"{"ts":1,"scm":"shop","tbl":"items","ptn":1,"rid":1,"t":1}"#,
        r#"{"ts":1,"scm":"shop","tbl":"items","ptn":1,"t":1,"ptn":1}"#,
        r#"{"ts":1,"scm":"shop","tbl":"items","rid":9223372036854775808,"t":1}"#,
        r#"{"ts":1,"scm":"shop","tbl":"items","rid":01,"t":1}"#,
        r#"{"ts":18446744073709551616,"scm":"shop","tbl":"items","t":1}"#,
        r#"{"ts":-1,"scm":"shop","tbl":"items","t":1}"#,
        r#"{"ts":1,"scm":"shop","tbl":"item","t":1}"#,
        r#"{"ts":1, "scm":"shop","tbl":"items","t":1}"#,
        r#"{"ts":1,"scm":"shop","tbl":"items","t":1} "#,
    ] {
        assert!(decode(&mut decoder(&["datetime(3)"]), &[(key, INSERT)]).is_none(), "{key}");
    }
}

#[test]
fn one_odd_message_makes_the_record_odd() {
    let mut decoder = decoder(&["datetime(3)"]);
    for unmatched in
        ["", "{}", r#"{"u":{}}"#, &INSERT[1..], &INSERT.replace("7}", "7 }"), &INSERT.replace("\"f\":11", "\"f\":10")]
    {
        assert!(
            decode(&mut decoder, &[(NEWARCH, INSERT), (NEWARCH, UPDATE), (NEWARCH, unmatched)]).is_none(),
            "{unmatched}"
        );
    }
    assert_eq!(decode(&mut decoder, &[(NEWARCH, INSERT)]).unwrap()[0].1.num_rows(), 1);
}

#[test]
fn a_record_cut_anywhere_or_with_bytes_behind_is_odd() {
    let mut decoder = decoder(&["datetime(3)"]);
    let (key, value) = record(&[(CLASSIC, INSERT), (NEWARCH, UPDATE)]);
    for end in 0..key.len() {
        assert!(decoder.decode(0, &key[..end], &value).is_none(), "key cut at {end}");
    }
    for end in 0..value.len() {
        assert!(decoder.decode(0, &key, &value[..end]).is_none(), "value cut at {end}");
    }
    for (key, value) in [([&key[..], b"\0"].concat(), value.clone()), (key.clone(), [&value[..], b"\0"].concat())] {
        assert!(decoder.decode(0, &key, &value).is_none());
    }
    assert!(decoder.finish().unwrap().is_empty());
    assert!(decoder.decode(0, &key, &value).is_some());
}

#[test]
fn what_the_kernel_cannot_carry_is_not_learned() {
    let mut decoder = Decoder::new(Op::Insert, None);
    let timestamp = shape("datetime").replace("\"datetime\"", "\"timestamp\"").replace("\"t\":12", "\"t\":7");
    for described in [
        "",
        "{}",
        &timestamp,
        &shape("null"),
        &shape("geometry"),
        &shape("datetime").replace("\"f\":65", "\"f\":65,\"x\":1"),
        &shape("datetime").replace("{\"t\":12,\"f\":65}", ""),
        r#"{"database":"a","table":"b","columns":[],"wire":{"columns":[]}}"#,
    ] {
        assert_eq!(decoder.register(described), None, "{described}");
    }
    assert_eq!(decoder.register(&shape("datetime(6)")), Some(0));
}

#[test]
fn tables_with_the_same_columns_share_a_batch() {
    let mut decoder = Decoder::new(Op::Insert, Some(0));
    let described = shape("datetime(3)");
    for (table, column) in [("items", "at"), ("parts", "at"), ("other", "on")] {
        let named = described.replace("items", table).replace("\"at\"", &format!("\"{column}\""));
        assert!(decoder.register(&named).is_some());
    }
    let key = |table: &str| NEWARCH.replace("items", table);
    let [items, parts, other] = ["items", "parts", "other"].map(key);
    let number = |id: &str| INSERT.replace("\"v\":7", &format!("\"v\":{id}"));
    let rows = ["1", "2", "3", "4"].map(number);
    let mut read = |messages: &[(&str, &str)]| {
        let (key, value) = record(messages);
        decoder.decode(0, &key, &value)
    };
    assert!(read(&[(&items, &rows[0]), (&parts, &rows[1])]).is_some());
    assert!(read(&[(&parts, &rows[2]), (&items, &rows[2]), (&parts, "{}")]).is_none());
    assert!(read(&[(&other, &rows[2].replace("\"at\"", "\"on\"")), (&items, &rows[3])]).is_some());
    let batches = decoder.finish().unwrap();
    let [(0, shared), (2, alone)] = batches.as_slice() else { panic!("{batches:?}") };
    let owners = |batch: &RecordBatch| batch["shape"].as_primitive::<Int32Type>().values().to_vec();
    assert_eq!((owners(shared), owners(alone)), (vec![0, 1, 0], vec![2]));
    let ids = shared["after"].as_struct().column(0).as_primitive::<Int64Type>().values().to_vec();
    assert_eq!(ids, [1, 2, 4]);
}
