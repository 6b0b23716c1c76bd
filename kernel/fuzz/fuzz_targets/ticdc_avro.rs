//! Any bytes as a record: no panic, no row of an unmatched record, one row of any other, and columns that Arrow finds sound.
//!
//! In `kernel/`: `mkdir -p fuzz/corpus/ticdc_avro`, then
//! `cargo +nightly fuzz run ticdc_avro fuzz/corpus/ticdc_avro fuzz/seeds/ticdc_avro`.

#![no_main]

use std::cell::RefCell;

use arrow_array::{Array, StructArray};
use changefeed_kernel::ticdc_avro::Decoder;
use libfuzzer_sys::fuzz_target;

const SHAPES: [&str; 7] = [
    include_str!("../shapes/avro_before_0.json"),
    include_str!("../shapes/avro_before_1.json"),
    include_str!("../shapes/avro_digits_0.json"),
    include_str!("../shapes/avro_digits_1.json"),
    include_str!("../shapes/avro_every_type_0.json"),
    include_str!("../shapes/avro_extension_0.json"),
    include_str!("../shapes/avro_extension_1.json"),
];

fn registered() -> Decoder {
    let mut decoder = Decoder::new(Some(0));
    for shape in SHAPES {
        decoder.register(shape).unwrap();
    }
    decoder
}

thread_local! {
    static DECODER: RefCell<Decoder> = RefCell::new(registered());
}

fuzz_target!(|data: &[u8]| DECODER.with_borrow_mut(|decoder| record(decoder, data)));

fn record(decoder: &mut Decoder, data: &[u8]) {
    // The first byte decides which of key and value are missing, the next two split the rest into both.
    let Some((&[missing, high, low], rest)) = data.split_first_chunk() else { return };
    let (key, value) = rest.split_at(usize::from(u16::from_be_bytes([high, low])).min(rest.len()));
    let done = decoder.decode(0, b"t", (missing & 1 == 0).then_some(key), (missing & 2 == 0).then_some(value));
    let batches = decoder.finish().unwrap();
    let rows: usize = batches.iter().map(|(_, batch)| batch.num_rows()).sum();
    assert_eq!(rows, usize::from(done.is_some()));
    for (_, batch) in batches {
        StructArray::from(batch).to_data().validate_full().unwrap();
    }
}
