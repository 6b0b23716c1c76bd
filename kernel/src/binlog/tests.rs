//! Events as a server writes them, and damaged ones.

use std::collections::HashMap;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int32Type, TimestampMicrosecondType};
use arrow_array::{Array, RecordBatch, StructArray};

use super::frames::Header;
use super::packets::{Next, Packets};
use super::{Kind, Log, Part, Stop, Types};
use crate::rows::Op;

const MAP: u8 = 19;
const INSERT: u8 = 30;
const UPDATE: u8 = 31;
const XID: u8 = 16;
const TABLE: &str = r#"[{"name":"id","mysql":"int","code":3,"metadata":0,"unsigned":false},
    {"name":"v","mysql":"varchar(10)","code":15,"metadata":40,"text":"utf8"},
    {"name":"d","mysql":"datetime(3)","code":18,"metadata":3},
    {"name":"m","mysql":"decimal(5,2)","code":246,"metadata":1282},
    {"name":"e","mysql":"enum('a','b')","code":247,"metadata":1,"members":["a","b"]}]"#;
/// 7, "ä", 2026-01-02 03:04:05.120, -1.50, b
const ROW: &[u8] = &[0, 7, 0, 0, 0, 2, 0xc3, 0xa4, 0x99, 0xb8, 0xc4, 0x31, 0x05, 0x04, 0xb0, 0x7f, 0xfe, 0xcd, 2];
const NULLS: &[u8] = &[0b1_1110, 8, 0, 0, 0];

fn event(code: u8, body: &[u8], at: usize) -> Vec<u8> {
    let size = 19 + body.len();
    let (length, next) = ((size as u32).to_le_bytes(), ((at + size) as u32).to_le_bytes());
    [&[9, 0, 0, 0, code, 1, 0, 0, 0][..], &length, &next, &[0, 0], body].concat()
}

/// The body of a row event of table 5, with the statement's end.
fn rows(bitmaps: &[u8], images: &[&[u8]]) -> Vec<u8> {
    [&[5, 0, 0, 0, 0, 0, 1, 0, 2, 0, 5][..], bitmaps, &images.concat()].concat()
}

fn log() -> Log {
    let kind = |op| Kind { op, version: 2, compressed: false };
    let kinds = HashMap::from([(INSERT, kind(Op::Insert)), (UPDATE, kind(Op::Update))]);
    let mut log =
        Log::new(Types { ignored: vec![XID], gtids: vec![33], kinds, rows: vec![INSERT, UPDATE] }, 4, u64::MAX);
    assert_eq!(log.register(b"\x05\0\0\0\0\0map", true, Some(TABLE)), Some(0));
    log
}

/// What `run` returns for events that follow each other.
fn run(log: &mut Log, events: &[(u8, &[u8])]) -> (Stop, Vec<u8>) {
    let mut at = 4;
    for (code, body) in events {
        let bytes = event(*code, body, at);
        at += bytes.len();
        log.feed(&bytes);
    }
    log.run(usize::MAX)
}

fn only(log: &mut Log) -> Part {
    let mut parts = log.finish().unwrap();
    assert_eq!(parts.len(), 1);
    parts.pop().unwrap()
}

fn image(batch: &RecordBatch, name: &str) -> StructArray {
    batch[name].as_struct().clone()
}

const OF_TABLE: &[u8] = b"\x05\0\0\0\0\0map";

#[test]
fn rows_become_columns() {
    let mut log = log();
    let body = rows(&[0x1f], &[ROW, NULLS]);
    let (stop, _) = run(&mut log, &[(MAP, OF_TABLE), (INSERT, &body), (XID, b"12345678")]);
    assert_eq!((stop, log.count, log.open_rows, log.at), (Stop::More, 2, 2, 4 + 28 + 19 + body.len() as u64 + 27));
    let part = only(&mut log);
    assert_eq!((part.table, part.carried, part.times), (0, [None, None], vec![9, 9]));
    let after = image(&part.rows, "after");
    assert_eq!(after.column(0).as_primitive::<Int32Type>().values(), &[7, 8]);
    assert_eq!(after.column(1).as_string::<i32>().iter().collect::<Vec<_>>(), [Some("ä"), None]);
    assert_eq!(after.column(2).as_primitive::<TimestampMicrosecondType>().value(0), 1_767_323_045_120_000);
    assert_eq!(after.column(3).as_primitive::<Decimal128Type>().value(0), -150);
    assert_eq!(after.column(4).as_string::<i32>().value(0), "b");
    assert_eq!(image(&part.rows, "before").null_count(), 2);
}

#[test]
fn a_row_event_that_ends_early_leaves_no_rows() {
    let whole = rows(&[0x1f], &[ROW, ROW]);
    let first = rows(&[0x1f], &[ROW]).len();
    for end in 11..whole.len() {
        let mut log = log();
        let (stop, left) = run(&mut log, &[(MAP, OF_TABLE), (INSERT, &whole[..end])]);
        if end == first || end == 12 {
            assert_eq!(stop, Stop::More, "{end}");
            continue;
        }
        assert_eq!((stop, log.count, left.len()), (Stop::Event, 0, 19 + end), "{end}");
        assert!(log.finish().unwrap().is_empty());
    }
}

