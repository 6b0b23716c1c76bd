//! Numbers and strings, and what is none.

use super::*;

fn text(bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut c = Cursor::new(bytes);
    let text = string(&mut c)?;
    let mut out = Vec::new();
    unescape(text.raw, &mut out)?;
    Some((out, c.rest()))
}

#[test]
fn integers_are_exact_to_64_bits() {
    for (bytes, value) in [("0", 0), ("-1", -1), ("9223372036854775807", i64::MAX), ("-9223372036854775808", i64::MIN)]
    {
        assert_eq!(int64(&mut Cursor::new(bytes.as_bytes())), Some(value));
    }
    assert_eq!(uint64(&mut Cursor::new(b"18446744073709551615")), Some(u64::MAX));
    for bytes in
        ["", "-", "-0", "01", "00", "+1", "18446744073709551616", "99999999999999999999", "123456789012345678901"]
    {
        assert_eq!(uint64(&mut Cursor::new(bytes.as_bytes())), None, "{bytes}");
        assert_eq!(int64(&mut Cursor::new(bytes.as_bytes())), None, "{bytes}");
    }
    assert_eq!(int64(&mut Cursor::new(b"9223372036854775808")), None);
    assert_eq!(int64(&mut Cursor::new(b"-9223372036854775809")), None);
}

#[test]
fn floats_are_json_numbers_only() {
    let double = |text: &str| float::<f64>(&mut Cursor::new(text.as_bytes()));
    for (bytes, value) in
        [("0", 0.0), ("-0.0", -0.0), ("1e-10", 1e-10), ("1E+21", 1e21), ("0.1", 0.1), ("153.123", 153.123)]
    {
        assert_eq!(double(bytes).map(f64::to_bits), Some(f64::to_bits(value)));
    }
    for bytes in [
        "", "-", ".5", "-.5", "1.", "1.e5", "01", "-01", "1e", "1e+", "1.5e-", "inf", "infinity", "nan", "NaN", "+1",
        "--1", "1e400",
    ] {
        assert_eq!(double(bytes), None, "{bytes}");
    }
}

#[test]
fn float32_is_rounded_once() {
    // Half way between two float32, plus less than a double can represent.
    let text = b"1.00000017881393432617187500001";
    assert_eq!(float32(&mut Cursor::new(text)), Some(1.000_000_2));
    assert_eq!(float32(&mut Cursor::new(b"-3.4028234663852886e38")), Some(f32::MIN));
    assert_eq!(float32(&mut Cursor::new(b"3.4028235677973366e38")), None);
    assert_eq!(float32(&mut Cursor::new(b"3.5e38")), None);
}

#[test]
fn a_string_ends_at_its_own_quote_wherever_it_lies() {
    for length in 0..40 {
        let inside = "x".repeat(length);
        let wire = format!("\"{inside}\",\"yyyyyyyyyyyyyyyy\"");
        assert_eq!(text(wire.as_bytes()).unwrap(), (inside.into_bytes(), &wire.as_bytes()[length + 2..]));
    }
}

#[test]
fn escapes_mean_what_json_says() {
    let wire = r#""a\"\\\/\b\f\n\r\té\u00e9\ud83d\ude00\u003c""#;
    assert_eq!(text(wire.as_bytes()).unwrap().0, "a\"\\/\u{8}\u{c}\n\r\téé😀<".as_bytes());
}

#[test]
fn what_is_no_string_is_refused() {
    for bytes in [
        &b"\"abc"[..],
        b"\"abc\\\"",
        b"\"\\",
        b"\"\x1f\"",
        b"\"1234567\n\"",
        b"\"\xff\"",
        b"\"\\\xff\"",
        b"\"\xed\xa0\x80\"",
        b"abc",
    ] {
        assert!(text(bytes).is_none(), "{bytes:?}");
    }
    for wire in
        [r#""\x""#, r#""\u12g4""#, r#""\ud800""#, r#""\udc00""#, r#""\ud800\u0041""#, r#""\ud800x""#, r#""\u+123""#]
    {
        assert!(text(wire.as_bytes()).is_none(), "{wire}");
    }
}
