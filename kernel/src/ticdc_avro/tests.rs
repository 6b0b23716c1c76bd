//! Records as both producers write them, and damaged ones.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, UInt64Type};
use arrow_array::{Array, RecordBatch};

use super::Decoder;
use crate::rows::MAX_SHAPES;

const ID: &str = r#"{"name":"id","type":{"type":"long","connect.parameters":{"tidb_type":"BIGINT"}}}"#;
const AT: &str =
    r#"{"default":null,"name":"at","type":["null",{"type":"string","connect.parameters":{"tidb_type":"DATETIME"}}]}"#;
const OP: &str = r#"{"default":"","name":"_tidb_op","type":"string"}"#;
const TS: &str = r#"{"default":0,"name":"_tidb_commit_ts","type":"long"},{"default":0,"name":"_tidb_commit_physical_time","type":"long"}"#;
const KEY: &[u8] = b"\0\0\0\0\x01\x0e";
/// CRC-32 of 7 as 8 bytes, 19 as 4, and the text of `PLAIN`.
const CHECKSUM: &str = "3385770441";
const NULL: &[u8] = b"\0";
const PLAIN: &[u8] = b"\x02\x262026-01-02 03:04:05";
const MILLI: &[u8] = b"\x02\x2e2026-01-02 03:04:05.100";

