//! Records against registered shapes: which are decoded, and which are unmatched.

use super::*;
use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt64Type};

const SCHEMA: &str = r#"{"type":"struct","fields":[1]}"#;
const COMMIT_TS: u64 = 463_267_607_027_438_119;

fn shape(kinds: [&str; 2], schema: bool) -> String {
    let [id, v] = kinds;
    let text = if schema { serde_json::to_string(SCHEMA).unwrap() } else { "null".to_owned() };
    let columns = format!(r#"[{{"name":"id","type":"{id}","key":true}},{{"name":"v","type":"{v}","key":false}}]"#);
    let wire = format!(r#"{{"connector":"TiCDC","key":{text},"value":{text}}}"#);
    format!(r#"{{"database":"d","table":"t","columns":{columns},"wire":{wire}}}"#)
}

fn value(op: &str, images: &str, schema: &str) -> String {
    format!(
        r#"{{"payload":{{"source":{{"version":"2.4.0.Final","connector":"TiCDC","name":"c","ts_ms":{},"snapshot":"false","db":"d","table":"t","server_id":0,"gtid":null,"file":"","pos":0,"row":0,"thread":0,"query":null,"commit_ts":{COMMIT_TS},"cluster_id":"c"}},"ts_ms":5,"transaction":null,"op":"{op}",{images}}}{schema}}}"#,
        COMMIT_TS >> 18
    )
}

fn insert(v: &str) -> String {
    value("c", &format!(r#""before":null,"after":{{"id":7,"v":{v}}}"#), "")
}

fn decoder(shapes: &[String]) -> Decoder {
    let mut decoder = Decoder::default();
    for (number, shape) in shapes.iter().enumerate() {
        assert_eq!(decoder.register(shape), Some(number), "{shape}");
    }
    decoder
}

fn take(decoder: &mut Decoder, key: Option<&str>, value: &str) -> Option<Vec<(usize, RecordBatch)>> {
    let done = decoder.decode(0, key.map(str::as_bytes), Some(value.as_bytes()));
    let tables = decoder.finish().unwrap();
    assert_eq!(done.is_some(), !tables.is_empty());
    done.map(|()| tables)
}

const KEY: Option<&str> = Some(r#"{"payload":{"id":7}}"#);

#[test]
fn rows_of_all_ops_are_read() {
    let mut decoder = decoder(&[shape(["bigint", "double"], false)]);
    for (op, images, before, after) in [
        ("c", r#""before":null,"after":{"id":7,"v":1.5}"#, None, Some(1.5)),
        ("u", r#""before":{"id":7,"v":1},"after":{"id":7,"v":1.5}"#, Some(1.0), Some(1.5)),
        ("u", r#""after":{"id":7,"v":1.5}"#, None, Some(1.5)),
        ("d", r#""after":null,"before":{"id":7,"v":1.5}"#, Some(1.5), None),
    ] {
        let tables = take(&mut decoder, KEY, &value(op, images, "")).unwrap();
        let rows = &tables[0].1;
        assert_eq!(rows["commit_ts"].as_primitive::<UInt64Type>().value(0), COMMIT_TS);
        assert_eq!(rows["origin"].as_string::<i32>().value(0), r#"{"ts_ms":5,"cluster_id":"c"}"#);
        for (side, expected) in [("before", before), ("after", after)] {
            let image = rows[side].as_struct();
            let value = image.is_valid(0).then(|| image["v"].as_primitive::<Float64Type>().value(0));
            assert_eq!(value, expected, "{op} {side}");
        }
    }
}

#[test]
fn a_transaction_s_start_is_its_id() {
    let mut decoder = decoder(&[shape(["bigint", "double"], false)]);
    let text = insert("1.5").replace(",\"cluster_id\"", ",\"start_ts\":12,\"cluster_id\"");
    let tables = take(&mut decoder, KEY, &text).unwrap();
    assert_eq!(tables[0].1["transaction"].as_struct()["id"].as_string::<i32>().value(0), "12");
}

#[test]
fn schema_blocks_are_compared() {
    let mut decoder = decoder(&[shape(["bigint", "timestamp(3)"], true)]);
    let images = r#""before":null,"after":{"id":7,"v":"2026-01-02T03:04:05.100Z"}"#;
    let key = format!(r#"{{"payload":{{"id":7}},"schema":{SCHEMA}}}"#);
    let with = |schema: &str| value("c", images, &format!(",\"schema\":{schema}"));
    assert!(take(&mut decoder, Some(&key), &with(SCHEMA)).is_some());
    assert!(take(&mut decoder, Some(&key), &with(&SCHEMA.replace('1', "2"))).is_none());
    assert!(take(&mut decoder, Some(&key), &value("c", images, "")).is_none());
    assert!(take(&mut decoder, KEY, &with(SCHEMA)).is_none());
}

#[test]
fn a_row_joins_the_first_shape_that_agrees() {
    let kinds = [["bigint", "double"], ["bigint", "null"], ["bigint", "bigint"], ["bigint", "bit(1)"]];
    let mut decoder = decoder(&kinds.map(|kinds| shape(kinds, false)));
    for (v, number) in [("1.5", 0), ("null", 0), ("1", 2), ("true", 3), ("null", 0)] {
        assert_eq!(take(&mut decoder, KEY, &insert(v)).unwrap()[0].0, number, "{v}");
    }
    for unmatched in ["-0", "1.50", "\"a\"", "18446744073709551615", "1e400", "[]", "01"] {
        assert!(take(&mut decoder, KEY, &insert(unmatched)).is_none(), "{unmatched}");
    }
}

#[test]
fn an_integer_is_no_double_where_only_values_tell() {
    let mut decoder = decoder(&[shape(["bigint", "double"], false), shape(["bigint", "bigint"], false)]);
    for (record, v) in ["1.5", "1", "2.5", "-3", "1e+21", "4"].into_iter().enumerate() {
        let record = i32::try_from(record).unwrap();
        decoder.decode(record, KEY.map(str::as_bytes), Some(insert(v).as_bytes())).unwrap();
    }
    let images = r#""before":{"id":7,"v":5},"after":{"id":7,"v":6.5}"#;
    decoder.decode(6, KEY.map(str::as_bytes), Some(value("u", images, "").as_bytes())).unwrap();
    let tables = decoder.finish().unwrap();
    assert_eq!(tables.iter().map(|(number, rows)| (*number, rows.num_rows())).collect::<Vec<_>>(), [(0, 4), (1, 3)]);
    let values = tables[0].1["after"].as_struct()["v"].as_primitive::<Float64Type>().values().to_vec();
    assert_eq!(values, [1.5, 2.5, 1e21, 6.5]);
    assert_eq!(tables[0].1["before"].as_struct()["v"].as_primitive::<Float64Type>().value(3), 5.0);
}

#[test]
fn other_records_are_odd() {
    let mut decoder = decoder(&[shape(["bigint", "double"], false)]);
    let good = insert("1.5");
    for (key, text) in [
        (None, good.clone()),
        (Some(r#"{"payload":{"id":8}}"#), good.clone()),
        (KEY, good.replace("\"op\":\"c\"", "\"op\":\"m\"")),
        (KEY, good.replace("\"cluster_id\":\"c\"", "\"cluster_id\":\"d\"")),
        (KEY, good.replace("\"pos\":0", "\"pos\":1")),
        (KEY, good.replace("\"ts_ms\":1", "\"ts_ms\":2")),
        (KEY, good.replace("\"table\":\"t\"", "\"table\":\"u\"")),
        (KEY, format!("{good}\n")),
    ] {
        assert!(take(&mut decoder, key, &text).is_none(), "{text}");
    }
    for end in 0..good.len() {
        assert!(take(&mut decoder, KEY, &good[..end]).is_none(), "cut at {end}");
    }
    assert!(take(&mut decoder, KEY, &good).is_some());
}

#[test]
fn what_the_kernel_cannot_carry_is_not_learned() {
    let mut decoder = Decoder::default();
    for described in [
        "",
        "{}",
        &shape(["bigint", "vector"], true),
        &shape(["bigint", "int"], false),
        &shape(["bigint", "double"], false).replace("\"key\":true", "\"key\":null"),
        &shape(["bigint", "double"], false).replace("\"database\":\"d\"", "\"database\":\"\""),
    ] {
        assert_eq!(decoder.register(described), None, "{described}");
    }
}
