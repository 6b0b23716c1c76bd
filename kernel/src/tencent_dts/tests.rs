//! Groups as the service writes them, and damaged ones.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, RecordBatch};

use super::{Decoder, Header, Members, Odd, Plain, Stop};

const SHAPE: &str = r#"{"database":"shop","table":"t","columns":[{"name":"id","type":"int(11)","key":true},
    {"name":"v","type":"text","key":false}],"wire":{"tencent-dts":{}}}"#;
const COLUMNS: &[u8] = b"\x12\x0f\x0a\x02id\x12\x07int(11)\x18\x01\x12\x09\x0a\x01v\x12\x04text";
const ONE: &[u8] = b"\x12\x05\x08\x03\x1a\x011";
const TEXT: &[u8] = b"\x12\x0d\x08\x0d\x12\x04utf8\x22\x03tmp";
const LATIN1: &[u8] = b"\x12\x0f\x08\x0d\x12\x06latin1\x22\x03tmp";
const NULL: &[u8] = b"\x12\0";
const MEMBERS: Members<'_> = Members { all: b",\"ps\":5", first: b",\"envelopes\":{\"total\":2}" };

/// A field of bytes.
fn field(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let bytes = parts.concat();
    let (low, high) = ((bytes.len() & 0x7f) as u8, (bytes.len() >> 7) as u8);
    let length = if high == 0 { vec![low] } else { vec![low | 0x80, high] };
    [&[tag][..], &length, &bytes].concat()
}

/// An entry of shop.t with the timestamp 300 and the seqId 9; `kind` is the messageType's field.
fn entry(kind: &[u8], event: &[u8]) -> Vec<u8> {
    let header = field(0x0a, &[b"\x10\x01", kind, b"\x20\xac\x02\x42\x03u:6\x4a\x04shop\x52\x01t\x58\x09\x68\x01"]);
    field(0x0a, &[&header, &field(0x12, &[event])])
}

/// An entry that inserts rows, each of these Data.
fn rows(rows: &[&[&[u8]]]) -> Vec<u8> {
    let changes: Vec<_> = rows.iter().map(|data| field(0x1a, data)).collect();
    let changes: Vec<_> = changes.iter().map(Vec::as_slice).collect();
    entry(b"\x18\x02", &field(0x12, &[&[COLUMNS][..], &changes].concat()))
}

fn begin() -> Vec<u8> {
    entry(b"", b"\x0a\x02\x10\x07")
}

fn registered() -> Decoder {
    let mut decoder = Decoder::new(true);
    assert_eq!(decoder.register(SHAPE), Some(0));
    decoder
}

/// The rows of the first shape, and the marks.
fn decoded(decoder: &mut Decoder, data: &[u8]) -> Result<(Option<RecordBatch>, RecordBatch), Odd> {
    let done = decoder.decode(3, data, MEMBERS, &[]);
    let (tables, marks) = decoder.finish().unwrap();
    assert!(done.is_ok() || (tables.is_empty() && marks.num_rows() == 0), "an unmatched group left events behind");
    done.map(|()| (tables.into_iter().map(|(_, rows)| rows).next(), marks))
}

fn texts<'a>(batch: &'a RecordBatch, name: &str) -> Vec<Option<&'a str>> {
    batch[name].as_string::<i32>().iter().collect()
}

fn indexes(batch: &RecordBatch) -> Vec<Option<i32>> {
    batch["index"].as_primitive::<Int32Type>().iter().collect()
}

