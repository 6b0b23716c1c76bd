//! Any bytes as a template, and as the values of a row in every form: no panic, and what is written is JSON that reads
//! back to the values.
//!
//! In `kernel/`: `mkdir -p fuzz/corpus/encode`, then `cargo +nightly fuzz run encode fuzz/corpus/encode`.

#![no_main]

use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, MapBuilder, StringBuilder};
use arrow_array::{
    ArrayRef, BinaryArray, Decimal128Array, Float32Array, Float64Array, Int64Array, RecordBatch, StringArray,
    StructArray, TimestampMicrosecondArray,
};
use arrow_schema::{Field, Fields};
use changefeed_kernel::encode::Encoder;
use libfuzzer_sys::fuzz_target;
use serde_json::value::RawValue;

const TEMPLATE: &str = include_str!("../shapes/encode.json");

fuzz_target!(|data: &[u8]| {
    let mut encoder = Encoder::new(vec![(0x20, 0x7e), (0xe9, 0xe9)]);
    encoder.register(TEMPLATE).unwrap();
    let registered = std::str::from_utf8(data).ok().and_then(|text| encoder.register(text));
    let Some((head, rest)) = data.split_first_chunk::<16>() else { return };
    let number = i128::from_le_bytes(*head);
    let text = String::from_utf8_lossy(rest).into_owned();
    let row = row(number, &text, rest);
    if let Some(registered) = registered {
        encoder.encode(registered, &row);
    }
    // A value without words leaves the row to the reference.
    let written = encoder.encode(0, &row).unwrap();
    if written.rows.len() == 1 {
        check(written.values.value(0), number, &text);
    }
});

fn check(value: &[u8], number: i128, text: &str) {
    let found: Vec<&RawValue> = serde_json::from_slice(value).unwrap();
    let [texts @ .., _, _, _, _, html, java, raw, integer, _, _, _] = &found[..] else {
        panic!("{} values", found.len())
    };
    for json in texts {
        assert_eq!(serde_json::from_str::<String>(json.get()).unwrap(), text);
    }
    for float in [html, java] {
        assert_eq!(float.get().parse::<f64>().unwrap().to_bits(), number as u64);
    }
    assert_eq!(raw.get().parse::<f32>().unwrap().to_bits(), number as u32);
    assert_eq!(integer.get().parse::<i64>().unwrap(), number as i64);
}

fn row(number: i128, text: &str, bytes: &[u8]) -> RecordBatch {
    let decimal = || Decimal128Array::from(vec![number / 10]).with_precision_and_scale(38, 4).unwrap();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(vec![text])),
        Arc::new(StringArray::from(vec![text])),
        Arc::new(StringArray::from(vec![text])),
        Arc::new(BinaryArray::from(vec![bytes])),
        Arc::new(BinaryArray::from(vec![bytes])),
        Arc::new(decimal()),
        Arc::new(StringArray::from(vec![if text.contains(':') { text } else { "12:00:00" }])),
        Arc::new(Float64Array::from(vec![f64::from_bits(number as u64)])),
        Arc::new(Float64Array::from(vec![f64::from_bits(number as u64)])),
        Arc::new(Float32Array::from(vec![f32::from_bits(number as u32)])),
        Arc::new(Int64Array::from(vec![number as i64])),
        Arc::new(decimal()),
        Arc::new(decimal()),
        Arc::new(TimestampMicrosecondArray::from(vec![(number >> 64) as i64 / 1000])),
    ];
    let fields = columns.iter().enumerate().map(|(at, c)| Field::new(format!("c{at}"), c.data_type().clone(), true));
    let after = StructArray::new(fields.collect::<Fields>(), columns, None);
    let before = StructArray::new_empty_fields(1, Some(vec![false].into()));
    let mut irregular = MapBuilder::new(None, StringBuilder::new(), BinaryBuilder::new());
    irregular.append(true).unwrap();
    let given: [(&str, ArrayRef); 4] = [
        ("op", Arc::new(StringArray::from(vec!["insert"]))),
        ("before", Arc::new(before)),
        ("after", Arc::new(after)),
        ("irregular", Arc::new(irregular.finish())),
    ];
    RecordBatch::try_from_iter(given).unwrap()
}
