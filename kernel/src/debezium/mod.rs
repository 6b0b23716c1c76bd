//! Kernel only: shared by the Debezium-shaped JSON protocols: rows as images of named values inside an envelope of literal bytes.
//!
//! ```text
//! {"id": 7 ,"name": "ada" ,"photo": null }
//! └ name ┘ └ value: a token, its bytes and its kind
//!
//! tokens ─▶ codes: what values show of types that are not declared ─▶ the first shape that agrees ─▶ its columns
//! ```
//!
//! Rule 1. A record is one row, all or nothing. Whatever is not exactly as drawn makes it *unmatched*, and the reference decides.
//! Rule 2. A *group* is what has the same literals: names, schema blocks, key. Its shapes differ in the types of their
//!         *open* columns alone. A row belongs to the first shape, in the order of registration, that agrees where the row
//!         is not NULL.
//! Rule 3. A value must be spelled as the producer spells it. Another spelling of a number or of base64 would have to be
//!         kept beside the row: it is unmatched.
//! Rule 4. Rows of a shape come one after the other: values are read into the columns of the latest row's shape as they are
//!         met. If that goes wrong, or another shape is the first that agrees, the row is read once more, its tokens first.

pub mod columns;
pub mod derived;
pub mod floats;
pub mod forms;
pub mod group;
pub mod images;
pub mod rows;
pub mod shapes;
pub mod text;
pub mod token;
