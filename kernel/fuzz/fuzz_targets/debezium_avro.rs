//! Any bytes as a record of Debezium's Avro: no panic, no row of an unmatched record, one row of any other, and columns that
//! Arrow finds sound.
//!
//! In `kernel/`: `mkdir -p fuzz/corpus/debezium_avro`, then
//! `cargo +nightly fuzz run debezium_avro fuzz/corpus/debezium_avro fuzz/seeds/debezium_avro`.

#![no_main]

use std::cell::RefCell;

use arrow_array::{Array, StructArray};
use changefeed_kernel::debezium_mysql::Found;
use changefeed_kernel::debezium_mysql::avro::Decoder;
use libfuzzer_sys::fuzz_target;

const SHAPES: [&str; 2] =
    [include_str!("../shapes/debezium_avro_0.json"), include_str!("../shapes/debezium_avro_3.json")];

fn registered() -> Decoder {
    let mut decoder = Decoder::new(vec![b"gone".to_vec()], false);
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
    // The first two bytes split the rest into key and value.
    let Some((head, rest)) = data.split_first_chunk::<2>() else { return };
    let (key, value) = rest.split_at(usize::from(u16::from_be_bytes(*head)).min(rest.len()));
    let headers = [(key, Some(value))];
    for headers in [&headers[..], &[]] {
        let done = decoder.decode(0, Some(key), Some(value), Found { headers, again: false });
        let batches = decoder.finish().unwrap();
        let rows: usize = batches.iter().map(|(_, batch)| batch.num_rows()).sum();
        assert_eq!(rows, usize::from(done.is_some()));
        for (_, batch) in batches {
            StructArray::from(batch).to_data().validate_full().unwrap();
        }
    }
}
