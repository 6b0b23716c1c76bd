//! Records against registered shapes: which are decoded, and which are unmatched.

use super::*;
use crate::avro::push_bytes;
use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType, UInt64Type};

const KEY: &[u8] = b"\0\0\0\0\x07\x0e";
const NULL: &[u8] = b"\0";
const VALUE: &str = r#"{"type":"record","name":"Value","fields":[{"name":"id","type":"long"},{"name":"price","type":["null",{"type":"bytes","connect.name":"org.apache.kafka.connect.data.Decimal"}]},{"name":"at","type":[{"type":"string","connect.name":"io.debezium.time.ZonedTimestamp"},"null"]}]}"#;
const SOURCE: &str = r#"{"type":"record","name":"Source","namespace":"io.debezium","fields":[{"name":"version","type":"string"},{"name":"connector","type":"string"},{"name":"ts_ms","type":"long"},{"name":"snapshot","type":["string","null"]},{"name":"db","type":"string"},{"name":"ts_us","type":["null","long"]},{"name":"table","type":["null","string"]},{"name":"file","type":"string"},{"name":"pos","type":"long"}]}"#;
const BLOCK: &str = r#"{"type":"record","name":"block","fields":[{"name":"id","type":"string"},{"name":"total_order","type":"long"},{"name":"data_collection_order","type":["null","long"]}]}"#;

