//! Orders and shapes of values.

use std::cmp::Ordering;
use std::sync::Arc;

use super::order::decimal_digits;
use super::*;
use crate::node::cql::ast::Direction;

fn ordered(ty: &ColumnType, values: &[Vec<u8>]) {
    for pair in values.windows(2) {
        let order = compare(ty, Some(&pair[0]), Some(&pair[1]));
        assert_eq!(order, Ordering::Less, "{ty}: {:?} {:?}", pair[0], pair[1]);
    }
    let mut descending: Vec<Vec<u8>> = values
        .iter()
        .map(|value| {
            let mut out = Vec::new();
            put_clustering(ty, value, Direction::Descending, &mut out);
            out
        })
        .collect();
    descending.reverse();
    assert!(descending.is_sorted(), "{ty} descending");
}

#[test]
fn numbers_are_ordered_by_value() {
    let ints = [i32::MIN, -2, -1, 0, 1, 127, 128, i32::MAX];
    ordered(&ColumnType::Int, &ints.map(|n| n.to_be_bytes().to_vec()));
    let doubles = [
        f64::NEG_INFINITY,
        -1.5,
        -0.0,
        0.0,
        1e-9,
        2.0,
        f64::INFINITY,
        f64::NAN,
    ];
    ordered(
        &ColumnType::Double,
        &doubles.map(|n| n.to_be_bytes().to_vec()),
    );
    let varints = [
        "-1000000000000",
        "-129",
        "-128",
        "-1",
        "0",
        "1",
        "127",
        "128",
        "99999999999999",
    ];
    ordered(
        &ColumnType::Varint,
        &varints.map(|text| varint_from_digits(text).unwrap()),
    );
}

#[test]
fn decimals_are_ordered_by_value_and_equal_whatever_their_scale() {
    let decimal = |unscaled: &str, scale: i32| {
        [
            scale.to_be_bytes().to_vec(),
            varint_from_digits(unscaled).unwrap(),
        ]
        .concat()
    };
    let values = [
        decimal("-1", -3),
        decimal("-15", 1),
        decimal("-1", 20),
        decimal("0", 5),
        decimal("1", 20),
        decimal("149", 2),
        decimal("15", 1),
        decimal("1", -1),
    ];
    ordered(&ColumnType::Decimal, &values);
    let (a, b) = (decimal("15", 1), decimal("1500", 3));
    assert_eq!(
        compare(&ColumnType::Decimal, Some(&a), Some(&b)),
        Ordering::Equal
    );
}

#[test]
fn texts_are_ordered_by_their_bytes_with_prefixes_first() {
    let texts = ["a", "a\0", "a\0b", "aa", "b"].map(|text| text.as_bytes().to_vec());
    ordered(&ColumnType::Text, &texts);
}

#[test]
fn time_uuids_are_ordered_by_time() {
    let uuid = |low: u32, mid: u16, high: u16| {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&low.to_be_bytes());
        bytes.extend_from_slice(&mid.to_be_bytes());
        bytes.extend_from_slice(&(0x1000 | high).to_be_bytes());
        bytes.extend_from_slice(&[0x80; 8]);
        bytes
    };
    let values = [uuid(9, 0, 0), uuid(1, 1, 0), uuid(0, 0, 1), uuid(5, 0, 1)];
    ordered(&ColumnType::Timeuuid, &values);
}

#[test]
fn digits_and_two_s_complement_are_each_other_s_inverse() {
    for text in [
        "0",
        "1",
        "-1",
        "127",
        "128",
        "-128",
        "-129",
        "255",
        "123456789012345678901234567890",
    ] {
        let bytes = varint_from_digits(text).unwrap();
        let digits = decimal_digits(&bytes);
        assert_eq!(
            if digits.is_empty() { "0" } else { &digits },
            text.trim_start_matches('-')
        );
    }
    assert_eq!(varint_from_digits("-129").unwrap(), [0xff, 0x7f]);
    assert_eq!(varint_from_digits("128").unwrap(), [0, 0x80]);
}

#[test]
fn vints_are_written_in_their_shortest_form_and_read_back() {
    for value in [
        0,
        1,
        127,
        128,
        16_383,
        16_384,
        u64::from(u32::MAX),
        1 << 55,
        1 << 56,
        u64::MAX,
    ] {
        let mut out = Vec::new();
        put_unsigned_vint(value, &mut out);
        let mut rest = out.as_slice();
        assert_eq!(take_unsigned_vint(&mut rest), Some(value));
        assert!(rest.is_empty());
    }
    let mut out = Vec::new();
    put_unsigned_vint(128, &mut out);
    assert_eq!(out, [0x80, 0x80]);
    assert_eq!(
        duration_parts(&encode_duration(-1, -2, -3)),
        Some((-1, -2, -3))
    );
}

#[test]
fn malformed_values_are_refused() {
    let list = ColumnType::List(Arc::new(ColumnType::Int));
    for (ty, bytes) in [
        (ColumnType::Int, vec![1, 2, 3]),
        (ColumnType::Text, vec![0xff]),
        (ColumnType::Ascii, vec![0x80]),
        (ColumnType::Inet, vec![1, 2, 3]),
        (ColumnType::Decimal, vec![1]),
        (ColumnType::Duration, vec![0xff]),
        (ColumnType::Time, vec![0xff; 8]),
        (list.clone(), vec![0x7f, 0xff, 0xff, 0xff]),
        (list.clone(), vec![0, 0, 0, 1, 0, 0, 0, 2, 0, 0]),
        (list, vec![0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff]),
        (
            ColumnType::Tuple(Arc::from([ColumnType::Int])),
            vec![0, 0, 0, 1, 5],
        ),
        (
            ColumnType::Vector {
                element: Arc::new(ColumnType::Float),
                dimension: 2,
            },
            vec![0; 7],
        ),
    ] {
        assert!(validate(&ty, &bytes).is_err(), "{ty}");
    }
}

#[test]
fn sets_and_maps_are_sorted_and_hold_each_key_once() {
    let int = |n: i32| n.to_be_bytes().to_vec();
    let set = encode_set(&ColumnType::Int, vec![int(3), int(-1), int(3)]);
    assert_eq!(items(&set).unwrap(), [int(-1), int(3)]);
    let map = encode_map(
        &ColumnType::Int,
        vec![(int(2), int(0)), (int(1), int(0)), (int(2), int(9))],
    );
    let expected = [(int(1), int(0)), (int(2), int(9))];
    let found: Vec<_> = entries(&map)
        .unwrap()
        .iter()
        .map(|(k, v)| (k.to_vec(), v.to_vec()))
        .collect();
    assert_eq!(found, expected);
}
