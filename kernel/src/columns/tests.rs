//! Values read into columns, and what is not a value.

use super::*;
use crate::forms::{Day, Moment, Signed, Unsigned};
use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int8Type, Int32Type, TimestampMicrosecondType, UInt16Type, UInt64Type};
use arrow_schema::TimeUnit;

/// The array of these values, each of which must be read to its end.
fn column(mut column: impl Column, values: &[&str]) -> Option<ArrayRef> {
    for value in values {
        let mut c = Cursor::new(value.as_bytes());
        column.read(&mut c).filter(|_| c.is_empty())?;
    }
    Some(column.finish().unwrap())
}

#[test]
fn integers_keep_to_their_range() {
    let tiny = || Fixed::new(Signed::<Int8Type>::bits(8), DataType::Int8);
    let array = column(tiny(), &["-128", "null", "127"]).unwrap();
    assert_eq!(array.as_primitive::<Int8Type>().iter().collect::<Vec<_>>(), [Some(-128), None, Some(127)]);
    assert!(column(tiny(), &["128"]).is_none() && column(tiny(), &["-129"]).is_none());
    let year = || Fixed::new(Unsigned::<UInt16Type>::up_to(2155), DataType::UInt16);
    assert!(column(year(), &["0", "2155"]).is_some() && column(year(), &["2156"]).is_none());
    let bits = Fixed::new(Unsigned::<UInt64Type>::bits(64), DataType::UInt64);
    assert_eq!(column(bits, &["18446744073709551615"]).unwrap().as_primitive::<UInt64Type>().value(0), u64::MAX);
    let medium = Signed::<Int32Type>::bits(24);
    assert_eq!((medium.low, medium.high), (-8_388_608, 8_388_607));
}

#[test]
fn texts_are_utf8_however_they_are_spelled() {
    let text = |spelling, values: &[&str]| column(Bytes::new(spelling, true), values);
    let plain = text(Spelling::Plain, &[r#""""#, "null", r#""a\n\u00e9é""#]).unwrap();
    assert_eq!(plain.as_string::<i32>().iter().collect::<Vec<_>>(), [Some(""), None, Some("a\néé")]);
    let base64 = text(Spelling::Base64, &[r#""5rWL6K+V""#, r#""""#]).unwrap();
    assert_eq!(base64.as_string::<i32>().iter().collect::<Vec<_>>(), [Some("测试"), Some("")]);
    for bad in [r#""/w==""#, r#""5rWL6K+""#, r#""5rWL6K-V""#, r#""5r\/L""#] {
        assert!(text(Spelling::Base64, &[bad]).is_none(), "{bad}");
    }
    assert!(text(Spelling::Decimal, &[r#""-12.50""#]).is_some() && text(Spelling::Decimal, &[r#""1e5""#]).is_none());
    assert!(
        text(Spelling::Time, &[r#""-838:59:59""#]).is_some() && text(Spelling::Time, &[r#""839:00:00""#]).is_none()
    );
}

#[test]
fn quoted_bytes_pass_two_layers() {
    let wire = r#""\\x89P\u0026\\r\\n\\\\\\\"é""#;
    let array = column(Bytes::new(Spelling::Quoted, false), &[wire, r#""""#]).unwrap();
    assert_eq!(array.as_binary::<i32>().value(0), b"\x89P&\r\n\\\"\xc3\xa9");
    assert!(column(Bytes::new(Spelling::Quoted, false), &[r#""\"""#]).is_none());
}

#[test]
fn vectors_are_lists_of_float32() {
    let array = column(Vectors::empty(), &[r#""[1,2.5,-3e-7]""#, "null", r#""[]""#]).unwrap();
    let lists = array.as_list::<i32>();
    assert_eq!(lists.value(0).as_primitive::<Float32Type>().values(), &[1.0, 2.5, -3e-7]);
    assert!(lists.is_null(1) && lists.value_length(2) == 0);
    for bad in [r#""""#, r#""[""#, r#""[1,]""#, r#""[1, 2]""#, r#""[1]x""#, r#""[null]""#] {
        assert!(column(Vectors::empty(), &[bad]).is_none(), "{bad}");
    }
}

#[test]
fn a_clock_ahead_of_utc_is_set_back_within_the_calendar() {
    let zone = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let moment = || Fixed::new(Moment { digits: 0, ahead: 8 * 3_600_000_000 }, zone.clone());
    let array = column(moment(), &[r#""1970-01-01 08:00:01""#]).unwrap();
    assert_eq!(array.as_primitive::<TimestampMicrosecondType>().value(0), 1_000_000);
    assert!(column(moment(), &[r#""0001-01-01 07:59:59""#]).is_none());
}

#[test]
fn truncated_and_padded_columns_go_on_as_if_nothing_had_been() {
    let mut texts = Bytes::new(Spelling::Plain, true);
    let mut days = Fixed::new(Day, DataType::Date32);
    for (text, day) in [(r#""a""#, r#""2026-01-02""#), ("null", "null")] {
        texts.read(&mut Cursor::new(text.as_bytes())).unwrap();
        days.read(&mut Cursor::new(day.as_bytes())).unwrap();
    }
    for column in [&mut texts as &mut dyn Column, &mut days] {
        column.truncate(1);
        column.truncate(5);
        column.pad(3);
        column.pad(2);
        let array = column.finish().unwrap();
        assert_eq!((array.len(), array.null_count(), array.is_valid(0)), (3, 2, true));
        assert_eq!(column.finish().unwrap().len(), 0);
    }
}
