//! Any bytes as a record, and as the two JSON texts of a message: no panic, no row of an unmatched record, one row a message.
//!
//! In `kernel/`: `mkdir -p fuzz/corpus/ticdc_open`, then
//! `cargo +nightly fuzz run ticdc_open fuzz/corpus/ticdc_open fuzz/seeds/ticdc_open`.

#![no_main]

use std::cell::RefCell;

use changefeed_kernel::rows::Op;
use changefeed_kernel::ticdc_open::Decoder;
use libfuzzer_sys::fuzz_target;

const SHAPES: [&str; 3] = [
    include_str!("../shapes/all_types.json"),
    include_str!("../shapes/datetime_0.json"),
    include_str!("../shapes/datetime_3.json"),
];

fn framed(json: &[u8]) -> Vec<u8> {
    [&(json.len() as i64).to_be_bytes()[..], json].concat()
}

fn check(decoder: &mut Decoder, key: &[u8], value: &[u8], messages: usize) {
    let done = decoder.decode(0, key, value);
    let rows: usize = decoder.finish().unwrap().iter().map(|(_, batch)| batch.num_rows()).sum();
    match done {
        Some(()) => assert!(rows >= messages),
        None => assert_eq!(rows, 0),
    }
}

fn registered() -> Decoder {
    let mut decoder = Decoder::new(Op::Insert, Some(0));
    for shape in SHAPES {
        decoder.register(shape).unwrap();
    }
    decoder
}

thread_local! {
    static DECODER: RefCell<Decoder> = RefCell::new(registered());
}

fuzz_target!(|data: &[u8]| DECODER.with_borrow_mut(|decoder| records(decoder, data)));

fn records(decoder: &mut Decoder, data: &[u8]) {
    // The first two bytes split the rest into key and value.
    let Some((head, rest)) = data.split_first_chunk::<2>() else { return };
    let (key, value) = rest.split_at((u16::from_be_bytes(*head) as usize).min(rest.len()));
    check(decoder, key, value, 1);
    let version = 1i64.to_be_bytes();
    check(decoder, &[&version[..], &framed(key)].concat(), &framed(value), 1);
    let twice = [framed(value), framed(value)].concat();
    check(decoder, &[&version[..], &framed(key), &framed(key)].concat(), &twice, 2);
}