fn record(fields: &str) -> String {
    format!(r#"{{"type":"record","name":"t","namespace":"default.shop","fields":[{fields}]}}"#)
}

fn before() -> String {
    format!(r#"{{"default":null,"name":"_ticdc_before","type":["null",{}]}}"#, record(&[ID, AT].join(",")))
}

/// A shape with key 1 and value 2; `fields` stand behind the columns of the value, `at` is the type of the second one.
fn described(fields: &[&str], at: &str) -> String {
    let value = record(&[&[ID, AT], fields].concat().join(","));
    shape(&format!(r#"{{"id":1,"schema":{:?}}}"#, record(ID)), &format!(r#"{{"id":2,"schema":{value:?}}}"#), at)
}

fn shape(key: &str, value: &str, at: &str) -> String {
    let at = if at.is_empty() { String::new() } else { format!(r#",{{"name":"at","type":"{at}"}}"#) };
    format!(
        r#"{{"topic":"t","database":"shop","table":"t","columns":[{{"name":"id","type":"bigint"}}{at}],
            "wire":{{"ticdc-avro":{{"key":{key},"value":{value}}}}}}}"#
    )
}

fn key_alone() -> String {
    shape(&format!(r#"{{"id":1,"schema":{:?}}}"#, record(ID)), "null", "")
}

fn registered(shapes: &[String]) -> Decoder {
    let mut decoder = Decoder::new(Some(0));
    for (number, shape) in shapes.iter().enumerate() {
        assert_eq!(decoder.register(shape), Some(number), "{shape}");
    }
    decoder
}

fn value(parts: &[&[u8]]) -> Vec<u8> {
    [&b"\0\0\0\0\x02\x0e"[..], &parts.concat()].concat()
}

/// `_tidb_op`, 1 << 18 as the commit ts, 1 as its milliseconds.
fn extension(op: &[u8; 1]) -> Vec<u8> {
    [&b"\x02"[..], op, b"\x80\x80\x20\x02"].concat()
}

fn decode(decoder: &mut Decoder, key: Option<&[u8]>, value: Option<&[u8]>) -> Option<Vec<(usize, RecordBatch)>> {
    let done = decoder.decode(3, b"t", key, value);
    let tables = decoder.finish().unwrap();
    assert!(done.is_some() || tables.is_empty(), "an unmatched record left rows behind");
    done.map(|()| tables)
}

fn ops(batch: &RecordBatch) -> Vec<&str> {
    batch["op"].as_string::<i32>().iter().map(Option::unwrap).collect()
}

fn ids(batch: &RecordBatch, image: &str) -> Vec<Option<i64>> {
    batch[image].as_struct()["id"].as_primitive::<Int64Type>().iter().collect()
}

#[test]
fn rows_with_the_extension_have_op_and_commit_ts() {
    let mut decoder = registered(&[described(&[OP, TS], "datetime(3)"), key_alone()]);
    for op in [b"c", b"u"] {
        let value = value(&[MILLI, &extension(op)]);
        decoder.decode(0, b"t", Some(KEY), Some(&value)).unwrap();
    }
    decoder.decode(2, b"t", Some(KEY), None).unwrap();
    decoder.decode(3, b"t", Some(KEY), Some(b"\x03\0\0\0\0\0\x04\0\0")).unwrap();
    let tables = decoder.finish().unwrap();
    let [(0, rows), (1, deleted)] = &tables[..] else { panic!("two shapes, got {}", tables.len()) };
    assert_eq!((ops(rows), ops(deleted)), (vec!["insert", "update"], vec!["delete"; 2]));
    assert_eq!(rows["commit_ts"].as_primitive::<UInt64Type>().values(), &[1 << 18; 2]);
    let ts = deleted["commit_ts"].as_primitive::<UInt64Type>();
    assert_eq!(ts.iter().collect::<Vec<_>>(), [None, Some(1 << 18)]);
    assert_eq!((ids(rows, "after"), ids(deleted, "before")), (vec![Some(7); 2], vec![Some(7); 2]));
    assert_eq!((rows["before"].null_count(), deleted["after"].null_count()), (2, 2));
}

#[test]
fn without_the_extension_a_row_is_an_upsert_that_nobody_dates() {
    let tables = decode(&mut registered(&[described(&[], "datetime")]), Some(KEY), Some(&value(&[PLAIN]))).unwrap();
    assert_eq!(ops(&tables[0].1), ["upsert"]);
    assert_eq!(tables[0].1["commit_ts"].null_count(), 1);
}

#[test]
fn old_rows_are_the_image_before_and_tell_deletes() {
    let mut decoder = registered(&[described(&[&before(), OP], "datetime")]);
    let old = [b"\x02\x0e", PLAIN].concat();
    let other = [b"\x02\x0c", PLAIN].concat();
    let mut row = |old: &[u8], op: &[u8]| decode(&mut decoder, Some(KEY), Some(&value(&[PLAIN, old, op])));
    let has = |tables: Option<Vec<(usize, RecordBatch)>>| {
        let batch = tables?.remove(0).1;
        Some((ops(&batch)[0].to_owned(), batch["before"].is_valid(0), batch["after"].is_valid(0)))
    };
    assert_eq!(has(row(NULL, b"\x02c")), Some(("insert".into(), false, true)));
    assert_eq!(has(row(NULL, b"\x02u")), Some(("update".into(), false, true)));
    assert_eq!(has(row(&other, b"\x02u")), Some(("update".into(), true, true)));
    assert_eq!(has(row(&old, b"\x02d")), Some(("delete".into(), true, false)));
    assert_eq!(has(row(&other, b"\x02d")), None);
    assert_eq!(has(row(NULL, b"\x02d")), None);
    assert_eq!(has(row(&old, b"\x02x")), None);
    let mut upserts = registered(&[described(&[&before()], "datetime")]);
    assert_eq!(
        has(decode(&mut upserts, Some(KEY), Some(&value(&[PLAIN, &other])))),
        Some(("upsert".into(), true, true))
    );
}

#[test]
fn a_delete_takes_no_row_of_the_image_after() {
    let mut decoder = registered(&[described(&[&before(), OP], "datetime")]);
    let old = [b"\x02\x0e", PLAIN].concat();
    for (old, op) in [(NULL, b"\x02c"), (&old, b"\x02d"), (NULL, b"\x02c"), (&old, b"\x02u")] {
        decoder.decode(0, b"t", Some(KEY), Some(&value(&[PLAIN, old, op]))).unwrap();
    }
    let (_, batch) = decoder.finish().unwrap().remove(0);
    assert_eq!(ids(&batch, "after"), [Some(7), None, Some(7), Some(7)]);
    assert_eq!(ids(&batch, "before"), [None, Some(7), None, Some(7)]);
}

#[test]
fn the_key_says_what_the_row_says() {
    let mut decoder = registered(&[described(&[], "datetime")]);
    let value = value(&[NULL]);
    for key in [
        &b"\0\0\0\0\x01\x0c"[..],
        b"\0\0\0\0\x01\x0e\0",
        b"\0\0\0\0\x01",
        b"\0\0\0\0\x03\x0e",
        b"",
        b"\x01\0\0\0\x01\x0e",
    ] {
        assert!(decode(&mut decoder, Some(key), Some(&value)).is_none(), "{key:x?}");
    }
    assert!(decode(&mut decoder, None, Some(&value)).is_none());
    assert!(decode(&mut decoder, Some(KEY), Some(&value)).is_some());
}

#[test]
fn what_contradicts_itself_is_odd() {
    let mut decoder = registered(&[described(&[OP, TS], "datetime")]);
    for own in [
        &b"\x02d\x80\x80\x20\x02"[..],
        b"\x02c\x80\x80\x20\x04",
        b"\x02c\x01\x01",
        b"\x02c\x80\x80\x20\x01",
        b"\x02c\x80\x80\x20\x82\0",
    ] {
        assert!(decode(&mut decoder, Some(KEY), Some(&value(&[NULL, own]))).is_none(), "{own:x?}");
    }
    assert!(
        decode(&mut decoder, Some(KEY), Some(b"\x03\0\0\0\0\0\x04\0\0")).is_none(),
        "nobody registered the key alone"
    );
}

#[test]
fn a_row_is_confirmed_by_its_checksum() {
    let sum = r#"{"default":"","name":"_tidb_row_level_checksum","type":"string"},{"default":false,"name":"_tidb_corrupted","type":"boolean"},{"default":0,"name":"_tidb_checksum_version","type":"int"}"#;
    let mut decoder = registered(&[described(&[OP, sum], "datetime")]);
    let mut origin = |op: &[u8], own: &[u8]| {
        let batch = decode(&mut decoder, Some(KEY), Some(&value(&[PLAIN, op, own])))?.remove(0).1;
        Some(batch["origin"].as_string::<i32>().value(0).to_owned())
    };
    let said = |sum: &str| {
        format!(r#"{{"_tidb_row_level_checksum":"{sum}","_tidb_corrupted":false,"_tidb_checksum_version":2}}"#)
    };
    let confirmed = [b"\x14", CHECKSUM.as_bytes(), b"\0\x04"].concat();
    assert_eq!(origin(b"\x02u", &confirmed), Some(said(CHECKSUM)));
    assert_eq!(origin(b"\x02u", b"\0\0\x04"), Some(said("")));
    assert_eq!(origin(b"\x02c", b"\x020\0\x04"), Some(said("0")));
    let damaged = [b"\x14", CHECKSUM.as_bytes(), b"\x01\x04"].concat();
    let other = confirmed.iter().map(|b| if *b == b'3' { b'4' } else { *b }).collect::<Vec<_>>();
    for (op, own) in [(b"\x02u", &b"\x020\0\x04"[..]), (b"\x02u", &damaged), (b"\x02u", &other)] {
        assert_eq!(origin(op, own), None);
    }
}

#[test]
fn a_row_joins_the_first_shape_that_agrees() {
    let mut decoder = registered(&[described(&[], "datetime"), described(&[], "datetime(3)")]);
    let numbers =
        |decoder: &mut Decoder| decoder.finish().unwrap().iter().map(|(n, b)| (*n, b.num_rows())).collect::<Vec<_>>();
    for at in [MILLI, NULL, MILLI, NULL, PLAIN] {
        decoder.decode(0, b"t", Some(KEY), Some(&value(&[at]))).unwrap();
    }
    assert_eq!(numbers(&mut decoder), [(0, 3), (1, 2)]);
}

#[test]
fn topics_are_families_of_their_own() {
    let mut decoder = registered(&[
        described(&[], "datetime"),
        described(&[], "datetime").replace(r#""topic":"t""#, r#""topic":"u""#),
    ]);
    let value = value(&[NULL]);
    for topic in [&b"t"[..], b"u", b"t"] {
        decoder.decode(0, topic, Some(KEY), Some(&value)).unwrap();
    }
    assert!(decoder.decode(0, b"v", Some(KEY), Some(&value)).is_none());
    let batches = decoder.finish().unwrap();
    let [(0, batch)] = batches.as_slice() else { panic!("{batches:?}") };
    let shapes = batch.column_by_name("shape").unwrap();
    assert_eq!(shapes.as_primitive::<Int32Type>().values().to_vec(), [0, 1, 0]);
}

#[test]
fn a_record_cut_anywhere_or_with_bytes_behind_is_odd() {
    let mut decoder = registered(&[described(&[&before(), OP, TS], "datetime"), key_alone()]);
    let value = value(&[PLAIN, b"\x02\x0e", PLAIN, &extension(b"u")]);
    for end in 0..value.len() {
        assert!(decode(&mut decoder, Some(KEY), Some(&value[..end])).is_none(), "value cut at {end}");
    }
    for end in 0..KEY.len() {
        assert!(decode(&mut decoder, Some(&KEY[..end]), Some(&value)).is_none(), "key cut at {end}");
        assert!(decode(&mut decoder, Some(&KEY[..end]), None).is_none(), "key cut at {end}");
    }
    assert!(decode(&mut decoder, Some(KEY), Some(&[&value[..], b"\0"].concat())).is_none());
    assert!(decode(&mut decoder, Some(&[KEY, b"\0"].concat()), None).is_none());
    for marker in [&b"\x03"[..], b"\x03\0\0\0\0\0\x04\0", b"\x03\0\0\0\0\0\x04\0\0\0"] {
        assert!(decode(&mut decoder, Some(KEY), Some(marker)).is_none());
    }
    assert!(decode(&mut decoder, Some(KEY), Some(&value)).is_some());
}

#[test]
fn of_too_many_shapes_the_first_are_known() {
    let columns: Vec<_> = ["a", "b", "c", "d"].map(|name| AT.replace("\"at\"", &format!("{name:?}"))).into();
    let value = format!(r#"{{"id":2,"schema":{:?}}}"#, record(&columns.join(",")));
    let shape = |n: usize| {
        let types = [n % 6 + 1, n / 6 % 6 + 1, n / 36 % 6 + 1, n / 216 + 1].into_iter().zip(["a", "b", "c", "d"]);
        let columns: Vec<_> = types.map(|(d, name)| format!(r#"{{"name":"{name}","type":"datetime({d})"}}"#)).collect();
        format!(
            r#"{{"topic":"t","database":"","table":"","columns":[{}],"wire":{{"ticdc-avro":{{"key":null,"value":{value}}}}}}}"#,
            columns.join(",")
        )
    };
    let mut decoder = registered(&(0..MAX_SHAPES).map(shape).collect::<Vec<_>>());
    assert_eq!(decoder.register(&shape(MAX_SHAPES)), None);
    assert!(decode(&mut decoder, None, Some(b"\0\0\0\0\x02\0\0\0\0")).is_some());
}

#[test]
fn what_the_kernel_cannot_carry_is_not_learned() {
    let mut decoder = Decoder::new(None);
    let good = described(&[OP, TS], "datetime(6)");
    for bad in [
        "",
        "{}",
        &good.replace("datetime(6)", "timestamp(6)"),
        &good.replace("datetime(6)", "null"),
        &good.replace("\"type\":\"bigint\"", "\"type\":\"text\""),
        &good.replace("\"name\":\"at\"", "\"name\":\"other\""),
        &good.replace("\"topic\":\"t\",", ""),
        &good.replace("_tidb_op", "_tidb_checksum"),
        &good.replace("_tidb_commit_physical_time", "_tidb_corrupted"),
        &good.replace("[\\\"null\\\"", "[\\\"int\\\""),
        &good.replace("\\\"record\\\"", "\\\"enum\\\""),
        &good.replace("\"id\":2", "\"id\":4294967296"),
    ] {
        assert_eq!(decoder.register(bad), None, "{bad}");
    }
    assert_eq!(decoder.register(&good), Some(0));
}
