//! The compiled twin of changefeed's decoders: bytes straight into Arrow columns; and of its encoders: back again.
//!
//! A decoder decodes only registered shapes, and of a protocol only what its producers
//! write. Whatever differs by a byte is *unmatched*: it comes back untouched, and the reference decoder, in Python, decides.
//! There are no policies here, and no errors.

pub mod avro;
pub mod binlog;
pub mod capacity;
pub mod check;
pub mod columns;
pub mod cursor;
pub mod debezium;
pub mod debezium_mysql;
pub mod digits;
pub mod encode;
pub mod ends;
pub mod forms;
pub mod geometries;
pub mod go_quote;
pub mod nulls;
pub mod numbers;
pub mod packets;
pub mod rows;
pub mod shared;
pub mod spelling;
pub mod strict_json;
pub mod tencent_dts;
pub mod text_rows;
pub mod ticdc_avro;
pub mod ticdc_debezium;
pub mod ticdc_open;
pub mod values;
pub mod varint;

#[cfg(feature = "python")]
mod python;