#[test]
fn images_carry_some_of_the_columns() {
    let mut log = log();
    let body = rows(&[0x01, 0x12], &[&[0, 7, 0, 0, 0], &[0, 1, b'x', 1]]);
    assert_eq!(run(&mut log, &[(MAP, OF_TABLE), (UPDATE, &body)]).0, Stop::More);
    let part = only(&mut log);
    assert_eq!(part.carried, [Some(vec![0]), Some(vec![1, 4])]);
    assert_eq!(image(&part.rows, "before").column_names(), ["id"]);
    assert_eq!(image(&part.rows, "after").column_names(), ["v", "e"]);
}

#[test]
fn values_that_a_column_cannot_hold_are_kept_beside_it() {
    let mut log = log();
    let zero: &[u8] = &[0, 7, 0, 0, 0, 1, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0x80, 0, 0, 1];
    assert_eq!(run(&mut log, &[(MAP, OF_TABLE), (INSERT, &rows(&[0x1f], &[ROW, zero]))]).0, Stop::More);
    let part = only(&mut log);
    let kept: Vec<_> = part.irregular.iter().map(|value| (value.row, value.column, value.text.as_slice())).collect();
    assert_eq!(kept, [(1, 1, &b"\xff"[..]), (1, 2, b"0000-00-00 00:00:00.000")]);
    assert_eq!(image(&part.rows, "after").column(2).null_count(), 1);
}

#[test]
fn the_reference_reads_what_is_left() {
    let mut log = log();
    let (stop, map) = run(&mut log, &[(MAP, b"\x06\0\0\0\0\0other")]);
    assert_eq!((stop, &map[19..]), (Stop::Map, &b"\x06\0\0\0\0\0other"[..]));
    assert_eq!(log.register(b"\x06\0\0\0\0\0other", false, None), None);
    assert_eq!(log.run(9).0, Stop::More);
    log.feed(&event(INSERT, b"\x06\0\0\0\0\0 of a table that is not captured", 47));
    log.feed(&event(2, b"DROP TABLE t", 100));
    let (stop, query) = log.run(9);
    assert_eq!((stop, query[4]), (Stop::Event, 2));
    log.resume(131, 3);
    assert_eq!((log.run(9).0, log.at, log.open_rows), (Stop::More, 131, 3));
}

#[test]
fn a_payload_is_read_completely_or_not_at_all() {
    let mut log = log();
    let map = event(MAP, OF_TABLE, 0);
    let inserted = event(INSERT, &rows(&[0x1f], &[ROW]), 0);
    let odd = event(2, b"DROP TABLE t", 0);
    assert_eq!(log.payload(&[&map[..], &inserted, &odd].concat(), 77).0, Stop::Event);
    assert_eq!((log.count, log.take_records()), (0, vec![]));
    assert_eq!(log.payload(&[&map[..], &inserted, &map, &inserted].concat(), 77).0, Stop::More);
    assert_eq!((log.count, log.take_records()), (2, vec![77]));
    let part = only(&mut log);
    assert_eq!(part.rows["index"].as_primitive::<Int32Type>().values(), &[0, 1]);
    assert_eq!(part.rows["record"].as_primitive::<Int32Type>().values(), &[0, 0]);
}

#[test]
fn nothing_behind_the_end_is_read() {
    let mut log = Log::new(Types { ignored: vec![XID], gtids: vec![], kinds: HashMap::new(), rows: vec![] }, 4, 31);
    assert_eq!(run(&mut log, &[(XID, b"12345678"), (XID, b"12345678")]).0, Stop::End);
    assert_eq!(log.at, 31);
}

#[test]
fn an_event_without_a_position_follows_the_one_before_unless_it_is_of_the_connection() {
    let unplaced = |code| {
        let mut bytes = event(code, b"12", 4);
        bytes[13..17].fill(0);
        Header::read(&bytes).unwrap().place(7 << 40 | 4)
    };
    assert_eq!(unplaced(MAP), Some((7 << 40 | 4, 7 << 40 | 25)));
    assert_eq!(unplaced(15), None);
    assert_eq!(Header::read(&event(27, b"binlog.000001", 1082)).unwrap().place(7 << 40 | 1118), None);
    assert_eq!(Header::read(&event(MAP, b"12", 100)).unwrap().place(7 << 40 | 4), Some((7 << 40 | 100, 7 << 40 | 121)));
}

#[test]
fn packets_are_split_wherever_they_are_cut() {
    let (one, other) = (event(XID, b"12345678", 4), event(XID, b"abc", 31));
    let packet = |number: u8, event: &[u8]| [&[1 + event.len() as u8, 0, 0, number, 0][..], event].concat();
    let end = [&[5, 0, 0, 0, 0xfe][..], &[0; 4]].concat();
    let sent = [packet(254, &one), packet(255, &other), end].concat();
    for cut in 0..sent.len() {
        let mut packets = Packets::new(254);
        let (first, next) = packets.split(&sent[..cut]);
        assert_eq!(next, Next::More);
        let (second, next) = packets.split(&sent[cut..]);
        assert_eq!([first, second].concat(), [&one[..], &other].concat());
        assert_eq!(next, Next::Other(vec![0xfe, 0, 0, 0, 0]));
    }
    assert_eq!(Packets::new(7).split(&sent).1, Next::Unexpected);
}

#[test]
fn a_payload_of_the_longest_packet_goes_on_in_the_next() {
    let body = vec![b'x'; 0xff_ffff + 10 - 20];
    let long = event(XID, &body, 4);
    let (first, second) = long.split_at(0xff_fffe);
    let sent = [&[0xff, 0xff, 0xff, 0, 0][..], first, &[second.len() as u8, 0, 0, 1], second].concat();
    assert_eq!(Packets::new(0).split(&sent), (long, Next::More));
}