fn described(at: &str, table: &str) -> String {
    let value = format!(
        r#"{{"type":"record","name":"Envelope","namespace":"a.b","fields":[{{"name":"before","type":["null",{VALUE}]}},{{"name":"after","type":["null","Value"]}},{{"name":"source","type":{SOURCE}}},{{"name":"transaction","type":["null",{BLOCK}]}},{{"name":"op","type":"string"}},{{"name":"ts_ms","type":["null","long"]}},{{"name":"ts_ns","type":["null","long"]}}]}}"#
    );
    let key = r#"{"type":"record","name":"Key","fields":[{"name":"id","type":["null","long"]}]}"#;
    let columns = format!(
        r#"[{{"name":"id","type":"bigint","key":true}},{{"name":"price","type":"decimal(12,2)","key":false}},{{"name":"at","type":"{at}","key":false}}]"#
    );
    let wire = format!(
        r#"{{"protocol":"debezium-mysql","key":{{"avro":7,"schema":{key:?}}},"value":{{"avro":8,"schema":{value:?}}}}}"#
    );
    format!(r#"{{"database":"d","table":"{table}","columns":{columns},"wire":{wire}}}"#)
}

fn registered(shapes: &[String]) -> Decoder {
    let mut decoder = Decoder::new(vec![b"gone".to_vec(), b"1999-12-31T23:59:59Z".to_vec()], false);
    for (number, shape) in shapes.iter().enumerate() {
        assert_eq!(decoder.register(shape), Some(number), "{shape}");
    }
    decoder
}

fn string(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    push_bytes(text.as_bytes(), &mut out);
    out
}

/// An image of id 7, a price of 7209.96 or what else stands in its place, and a timestamp or NULL.
fn image(price: &[u8], at: Option<&str>) -> Vec<u8> {
    let at = at.map_or(b"\x02".to_vec(), |at| [b"\0", &*string(at)].concat());
    [b"\x02\x0e", price, &at].concat()
}

const PRICE: &[u8] = b"\x02\x06\x0b\0\x64";

/// The value with these images, of a table; `us` is the source block's `ts_us`.
fn value(before: &[u8], after: &[u8], table: &str, us: &[u8], op: &str) -> Vec<u8> {
    let texts = [string("3.6"), string("mysql"), b"\x02\0".to_vec(), string("false"), string("d")].concat();
    let place = [b"\x02", &*string(table), &string("bin.000002"), b"\x0e"].concat();
    let transaction = [b"\x02", &*string("g:1"), b"\x04\0"].concat();
    let clock = [&*string(op), b"\x02\x04\x02\x80\x92\xf4\x01"].concat(); // 2, 2000000
    [b"\0\0\0\0\x08", before, after, &texts, us, &place, &transaction, &clock].concat()
}

const US: &[u8] = b"\x02\xb8\x17"; // 1500

fn insert(at: Option<&str>) -> Vec<u8> {
    value(NULL, &image(PRICE, at), "t", US, "c")
}

fn take(decoder: &mut Decoder, key: Option<&[u8]>, value: Option<&[u8]>) -> Option<Vec<(usize, RecordBatch)>> {
    let done = decoder.decode(0, key, value, SentHeaders { headers: &[], again: false });
    let tables = decoder.finish().unwrap();
    assert_eq!(done.is_some() && value.is_some(), !tables.is_empty());
    done.map(|()| tables)
}

#[test]
fn a_row_is_read() {
    let mut decoder = registered(&[described("timestamp(3)", "t")]);
    let new = image(PRICE, Some("2026-01-02T03:04:05.100Z"));
    let tables =
        take(&mut decoder, Some(b"\0\0\0\0\x07\x02\x0e"), Some(&value(&image(NULL, None), &new, "t", US, "u")));
    let rows = &tables.unwrap()[0].1;
    assert_eq!(rows["sequence"].as_primitive::<UInt64Type>().value(0), (2 << 40) | 7);
    assert_eq!(rows["commit_time"].as_primitive::<TimestampMicrosecondType>().value(0), 1500);
    let origin =
        r#"{"version":"3.6","connector":"mysql","file":"bin.000002","pos":7,"envelope":{"ts_ms":2,"ts_ns":2000000}}"#;
    assert_eq!(rows["origin"].as_string::<i32>().value(0), origin);
    let transaction = rows["transaction"].as_struct();
    assert_eq!(transaction["id"].as_string::<i32>().value(0), "g:1");
    assert_eq!(transaction["order"].as_primitive::<Int64Type>().value(0), 2);
    assert!(transaction["table_order"].is_null(0));
    assert_eq!(rows["after"].as_struct()["price"].as_primitive::<Decimal128Type>().value(0), 720_996);
    assert!(rows["before"].as_struct()["price"].is_null(0));
}

#[test]
fn a_row_whose_time_is_milliseconds_lies_apart() {
    let mut decoder = registered(&[described("timestamp", "t")]);
    let coarse = value(NULL, &image(PRICE, None), "t", NULL, "c");
    let tables = take(&mut decoder, Some(b"\0\0\0\0\x07\x02\x0e"), Some(&coarse)).unwrap();
    assert_eq!(tables[0].1["commit_time"].as_primitive::<TimestampMillisecondType>().value(0), 1);
}

#[test]
fn a_row_joins_the_first_shape_of_its_table_that_agrees() {
    let shapes = [described("timestamp(3)", "t"), described("timestamp", "t"), described("timestamp", "u")];
    let (mut decoder, key) = (registered(&shapes), Some(&b"\0\0\0\0\x07\x02\x0e"[..]));
    for (table, at, number) in [
        ("t", Some("2026-01-02T03:04:05Z"), Some(1)),
        ("t", None, Some(0)),
        ("u", None, Some(2)),
        ("t", Some("2026-01-02T03:04:05.100Z"), Some(0)),
        ("u", Some("2026-01-02T03:04:05.100Z"), None),
        ("t", Some("2026-01-02T03:04:05.10Z"), None),
        ("t", Some("2026-02-30T03:04:05Z"), None),
        ("v", None, None),
    ] {
        let tables = take(&mut decoder, key, Some(&value(NULL, &image(PRICE, at), table, US, "c")));
        assert_eq!(tables.map(|tables| tables[0].0), number, "{table} {at:?}");
    }
}

#[test]
fn other_records_are_odd() {
    let mut decoder = registered(&[described("timestamp", "t")]);
    let (key, good) = (Some(&b"\0\0\0\0\x07\x02\x0e"[..]), insert(None));
    let row = image(PRICE, None);
    assert!(take(&mut decoder, key, Some(&good)).is_some());
    for (key, value) in [
        (None, good.clone()),
        (Some(KEY), good.clone()),
        (Some(b"\0\0\0\0\x07\x02\x10"), good.clone()),
        (Some(b"\0\0\0\0\x06\x02\x0e"), good.clone()),
        (Some(b"\0\0\0\0\x07\x02\x0e\0"), good.clone()),
        (Some(b"\x01\0\0\0\x07\x02\x0e"), good.clone()),
        (key, value(NULL, NULL, "t", US, "c")),
        (key, value(&row, &row, "t", US, "c")),
        (key, value(NULL, NULL, "t", US, "d")),
        (key, value(&row, &row, "t", US, "d")),
        (key, value(NULL, NULL, "t", US, "t")),
        (key, value(NULL, &row, "t", &[2, 0x80], "c")),
        (key, value(NULL, &image(b"\x02\x04\0\x01", None), "t", US, "c")),
        (key, value(NULL, &image(b"\x02\x06\x82\x89\xde", None), "t", US, "c")),
        (key, insert(Some("1999-12-31T23:59:59Z"))),
        (key, [&*good, b"\0"].concat()),
    ] {
        assert!(take(&mut decoder, key, Some(&value)).is_none(), "{key:?} {value:?}");
    }
    for end in 0..good.len() {
        assert!(take(&mut decoder, key, Some(&good[..end])).is_none(), "cut at {end}");
    }
}

#[test]
fn a_tombstone_says_nothing() {
    assert!(take(&mut registered(&[]), Some(KEY), None).unwrap().is_empty());
}

#[test]
fn other_schemas_behind_the_same_ids_are_the_references() {
    let (shape, key) = (described("timestamp", "t"), Some(&b"\0\0\0\0\x07\x02\x0e"[..]));
    let mut decoder = registered(std::slice::from_ref(&shape));
    assert_eq!(decoder.register(&shape.replace("a.b", "a.c")), None);
    assert!(take(&mut decoder, key, Some(&insert(None))).is_none());
    assert_eq!(decoder.register(&shape), None);
}

#[test]
fn what_the_kernel_cannot_carry_is_not_learned() {
    let (good, mut decoder) = (described("timestamp", "t"), Decoder::new(Vec::new(), false));
    for (old, new) in [
        ("\"database\"", "\"schema\""),
        ("timestamp", "datetime"),
        ("bigint", "int"),
        ("decimal(12,2)", "decimal"),
        ("\"name\":\"at\"", "\"name\":\"on\""),
        ("\\\"name\\\":\\\"op\\\"", "\\\"name\\\":\\\"operation\\\""),
        ("\\\"name\\\":\\\"pos\\\"", "\\\"name\\\":\\\"place\\\""),
        ("[\\\"null\\\",\\\"Value\\\"]", "[\\\"null\\\",\\\"Image\\\"]"),
        ("\\\"total_order\\\"", "\\\"order\\\""),
        ("\"avro\":8", "\"unwrapped\":true,\"avro\":8"),
        ("\\\"name\\\":\\\"id\\\",\\\"type\\\":[", "\\\"name\\\":\\\"no\\\",\\\"type\\\":["),
    ] {
        assert_ne!(good.replace(old, new), good, "{old}");
        assert_eq!(decoder.register(&good.replace(old, new)), None, "{old}");
    }
    assert_eq!(Decoder::new(Vec::new(), true).register(&good), None);
    assert_eq!(decoder.register(&good), Some(0));
}
