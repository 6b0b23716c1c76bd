//! Any bytes as row events, payloads, packets and JSON of a binary log, and as rows of a SELECT: no panic, no row of an event that
//! was left, and columns that Arrow finds sound.
//!
//! In `kernel/`: `mkdir -p fuzz/corpus/binlog`, then `cargo +nightly fuzz run binlog fuzz/corpus/binlog fuzz/seeds/binlog`.

#![no_main]

use std::collections::HashMap;

use arrow_array::{Array, StructArray};
use changefeed_kernel::binlog::packets::Packets;
use changefeed_kernel::binlog::rows::Kind;
use changefeed_kernel::binlog::{Log, Stop, Types};
use changefeed_kernel::rows::Op;
use changefeed_kernel::text_rows::TextRows;
use libfuzzer_sys::fuzz_target;

const TABLE: &str = include_str!("../shapes/binlog.json");
const MAP: &[u8] = b"\x05\0\0\0\0\0map";
/// Insert, update and delete, plain and compressed.
const KINDS: [(u8, Op, bool); 6] = [
    (30, Op::Insert, false),
    (31, Op::Update, false),
    (32, Op::Delete, false),
    (169, Op::Insert, true),
    (170, Op::Update, true),
    (171, Op::Delete, true),
];

fn event(code: u8, body: &[u8], at: usize) -> Vec<u8> {
    let size = 19 + body.len();
    let (length, next) = ((size as u32).to_le_bytes(), ((at + size) as u32).to_le_bytes());
    [&[9, 0, 0, 0, code, 1, 0, 0, 0][..], &length, &next, &[0, 0], body].concat()
}

fn log() -> Log {
    let kinds = KINDS.map(|(code, op, compressed)| (code, Kind { op, version: 2, compressed }));
    let rows = KINDS.map(|(code, ..)| code).to_vec();
    let mut log =
        Log::new(Types { ignored: vec![16], gtids: vec![33], kinds: HashMap::from(kinds), rows }, 4, u64::MAX);
    assert_eq!(log.register(MAP, true, Some(TABLE)), Some(0));
    log
}

fn check(mut log: Log, left: bool) {
    let count = log.count;
    let parts = log.finish().unwrap();
    assert_eq!(parts.iter().map(|part| part.rows.num_rows()).sum::<usize>(), if left { 0 } else { count });
    for part in parts {
        StructArray::from(part.rows).to_data().validate_full().unwrap();
    }
}

fuzz_target!(|data: &[u8]| {
    for (code, ..) in KINDS {
        let mut log = log();
        let map = event(19, MAP, 4);
        let body = [&[5, 0, 0, 0, 0, 0, 1, 0, 2, 0][..], data].concat();
        log.feed(&map);
        log.feed(&event(code, &body, 4 + map.len()));
        let (stop, _) = log.run(usize::MAX);
        check(log, stop != Stop::More);
    }
    let mut log = log();
    let (stop, _) = log.payload(data, 4);
    check(log, stop != Stop::More);
    Packets::new(0).split(data);
    let mut rows = TextRows::new(3, 0);
    rows.feed(data);
    rows.run(usize::MAX, usize::MAX);
    for column in rows.finish().unwrap() {
        column.to_data().validate_full().unwrap();
    }
});
