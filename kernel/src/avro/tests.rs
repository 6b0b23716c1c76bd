//! Values read off the wire, and what is none.

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Decimal256Type, UInt64Type};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::i256;
use arrow_schema::DataType;

use super::columns::{Branched, Raw, Values};
use super::forms::{Bits, Day, Decimal, Digits, Double, LongDecimal, Natural, Text, Wrapped};
use super::*;
use crate::check::Check;
use crate::columns::{Column, Fixed, Vectors};
use crate::forms::{Form, Moment};

fn whole<T>(wire: &[u8], read: impl FnOnce(&mut Cursor<'_>) -> Option<T>) -> Option<T> {
    let mut c = Cursor::new(wire);
    read(&mut c).filter(|_| c.is_empty())
}

fn of<F: Form>(form: F, wire: &[u8]) -> Option<<F::Arrow as arrow_array::ArrowPrimitiveType>::Native> {
    whole(wire, |c| form.read(c))
}

fn sized(data: &[u8]) -> Vec<u8> {
    assert!(data.len() < 64);
    [&[data.len() as u8 * 2], data].concat()
}

fn column(mut column: impl Column, wires: &[&[u8]]) -> Option<ArrayRef> {
    wires.iter().try_for_each(|wire| whole(wire, |c| column.read(c)).map(|_| ()))?;
    Some(column.finish().unwrap())
}

#[test]
fn integers_have_one_form() {
    for (value, wire) in [(0, &[0u8][..]), (-1, &[1]), (1, &[2]), (63, &[0x7e]), (64, &[0x80, 1]), (-65, &[0x81, 1])] {
        assert_eq!((whole(wire, long), whole(wire, int)), (Some(value), Some(value)));
    }
    let most = [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    assert_eq!((whole(&most, long), whole(&most, int)), (Some(i64::MAX), None));
    assert_eq!(whole(&[0xff, 0xff, 0xff, 0xff, 0x0f], int), Some(i32::MIN.into()));
    for wire in [
        &[][..],
        &[0x80],
        &[0x80, 0],
        &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02],
        &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01],
    ] {
        assert_eq!(whole(wire, long), None, "{wire:x?}");
    }
    assert_eq!(whole(&[0x80, 0x80, 0x80, 0x80, 0x10], int), None);
    assert_eq!(whole(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x01], int), None);
}

#[test]
fn a_length_that_runs_past_the_end_or_below_zero_is_refused() {
    assert_eq!(whole(&[6, b'a', b'b', b'c'], |c| bytes(c).map(<[u8]>::len)), Some(3));
    for wire in [&[6, b'a', b'b'][..], &[1], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]] {
        assert_eq!(whole(wire, |c| bytes(c).map(<[u8]>::len)), None, "{wire:x?}");
    }
}

#[test]
fn a_union_tells_null_from_a_value() {
    let answers = |union: Union| [&[0u8][..], &[2], &[1], &[4], &[0x82, 0]].map(|wire| whole(wire, |c| union.open(c)));
    assert_eq!(answers(Union::NullFirst), [Some(false), Some(true), None, None, None]);
    assert_eq!(answers(Union::NullLast), [Some(true), Some(false), None, None, None]);
    assert_eq!(answers(Union::Alone), [Some(true), None, None, None, None]);
    assert_eq!(whole(&[], |c| Union::Bare.open(c)), Some(true));
}

#[test]
fn numbers_keep_to_their_range() {
    let natural = |wide, wire: &[u8]| of(Natural::<UInt64Type>::up_to(100, wide), wire);
    assert_eq!((natural(true, &[0xc8, 1]), natural(false, &[0xc8, 1])), (Some(100), Some(100)));
    assert_eq!((natural(true, &[0xca, 1]), natural(true, &[1])), (None, None));
    assert_eq!(of(Wrapped, &[1]), Some(u64::MAX));
    assert_eq!(of(Digits, &sized(b"18446744073709551615")), Some(u64::MAX));
    for text in ["", "00", "01", "-1", "+1", "1 ", "18446744073709551616", "\u{663}"] {
        assert_eq!(of(Digits, &sized(text.as_bytes())), None, "{text}");
    }
    assert_eq!(of(Double, &2.5f64.to_le_bytes()), Some(2.5));
    assert_eq!(of(Double, &f64::NAN.to_le_bytes()), None);
}

#[test]
fn bits_are_whole_or_shortest() {
    let bits = |n, data: &[u8]| of(Bits(n), &sized(data));
    assert_eq!((bits(10, &[2, 1]), bits(10, &[0, 1]), bits(10, &[1])), (Some(513), Some(1), Some(1)));
    assert_eq!((bits(20, &[0, 1]), bits(10, &[4, 0]), bits(10, &[]), bits(10, &[0, 0, 1])), (None, None, None, None));
    assert_eq!((bits(64, &[0xff; 8]), bits(64, &[0]), bits(64, &[0xff; 9])), (Some(u64::MAX), Some(0), None));
}

