//! Records against registered shapes: which are decoded, and which are unmatched.

use super::*;
use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType, UInt64Type};

const ENVELOPE: &str = r#"["before","after","source","transaction","op","ts_ms","ts_us","ts_ns"]"#;
const MEMBERS: &str = r#"["version","connector","name","ts_ms","snapshot","db","ts_us","ts_ns","table","file","pos"]"#;
const AROUND: &str = r#""source":{"version":"3.6","connector":"mysql","name":"srv1","ts_ms":1,"snapshot":"false","db":"d","ts_us":1500,"ts_ns":1500000,"table":"t","file":"bin.000002","pos":7},"transaction":{"id":"g:1","total_order":2,"data_collection_order":null},"op":"OP","ts_ms":2,"ts_us":2500,"ts_ns":2500600"#;
const FIELDS: &str = r#"[{"type":"int64","optional":false,"field":"id"},{"type":"bytes","optional":true,"name":"org.apache.kafka.connect.data.Decimal","version":1,"parameters":{"scale":"2","connect.decimal.precision":"12"},"field":"price"},{"type":"string","optional":true,"name":"io.debezium.time.ZonedTimestamp","version":1,"field":"at"}]"#;

fn loose(kinds: [&str; 2]) -> String {
    let [id, v] = kinds;
    let columns = format!(r#"[{{"name":"id","type":"{id}","key":true}},{{"name":"v","type":"{v}","key":false}}]"#);
    let wire = format!(
        r#"{{"protocol":"debezium-mysql","key":{{"fields":["id"]}},"value":{{"envelope":{ENVELOPE},"source":{MEMBERS}}}}}"#
    );
    format!(r#"{{"database":"d","table":"t","columns":{columns},"wire":{wire}}}"#)
}

fn blocks() -> (String, String) {
    let names: Vec<String> = serde_json::from_str(MEMBERS).unwrap();
    let source: Vec<_> = names.iter().map(|n| format!(r#"{{"type":"string","field":"{n}"}}"#)).collect();
    let rest: Vec<_> = ["transaction", "op", "ts_ms", "ts_us", "ts_ns"]
        .iter()
        .map(|n| format!(r#"{{"type":"string","field":"{n}"}}"#))
        .collect();
    let image = |side: &str| format!(r#"{{"type":"struct","fields":{FIELDS},"optional":true,"field":"{side}"}}"#);
    let value = format!(
        r#"{{"type":"struct","fields":[{},{},{{"type":"struct","fields":[{}],"field":"source"}},{}]}}"#,
        image("before"),
        image("after"),
        source.join(","),
        rest.join(",")
    );
    (r#"{"type":"struct","fields":[{"type":"int64","optional":false,"field":"id"}]}"#.to_owned(), value)
}

fn described(at: &str) -> String {
    let (key, value) = blocks();
    let columns = format!(
        r#"[{{"name":"id","type":"bigint","key":true}},{{"name":"price","type":"decimal(12,2)","key":false}},{{"name":"at","type":"{at}","key":false}}]"#
    );
    let wire = format!(r#"{{"protocol":"debezium-mysql","key":{{"schema":{key}}},"value":{{"schema":{value}}}}}"#);
    format!(r#"{{"database":"d","table":"t","columns":{columns},"wire":{wire}}}"#)
}

fn decoder(shapes: &[String]) -> Decoder {
    let mut decoder = Decoder::new(vec![b"gone".to_vec()], false);
    for (number, shape) in shapes.iter().enumerate() {
        assert_eq!(decoder.register(shape), Some(number), "{shape}");
    }
    decoder
}

fn value(op: &str, before: &str, after: &str) -> String {
    format!(r#"{{"before":{before},"after":{after},{}}}"#, AROUND.replace("OP", op))
}

fn take(decoder: &mut Decoder, key: Option<&str>, value: &str) -> Option<Vec<(usize, RecordBatch)>> {
    let headers = SentHeaders { headers: &[], again: false };
    let done = decoder.decode(0, key.map(str::as_bytes), Some(value.as_bytes()), headers);
    let tables = decoder.finish().unwrap();
    assert_eq!(done.is_some(), !tables.is_empty());
    done.map(|()| tables)
}

#[test]
fn a_row_without_schema_is_read() {
    let mut decoder = decoder(&[loose(["bigint", "varchar"])]);
    let text = value("u", r#"{"id":7,"v":null}"#, r#"{"id":7,"v":"\uD83D\uDC1F"}"#);
    let tables = take(&mut decoder, Some(r#"{"id":7}"#), &text).unwrap();
    let rows = &tables[0].1;
    assert_eq!(rows["sequence"].as_primitive::<UInt64Type>().value(0), (2 << 40) | 7);
    assert_eq!(rows["commit_time"].as_primitive::<TimestampMicrosecondType>().value(0), 1500);
    let origin = r#"{"version":"3.6","connector":"mysql","name":"srv1","file":"bin.000002","pos":7,"envelope":{"ts_ns":2500600}}"#;
    assert_eq!(rows["origin"].as_string::<i32>().value(0), origin);
    let transaction = rows["transaction"].as_struct();
    assert_eq!(transaction["id"].as_string::<i32>().value(0), "g:1");
    assert!(transaction["table_order"].is_null(0));
    assert_eq!(transaction["order"].as_primitive::<Int64Type>().value(0), 2);
    assert_eq!(rows["after"].as_struct()["v"].as_string::<i32>().value(0), "🐟");
}

#[test]
fn a_row_whose_time_is_milliseconds_lies_apart() {
    let mut decoder = decoder(&[loose(["bigint", "varchar"])]);
    let fine = value("c", "null", r#"{"id":7,"v":null}"#);
    let coarse = fine.replace(r#""ts_us":1500,"ts_ns":1500000"#, r#""ts_us":null,"ts_ns":null"#);
    for text in [&fine, &coarse, &fine] {
        let headers = SentHeaders { headers: &[], again: true };
        decoder.decode(0, Some(br#"{"id":7}"#), Some(text.as_bytes()), headers).unwrap();
    }
    let tables = decoder.finish().unwrap();
    assert_eq!(tables.iter().map(|(number, rows)| (*number, rows.num_rows())).collect::<Vec<_>>(), [(0, 1), (0, 2)]);
    assert_eq!(tables[0].1["commit_time"].as_primitive::<TimestampMillisecondType>().value(0), 1);
    assert_eq!(tables[1].1["commit_time"].as_primitive::<TimestampMicrosecondType>().value(0), 1500);
}

#[test]
fn a_tail_says_the_same_whatever_came_before_it() {
    let row = value("c", "null", r#"{"id":7,"v":null}"#);
    let changes = [
        ("", ""),
        (r#""pos":7"#, r#""pos":-8"#),
        (r#""pos":7"#, r#""pos":null"#),
        (r#""file":"bin.000002""#, r#""file":"bin.16777216""#),
        (r#""file":"bin.000002""#, r#""file":null"#),
        (r#""name":"srv1""#, r#""name":"s\u0072v\"1""#),
        (r#""connector":"mysql""#, r#""connector":null"#),
        (r#""snapshot":"false""#, r#""snapshot":"last""#),
        (r#""ts_ms":1,"#, r#""ts_ms":2,"#),
        (r#""ts_ns":1500000"#, r#""ts_ns":1500001"#),
        (r#""ts_us":1500,"ts_ns":1500000"#, r#""ts_us":null,"ts_ns":null"#),
        (r#""ts_us":1500,"ts_ns":1500000"#, r#""ts_us":null,"ts_ns":7"#),
        (r#""ts_ns":2500600"#, r#""ts_ns":null"#),
        (r#""ts_us":2500"#, r#""ts_us":2501"#),
        (r#"{"id":"g:1","total_order":2,"data_collection_order":null}"#, "null"),
        (r#""id":"g:1""#, r#""id":"g\n1""#),
    ];
    let rows: Vec<_> = changes.iter().map(|(from, to)| row.replacen(from, to, 1)).collect();
    let shapes = [loose(["bigint", "varchar"])];
    for first in &rows {
        for second in &rows {
            let mut both = decoder(&shapes);
            assert!(take(&mut both, Some(r#"{"id":7}"#), first).is_some(), "{first}");
            let alone = take(&mut decoder(&shapes), Some(r#"{"id":7}"#), second);
            assert_eq!(take(&mut both, Some(r#"{"id":7}"#), second), alone, "{second} behind {first}");
        }
    }
    let mut all = decoder(&shapes);
    for row in rows.iter().chain(&rows) {
        let alone = take(&mut decoder(&shapes), Some(r#"{"id":7}"#), row);
        assert_eq!(take(&mut all, Some(r#"{"id":7}"#), row), alone, "{row} behind {} others", rows.len());
    }
    for unmatched in [r#""pos":07"#, r#""pos":"7""#, r#""pos":7.0"#, r#""pos": 7"#, r#""pos":9223372036854775808"#] {
        let mut decoder = decoder(&shapes);
        assert!(take(&mut decoder, Some(r#"{"id":7}"#), &row).is_some());
        assert!(
            take(&mut decoder, Some(r#"{"id":7}"#), &row.replace(r#""pos":7"#, unmatched)).is_none(),
            "{unmatched}"
        );
        assert!(take(&mut decoder, Some(r#"{"id":7}"#), &row).is_some());
    }
}

#[test]
fn tables_take_turns() {
    let named = |name: &str, text: &str| text.replace("\"table\":\"t\"", &format!("\"table\":\"{name}\""));
    let (long, quoted) = ("u".repeat(2 * route::EARLIER), r#"\"source\":{"#);
    let tables = ["t", &long, quoted];
    let shapes = tables.map(|name| named(name, &loose(["bigint", "varchar"])));
    let mut all = decoder(&shapes);
    let text = value("c", "null", r#"{"id":7,"v":"\"source\":{"}"#);
    for at in [0, 1, 0, 2, 2, 1, 1, 2, 0] {
        let text = named(tables[at], &text);
        assert_eq!(all.table(Some(text.as_bytes())), at, "{}", tables[at]);
        let alone = take(&mut decoder(&shapes[at..=at]), Some(r#"{"id":7}"#), &text).unwrap();
        let [(number, rows)] = take(&mut all, Some(r#"{"id":7}"#), &text).unwrap().try_into().unwrap();
        assert_eq!((number, &rows["origin"]), (at, &alone[0].1["origin"]), "{}", tables[at]);
        assert!(take(&mut all, Some(r#"{"id":7}"#), &named("v", &text.replace(tables[at], "t"))).is_none());
    }
    assert_eq!(
        [None, Some(named("v", &text)), Some("[]".to_owned())].map(|v| all.table(v.as_deref().map(str::as_bytes))),
        [3; 3]
    );
}

#[test]
fn tables_have_long_and_short_runs() {
    let named = |at: usize, text: &str| text.replace("\"table\":\"t\"", &format!("\"table\":\"t{at}\""));
    let shapes = [0, 1, 2].map(|at| named(at, &loose(["bigint", "varchar"])));
    let mut all = decoder(&shapes);
    let row = value("c", "null", r#"{"id":7,"v":"a"}"#);
    for (at, run) in [(0, 9), (1, 1), (0, 1), (2, 9), (1, 9), (3, 9), (1, 2), (0, 9), (3, 1), (0, 1)] {
        for row_of_run in 0..run {
            all.turn_to([0, at, 7][(row_of_run + run) % 3]); // whatever the numbers say, also wrong ones
            let tables = take(&mut all, Some(r#"{"id":7}"#), &named(at, &row));
            assert_eq!(tables.map(|tables| tables[0].0), (at < 3).then_some(at), "{run} of t{at}");
        }
    }
}

#[test]
fn a_single_table_is_read_between_records_of_others() {
    let mut decoder = decoder(&[loose(["bigint", "varchar"])]);
    let row = value("c", "null", r#"{"id":7,"v":"a"}"#);
    let other = row.replace("\"table\":\"t\"", "\"table\":\"u\"");
    for text in [&other, &row, &row, &other, &other, &row] {
        assert_eq!(take(&mut decoder, Some(r#"{"id":7}"#), text).is_some(), text == &row, "{text}");
    }
}

#[test]
fn a_row_with_schema_is_read() {
    let mut decoder = decoder(&[described("timestamp(3)"), described("timestamp")]);
    let (key, block) = blocks();
    let row = |at: &str| value("c", "null", &format!(r#"{{"id":7,"price":"CwBk","at":{at}}}"#));
    let wrapped = |payload: &str| format!(r#"{{"schema":{block},"payload":{payload}}}"#);
    let key = format!(r#"{{"schema":{key},"payload":{{"id":7}}}}"#);
    for (at, number) in [(r#""2026-01-02T03:04:05.100Z""#, 0), (r#""2026-01-02T03:04:05Z""#, 1), ("null", 0)] {
        let tables = take(&mut decoder, Some(&key), &wrapped(&row(at))).unwrap();
        assert_eq!(tables[0].0, number, "{at}");
        let price = &tables[0].1["after"].as_struct()["price"];
        assert_eq!(price.as_primitive::<Decimal128Type>().value(0), 720_996);
    }
    for at in [r#""2026-01-02T03:04:05.10Z""#, r#""2026-02-30T03:04:05Z""#, "1"] {
        assert!(take(&mut decoder, Some(&key), &wrapped(&row(at))).is_none(), "{at}");
    }
    let other = wrapped(&row("null")).replace("\"optional\":false", "\"optional\":true");
    assert!(take(&mut decoder, Some(&key), &other).is_none());
}

#[test]
fn a_row_joins_the_first_shape_that_agrees() {
    let mut decoder = decoder(&[loose(["bigint", "double"]), loose(["bigint", "null"]), loose(["bigint", "varchar"])]);
    for (v, number) in [("1.5", 0), ("null", 0), ("\"a\"", 2), ("null", 0)] {
        let text = value("c", "null", &format!(r#"{{"id":7,"v":{v}}}"#));
        assert_eq!(take(&mut decoder, Some(r#"{"id":7}"#), &text).unwrap()[0].0, number, "{v}");
    }
    for unmatched in ["1", "true", "1.50", "{}", "\"gone\"", "\"\\u0067one\"", "nul"] {
        let text = value("c", "null", &format!(r#"{{"id":7,"v":{unmatched}}}"#));
        assert!(take(&mut decoder, Some(r#"{"id":7}"#), &text).is_none(), "{unmatched}");
    }
}

#[test]
fn shapes_and_units_of_time_may_take_turns() {
    let shapes = [loose(["bigint", "null"]), loose(["bigint", "varchar"]), loose(["bigint", "double"])];
    let fine = |v: &str| value("u", r#"{"id":7,"v":null}"#, &format!(r#"{{"id":7,"v":{v}}}"#));
    let coarse = |v: &str| fine(v).replace(r#""ts_us":1500,"ts_ns":1500000"#, r#""ts_us":null,"ts_ns":null"#);
    let rows: Vec<_> =
        ["null", "\"a\"", "2.5", "\"\\u00e9\"", "true", "\"gone\""].iter().flat_map(|v| [fine(v), coarse(v)]).collect();
    let (mut together, mut alone) = (decoder(&shapes), Vec::new());
    let headers = SentHeaders { headers: &[], again: true };
    let mut state = 7usize;
    for record in 0..500 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let text = rows[(state >> 33) % if record % 100 < 50 { rows.len() } else { 3 }].as_bytes();
        let mut fresh = decoder(&shapes);
        let done = fresh.decode(record, Some(br#"{"id":7}"#), Some(text), headers);
        assert_eq!(together.decode(record, Some(br#"{"id":7}"#), Some(text), headers), done);
        alone.extend(fresh.finish().unwrap());
    }
    let mut decoded = 0;
    for (number, rows) in together.finish().unwrap() {
        let same = alone.iter().filter(|(of, one)| *of == number && one.schema() == rows.schema());
        assert_eq!(concat(same.map(|(_, one)| one)), concat([&rows].into_iter()));
        decoded += rows.num_rows();
    }
    assert_eq!(decoded, alone.len());
}

/// All values of rows, one line a row.
fn concat<'a>(batches: impl Iterator<Item = &'a RecordBatch>) -> Vec<String> {
    let lines = batches.flat_map(|rows| (0..rows.num_rows()).map(|row| format!("{:?}", rows.slice(row, 1))));
    lines.collect()
}

#[test]
fn other_records_are_odd() {
    let mut decoder = decoder(&[loose(["bigint", "varchar"])]);
    let (key, image) = (Some(r#"{"id":7}"#), r#"{"id":7,"v":"a"}"#);
    let good = value("c", "null", image);
    assert!(take(&mut decoder, key, &good).is_some());
    for (key, text) in [
        (None, good.clone()),
        (Some(r#"{"id":8}"#), good.clone()),
        (Some(r#"{"id":7} "#), good.clone()),
        (key, value("t", "null", "null")),
        (key, value("d", "null", "null")),
        (key, value("d", image, image)),
        (key, value("c", image, image)),
        (key, value("c", "null", r#"{"v":"a","id":7}"#)),
        (key, good.replace("\"mysql\"", "\"other\"")),
        (key, good.replace("\"db\":\"d\"", "\"db\":\"e\"")),
        (key, good.replace("\"ts_ns\":1500000", "\"ts_ns\":null")),
        (key, good.replace("\"pos\":7", "\"pos\":07")),
        (key, format!("{good} ")),
    ] {
        assert!(take(&mut decoder, key, &text).is_none(), "{text}");
    }
    for end in 0..good.len() {
        assert!(take(&mut decoder, key, &good[..end]).is_none(), "cut at {end}");
    }
}

#[test]
fn a_tombstone_says_nothing() {
    let mut decoder = decoder(&[]);
    assert_eq!(decoder.decode(0, Some(b"{}"), None, SentHeaders { headers: &[], again: false }), Some(()));
    assert!(decoder.finish().unwrap().is_empty());
}

#[test]
fn what_the_kernel_cannot_carry_is_not_learned() {
    let mut decoder = Decoder::new(Vec::new(), false);
    for described in [
        "",
        "{}",
        &loose(["bigint", "json"]),
        &loose(["bigint", "varchar"]).replace("\"op\",", ""),
        &loose(["bigint", "varchar"]).replace("\"pos\"", "\"place\""),
        &loose(["bigint", "varchar"]).replace("[\"id\"]", "[\"other\"]"),
        &described("date"),
        &described("timestamp").replace("\"type\":\"int64\"", "\"type\":\"map\""),
    ] {
        assert_eq!(decoder.register(described), None, "{described}");
    }
}
