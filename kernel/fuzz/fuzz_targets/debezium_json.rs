//! Any bytes as key and value of a row in Debezium-shaped JSON: no panic, no row of an unmatched record, one row of any other.
//!
//! In `kernel/`: `mkdir -p fuzz/corpus/debezium_json`, then
//! `cargo +nightly fuzz run debezium_json fuzz/corpus/debezium_json fuzz/seeds/debezium_json`.

#![no_main]

use std::cell::RefCell;

use changefeed_kernel::debezium_mysql::{self, Found};
use changefeed_kernel::ticdc_debezium;
use libfuzzer_sys::fuzz_target;

const LOOSE: &str = include_str!("../shapes/debezium_loose.json");
const TICDC: &str = include_str!("../shapes/ticdc_debezium_loose.json");

struct Decoders {
    ticdc: ticdc_debezium::Decoder,
    mysql: debezium_mysql::Decoder,
}

fn registered() -> Decoders {
    let (mut ticdc, mut mysql) =
        (ticdc_debezium::Decoder::default(), debezium_mysql::Decoder::new(vec![b"gone".to_vec()], false));
    ticdc.register(TICDC).unwrap();
    mysql.register(LOOSE).unwrap();
    Decoders { ticdc, mysql }
}

thread_local! {
    static DECODERS: RefCell<Decoders> = RefCell::new(registered());
}

fuzz_target!(|data: &[u8]| DECODERS.with_borrow_mut(|decoders| records(decoders, data)));

fn records(decoders: &mut Decoders, data: &[u8]) {
    // The first two bytes split the rest into key and value.
    let Some((head, rest)) = data.split_first_chunk::<2>() else { return };
    let (key, value) = rest.split_at((u16::from_be_bytes(*head) as usize).min(rest.len()));
    for key in [Some(key), None] {
        let taken = decoders.ticdc.decode(0, key, Some(value)).is_some();
        let rows: usize = decoders.ticdc.finish().unwrap().iter().map(|(_, batch)| batch.num_rows()).sum();
        assert_eq!(rows, usize::from(taken));
        let headers = [(key.unwrap_or_default(), Some(value))];
        let found = Found { headers: &headers, again: false };
        let taken = decoders.mysql.decode(0, key, Some(value), found).is_some();
        let rows: usize = decoders.mysql.finish().unwrap().iter().map(|(_, batch)| batch.num_rows()).sum();
        assert_eq!(rows, usize::from(taken));
    }
}