#[test]
fn rows_and_marks_have_their_places_in_the_group() {
    let data = [begin(), rows(&[&[ONE, TEXT], &[ONE, NULL]]), entry(b"\x18\x01", b"\x1a\0")].concat();
    let (tables, marks) = decoded(&mut registered(), &data).unwrap();
    let tables = tables.unwrap();
    assert_eq!((indexes(&tables), indexes(&marks)), (vec![Some(1), Some(2)], vec![Some(0), Some(3)]));
    assert_eq!(texts(&marks, "id"), [Some("u:6"); 2]);
    let origin = r#"{"sourceType":1,"gtid":"u:6","seqId":9"#;
    let named = format!(r#"{origin},"schemaName":"shop","tableName":"t""#);
    assert_eq!(
        [texts(&marks, "origin"), texts(&tables, "origin")].concat().into_iter().flatten().collect::<Vec<_>>(),
        [
            format!(r#"{named},"threadId":7,"ps":5,"envelopes":{{"total":2}}}}"#),
            format!(r#"{named},"ps":5}}"#),
            format!(r#"{origin},"row":0,"ps":5}}"#),
            format!(r#"{origin},"row":1,"ps":5}}"#),
        ]
    );
    let after = tables["after"].as_struct();
    assert_eq!(after["v"].as_string::<i32>().iter().collect::<Vec<_>>(), [Some("tmp"), None]);
    assert_eq!(tables["transaction"].as_struct()["order"].as_primitive::<Int64Type>().null_count(), 2);
}

#[test]
fn an_event_that_is_alone_has_no_index() {
    let mut decoder = registered();
    let (tables, marks) = decoded(&mut decoder, &rows(&[&[ONE, TEXT]])).unwrap();
    assert_eq!((indexes(&tables.unwrap()), marks.num_rows()), (vec![None], 0));
    let (tables, marks) = decoded(&mut decoder, &begin()).unwrap();
    assert_eq!((tables.is_none(), indexes(&marks)), (true, vec![None]));
}

#[test]
fn an_odd_group_leaves_those_before_it_alone() {
    let mut decoder = registered();
    let good = rows(&[&[ONE, TEXT]]);
    let heartbeat = entry(b"\x18\x05", b"\x32\x02\x08\x01");
    decoder.decode(0, &good, MEMBERS, &[]).unwrap();
    let unknown = rows(&[&[ONE, TEXT], &[ONE, LATIN1]]);
    let known = [begin(), good.clone()].concat();
    let data = [&known[..], &unknown].concat();
    let stop = Stop { start: known.len() + 2, end: data.len(), index: 2 };
    assert_eq!(decoder.decode(1, &data, MEMBERS, &[]), Err(Odd::Entry(stop)));
    assert!(matches!(decoder.decode(2, &[good.clone(), heartbeat].concat(), MEMBERS, &[]), Err(Odd::Entry(_))));
    decoder.decode(3, &good, MEMBERS, &[]).unwrap();
    let (tables, marks) = decoder.finish().unwrap();
    assert_eq!((tables.len(), tables[0].1.num_rows(), marks.num_rows()), (1, 2, 0));
}

#[test]
fn entries_that_are_read_elsewhere_have_their_indexes() {
    let (mut decoder, unknown) = (registered(), rows(&[&[ONE, LATIN1], &[ONE, LATIN1]]));
    let data = [&begin()[..], &unknown, &rows(&[&[ONE, TEXT]]), &unknown].concat();
    let mut skips = Vec::new();
    for index in [1, 4] {
        let Err(Odd::Entry(stop)) = decoder.decode(0, &data, MEMBERS, &skips) else { panic!("two are unknown") };
        assert_eq!(stop.index, index);
        skips.push((stop.start, 2));
    }
    decoder.decode(0, &data, MEMBERS, &skips).unwrap();
    let (tables, marks) = decoder.finish().unwrap();
    assert_eq!((indexes(&tables[0].1), indexes(&marks)), (vec![Some(3)], vec![Some(0)]));
}

#[test]
fn an_entry_is_not_read_elsewhere_if_the_group_has_more_than_entries() {
    let unknown = rows(&[&[ONE, LATIN1]]);
    for rest in [&b"\x10\x01"[..], b"\x0a\x05", b"\x0a"] {
        let data = [&begin()[..], &unknown, rest].concat();
        assert_eq!(registered().decode(0, &data, MEMBERS, &[]), Err(Odd::Other));
    }
}

#[test]
fn a_group_cut_anywhere_is_odd() {
    let (mut decoder, data) = (registered(), rows(&[&[ONE, TEXT], &[ONE, NULL]]));
    for end in 0..data.len() {
        assert!(decoded(&mut decoder, &data[..end]).is_err(), "{end}");
    }
    assert!(decoded(&mut decoder, &[&data[..], b"\0"].concat()).is_err());
}

#[test]
fn a_row_belongs_to_the_first_shape_in_whose_manner_it_is_sent() {
    let mut decoder = registered();
    let latin1 = SHAPE.replace("{}", r#"{"v":{"charset":"latin1"}}"#);
    assert_eq!(decoder.register(&latin1), Some(1));
    decoder.decode(0, &rows(&[&[ONE, LATIN1], &[ONE, NULL], &[ONE, TEXT]]), MEMBERS, &[]).unwrap();
    let (tables, _) = decoder.finish().unwrap();
    assert_eq!(
        tables.iter().map(|(shape, rows)| (*shape, indexes(rows))).collect::<Vec<_>>(),
        [(0, vec![Some(1), Some(2)]), (1, vec![Some(0)])]
    );
}

#[test]
fn behind_a_shape_that_is_beyond_the_kernel_a_family_learns_no_more() {
    let mut decoder = registered();
    assert_eq!(decoder.register(&SHAPE.replace("{}", r#"{"v":{"charset":"utf16"}}"#)), None);
    assert_eq!(decoder.register(&SHAPE.replace("{}", r#"{"v":{"charset":"latin1"}}"#)), None);
    assert!(decoded(&mut decoder, &rows(&[&[ONE, LATIN1]])).is_err());
    assert!(decoded(&mut decoder, &rows(&[&[ONE, TEXT], &[ONE, NULL]])).is_ok());
}

#[test]
fn plain_records_hold_a_group_and_count() {
    let read = |value: &'static [u8], headers: &[Header<'static>]| Plain::read(None, Some(value), headers);
    let ps = |digits: &'static [u8]| (&b"ps"[..], Some(digits));
    let value = b"\x08\x01\x10\x01\x22\x02ab";
    let tables = read(value, &[ps(b"41"), (b"ShardId", Some(b"s1"))]).unwrap();
    assert_eq!((tables.data, tables.ps, tables.shard), (&b"ab"[..], 41, Some(&b"s1"[..])));
    assert!(tables.precedes(&Plain { ps: 42, ..tables }) && !tables.precedes(&Plain { shard: None, ps: 42, ..tables }));
    for (value, headers) in [
        (&b"\x08\x01\x10\x01\x22\0"[..], vec![ps(b"41")]),
        (b"\x08\x01\x10\x02\x22\x02ab", vec![ps(b"41")]),
        (b"\x08\x01\x10\x01\x22\x02abc", vec![ps(b"41")]),
        (value, vec![ps(b"041")]),
        (value, vec![ps(b"-1")]),
        (value, vec![ps(b"4x")]),
        (value, vec![]),
        (value, vec![(b"ps", None)]),
        (value, vec![ps(b"41"), (b"ShardId", Some(b"\""))]),
        (value, vec![(b"ShardId", Some(b"s1")), ps(b"41")]),
    ] {
        assert_eq!(read(value, &headers), None, "{value:x?} {headers:?}");
    }
    assert_eq!(Plain::read(Some(b""), Some(value), &[ps(b"41")]), None);
}

#[test]
fn tables_with_the_same_columns_share_a_batch() {
    let mut decoder = registered();
    assert_eq!(decoder.register(&SHAPE.replace("\"table\":\"t\"", "\"table\":\"u\"")), Some(1));
    let first = rows(&[&[ONE, TEXT]]);
    let mut second = rows(&[&[ONE, NULL]]);
    let name = second.windows(3).position(|bytes| bytes == b"R\x01t").unwrap();
    second[name + 2] = b'u';
    let heartbeat = entry(b"\x18\x05", b"\x32\x02\x08\x01");
    let both = [&first[..], &second].concat();
    decoder.decode(0, &both, MEMBERS, &[]).unwrap();
    assert!(decoder.decode(1, &[&both[..], &heartbeat].concat(), MEMBERS, &[]).is_err());
    decoder.decode(2, &first, MEMBERS, &[]).unwrap();
    let (tables, _) = decoder.finish().unwrap();
    let [(0, batch)] = tables.as_slice() else { panic!("{tables:?}") };
    let numbers = |name: &str| batch[name].as_primitive::<Int32Type>().values().to_vec();
    assert_eq!((numbers("shape"), numbers("record")), (vec![0, 1, 0], vec![0, 0, 2]));
    assert_eq!(indexes(batch), [Some(0), Some(1), None]);
}
