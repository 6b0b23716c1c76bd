//! Numbers that writers spell, and others.

use super::*;

#[test]
fn numbers_are_spelled_as_their_writer_does() {
    for good in ["0", "-0", "5", "5.42", "-6953.85", "0.000001", "1e-07", "1.5e-07", "0.6443255982300651", "100"] {
        assert!(spelled::<f64>(good.as_bytes(), Style::Go).is_some(), "{good}");
    }
    for bad in ["5.0", "5.420", "1e-7", "1e21", "0.0000001", "00", "1.", "9007199254740993", "1e2", "", "5 "] {
        assert!(spelled::<f64>(bad.as_bytes(), Style::Go).is_none(), "{bad}");
    }
    for good in ["0.0", "-0.0", "5.0", "0.001", "1.0E7", "9999999.5", "1.5E-4", "0.6443255982300651", "1.0E100"] {
        assert!(spelled::<f64>(good.as_bytes(), Style::Java).is_some(), "{good}");
    }
    for bad in ["0", "5", "5.00", "1.0E6", "10000000.0", "1.5e-4", "1E7", "1.50E7", "5.0E-324"] {
        assert!(spelled::<f64>(bad.as_bytes(), Style::Java).is_none(), "{bad}");
    }
}

#[test]
fn a_number_half_way_between_two_texts_is_refused() {
    for text in ["1189728875871277.2", "1189728875871277.3", "2080752961718287.2", "2.7668109292779717e+21"] {
        assert!(spelled::<f64>(text.as_bytes(), Style::Go).is_none(), "{text}");
    }
    assert!(spelled::<f64>(b"0.6443255982300651", Style::Go).is_some());
}

#[test]
fn singles_keep_fewer_digits() {
    for (text, good) in [("0.1", true), ("1024", true), ("16777216", false)] {
        assert_eq!(spelled::<f32>(text.as_bytes(), Style::Go).is_some(), good, "{text}");
    }
    assert!(spelled::<f32>(b"0.10000000149011612", Style::Go).is_none());
    assert!(spelled::<f32>(b"1024.0", Style::Java).is_some() && spelled::<f32>(b"1.23456E8", Style::Java).is_some());
}

#[test]
fn what_is_written_is_read() {
    for value in [1.0 / 3.0, 123_456.123_456_79, 0.644_325_598_230_065_1, 1e-7, 1.5e300, -0.0] {
        for style in [Style::Go, Style::Java] {
            let mut out = Vec::new();
            write(value, style, false, &mut out).unwrap();
            assert_eq!(std::str::from_utf8(&out).unwrap().parse::<f64>().unwrap(), value);
            assert!(spelled::<f64>(&out, style).is_some());
        }
    }
    for value in [5e-324, f64::NAN, f64::INFINITY] {
        assert!(write(value, Style::Go, false, &mut Vec::new()).is_none());
    }
}
