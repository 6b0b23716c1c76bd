//! Packets as a server sends them, wherever what is received is cut, and those of no row.

use arrow_array::cast::AsArray;

use super::*;

fn packet(number: u8, payload: &[u8]) -> Vec<u8> {
    let [low, middle, high, ..] = (payload.len() as u32).to_le_bytes();
    [&[low, middle, high, number], payload].concat()
}

/// The values of the first column, and how many rows there are.
fn first_column(rows: &mut TextRows) -> Vec<Option<Vec<u8>>> {
    let columns = rows.finish().unwrap();
    columns[0].as_binary::<i32>().iter().map(|value| value.map(<[u8]>::to_vec)).collect()
}

#[test]
fn rows_are_read_wherever_they_are_cut() {
    let sent = [
        packet(254, b"\x01a\xfb"),
        packet(255, b"\xfb\xfc\x02\0xy"),
        packet(0, b"\x00\xfd\x01\0\0z"),
        packet(1, b"\xfe\0\0\0\0"),
    ]
    .concat();
    for cut in 0..sent.len() {
        let mut rows = TextRows::new(2, 254);
        rows.feed(&sent[..cut]);
        assert_eq!(rows.run(9, 999), Stop::More);
        rows.feed(&sent[cut..]);
        assert_eq!(rows.run(9, 999), Stop::Other(b"\xfe\0\0\0\0".to_vec()));
        let columns = rows.finish().unwrap();
        let values: Vec<Vec<Option<&[u8]>>> = columns.iter().map(|c| c.as_binary::<i32>().iter().collect()).collect();
        assert_eq!(values, [[Some(&b"a"[..]), None, Some(b"")], [None, Some(&b"xy"[..]), Some(b"z")]]);
    }
}

#[test]
fn rows_stop_at_their_number_and_at_their_bytes() {
    let mut rows = TextRows::new(1, 0);
    for number in 0..4 {
        rows.feed(&packet(number, &[1, b'a' + number]));
    }
    assert_eq!(rows.run(2, 999), Stop::Full);
    assert_eq!(first_column(&mut rows), [Some(b"a".to_vec()), Some(b"b".to_vec())]);
    assert_eq!(rows.run(9, 5), Stop::Full);
    assert_eq!(first_column(&mut rows), [Some(b"c".to_vec())]);
    assert_eq!(rows.run(9, 999), Stop::More);
    assert_eq!(first_column(&mut rows), [Some(b"d".to_vec())]);
}

#[test]
fn a_value_of_several_packets_is_one_value() {
    let value = vec![7; 0xff_ffff];
    let payload = [&b"\xfe\xff\xff\xff\0\0\0\0\0"[..], &value].concat();
    let (first, second) = payload.split_at(0xff_ffff);
    let mut rows = TextRows::new(1, 3);
    rows.feed(&packet(3, first));
    assert_eq!(rows.run(9, usize::MAX), Stop::More);
    rows.feed(&packet(4, second));
    assert_eq!(rows.run(9, usize::MAX), Stop::More);
    assert_eq!(first_column(&mut rows), [Some(value)]);
}

#[test]
fn what_is_not_a_row_of_the_columns_leaves_none() {
    for payload in [&b"\xff\x15\x04#28000no"[..], b"\x01a", b"\x01a\x01b\x01c", b"\x01a\x05b", b"\x01a\xff", b""] {
        let mut rows = TextRows::new(2, 0);
        rows.feed(&packet(0, b"\x01x\x01y"));
        rows.feed(&packet(1, payload));
        assert_eq!(rows.run(9, 999), Stop::Other(payload.to_vec()), "{payload:?}");
        assert_eq!(first_column(&mut rows), [Some(b"x".to_vec())]);
    }
}

#[test]
fn a_packet_of_another_number_breaks_the_connection() {
    let mut rows = TextRows::new(1, 0);
    rows.feed(&packet(1, b"\x01a"));
    assert_eq!(rows.run(9, 999), Stop::Unexpected);
}
