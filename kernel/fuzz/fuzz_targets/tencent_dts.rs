//! Any bytes as the data of a group: no panic, no event of an unmatched group, and columns that Arrow finds sound.
//!
//! In `kernel/`: `mkdir -p fuzz/corpus/tencent_dts`, then
//! `cargo +nightly fuzz run tencent_dts fuzz/corpus/tencent_dts fuzz/seeds/tencent_dts`.

#![no_main]

use std::cell::RefCell;

use arrow_array::{Array, StructArray};
use changefeed_kernel::tencent_dts::{Decoder, Members, Plain};
use libfuzzer_sys::fuzz_target;

const SHAPES: [&str; 2] =
    [include_str!("../shapes/dts_all_types_0.json"), include_str!("../shapes/dts_all_types_1.json")];

fn registered() -> Decoder {
    let mut decoder = Decoder::new(true);
    for shape in SHAPES {
        decoder.register(shape).unwrap();
    }
    decoder
}

thread_local! {
    static DECODER: RefCell<Decoder> = RefCell::new(registered());
}

fuzz_target!(|data: &[u8]| DECODER.with_borrow_mut(|decoder| group(decoder, data)));

fn group(decoder: &mut Decoder, data: &[u8]) {
    // The data as they are, or in the envelope of a plain record.
    let data = Plain::read(None, Some(data), &[(b"ps", Some(b"1"))]).map_or(data, |plain| plain.data);
    let done = decoder.decode(0, data, Members { all: b",\"ps\":1", first: b"" }, &[]);
    let (tables, marks) = decoder.finish().unwrap();
    let events = tables.iter().map(|(_, batch)| batch.num_rows()).sum::<usize>() + marks.num_rows();
    assert_eq!(events > 0, done.is_ok());
    for batch in tables.into_iter().map(|(_, batch)| batch).chain([marks]) {
        StructArray::from(batch).to_data().validate_full().unwrap();
    }
}