#[test]
fn decimals_are_shortest_and_within_their_digits() {
    let decimal = |digits, data: &[u8]| of(Decimal::digits(digits).unwrap(), &sized(data));
    assert_eq!(decimal(10, &[0x49, 0x96, 0x02, 0xd2]), Some(1_234_567_890));
    assert_eq!(decimal(9, &[0x49, 0x96, 0x02, 0xd2]), None);
    assert_eq!((decimal(3, &[0x80]), decimal(3, &[0xff, 0x7f]), decimal(1, &[0])), (Some(-128), Some(-129), Some(0)));
    for data in [&[][..], &[0, 1], &[0, 0], &[0xff, 0x80], &[0x7f; 17]] {
        assert_eq!(decimal(38, data), None, "{data:x?}");
    }
    let most = (10i128.pow(38) - 1).to_be_bytes();
    assert_eq!((decimal(38, &most), decimal(37, &most)), (Some(10i128.pow(38) - 1), None));
    let nine = (-(1i128 << 70)).to_be_bytes();
    assert_eq!(decimal(38, &nine[7..]), Some(-(1i128 << 70)));
    let long = |digits, data: &[u8]| of(LongDecimal::digits(digits).unwrap(), &sized(data));
    assert_eq!(long(65, &most), Some(i256::from_i128(10i128.pow(38) - 1)));
    assert_eq!(
        (long(65, &[0x80]), long(76, &[0x7f; 32]), long(76, &[0x01; 33])),
        (Some(i256::from(-128i8)), None, None)
    );
}

#[test]
fn texts_are_checked() {
    let texts = |check, wires: &[&[u8]]| column(Branched::new(Union::NullFirst, Raw::new(check)), wires);
    let array = texts(Check::Utf8, &[b"\x02\x04\xc3\xa9", b"\0", b"\x02\0"]).unwrap();
    assert_eq!(array.as_string::<i32>().iter().collect::<Vec<_>>(), [Some("é"), None, Some("")]);
    let array = texts(Check::Bytes, &[b"\x02\x02\xff", b"\0"]).unwrap();
    assert_eq!(array.as_binary::<i32>().iter().collect::<Vec<_>>(), [Some(&b"\xff"[..]), None]);
    for (check, bad) in [(Check::Utf8, "\x02\x02\u{0}"), (Check::Decimal, "\x02\x041x"), (Check::Time, "\x02\x021")] {
        let wire = bad.replace('\0', "\u{1}");
        let broken = [&wire.as_bytes()[..2], b"\xff"].concat();
        assert!(texts(check, &[&broken]).is_none());
    }
    assert_eq!(of(Day, &sized(b"1970-01-02")), Some(1));
    let moment = |digits| Text(Moment { digits, ahead: 0 });
    assert_eq!(of(moment(1), &sized(b"1970-01-01 00:00:00.1")), Some(100_000));
    for text in ["1970-01-01 00:00:00", "1970-01-01 00:00:00.10", "1970-01-01T00:00:00.1", "0000-00-00 00:00:00.0"] {
        assert_eq!(of(moment(1), &sized(text.as_bytes())), None, "{text}");
    }
}

#[test]
fn columns_go_on_behind_what_was_taken_back() {
    fn check(values: impl Values, wire: &[u8], arrow: &DataType) {
        let mut column = Branched::new(Union::NullLast, values);
        let wire = [&[0], wire].concat();
        for wire in [&wire[..], &wire, &[2], &wire] {
            column.read(&mut Cursor::new(wire)).unwrap();
        }
        column.truncate(3);
        column.pad(4);
        let array = column.finish().unwrap();
        assert_eq!((array.len(), array.null_count(), array.data_type()), (4, 2, arrow));
        array.to_data().validate_full().unwrap();
    }
    let decimal = DataType::Decimal128(5, 2);
    check(Fixed::new(Decimal::digits(5).unwrap(), decimal.clone()), &[2, 7], &decimal);
    let decimal = DataType::Decimal256(40, 2);
    check(Fixed::new(LongDecimal::digits(40).unwrap(), decimal.clone()), &[2, 7], &decimal);
    check(Raw::new(Check::Utf8), &[2, b'x'], &DataType::Utf8);
    let list = Vectors::empty().finish().unwrap().data_type().clone();
    check(Vectors::empty(), b"\x0e[1,2.5]", &list);
    let array = column(Fixed::new(Decimal::digits(5).unwrap(), DataType::Decimal128(5, 2)), &[]).unwrap();
    assert!(
        array.as_primitive_opt::<Decimal128Type>().is_some() && array.as_primitive_opt::<Decimal256Type>().is_none()
    );
}
