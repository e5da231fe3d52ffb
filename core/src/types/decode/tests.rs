use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Debug;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::SystemTime;

use uuid::Uuid;

use super::*;
use crate::types::UdtType;
use crate::types::value::{Date, Decimal, Duration, MaybeEmpty, Timestamp, Value, Varint};

fn read<'r, T: FromValue<'r>>(ty: &'r ColumnType, bytes: &'r [u8]) -> Result<T, DecodeError> {
    T::check(ty)?;
    T::from_value(ty, Some(Cell::of_slice(bytes)))
}

fn hex(digits: &str) -> Vec<u8> {
    (0..digits.len() / 2)
        .map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).unwrap())
        .collect()
}

/// Reads a value on its own, so that nothing is borrowed.
fn owned<T>(ty: &ColumnType, digits: &str) -> Result<T, DecodeError>
where
    T: for<'r> FromValue<'r>,
{
    let bytes = hex(digits);
    T::check(ty)?;
    T::from_value(ty, Some(Cell::of_slice(&bytes)))
}

fn refused<T: Debug + for<'r> FromValue<'r>>(ty: &ColumnType, digits: &str) -> DecodeError {
    owned::<T>(ty, digits).unwrap_err()
}

fn list(element: ColumnType) -> ColumnType {
    ColumnType::List(Arc::new(element))
}

fn map(key: ColumnType, value: ColumnType) -> ColumnType {
    ColumnType::Map(Arc::new((key, value)))
}

fn vector(element: ColumnType, dimension: u32) -> ColumnType {
    ColumnType::Vector {
        element: Arc::new(element),
        dimension,
    }
}

fn udt(fields: &[&str]) -> ColumnType {
    let fields = fields
        .iter()
        .map(|name| (Arc::from(*name), ColumnType::Int))
        .collect();
    ColumnType::Udt(Arc::new(UdtType {
        keyspace: "ks".into(),
        name: "u".into(),
        fields,
    }))
}

#[test]
fn a_list_with_an_impossible_count_is_refused() {
    let ty = list(ColumnType::Int);
    for digits in ["ffffffff", "40000000", "00000002000000040000000100000004"] {
        for error in [
            refused::<Vec<i32>>(&ty, digits),
            refused::<Value>(&ty, digits),
        ] {
            assert!(
                matches!(error.kind(), DecodeErrorKind::Malformed(_)),
                "{error}"
            );
        }
    }
    for digits in ["7fffffff", "000000010000000161"] {
        let error = refused::<Value>(&map(ColumnType::Text, ColumnType::Int), digits);
        assert!(
            matches!(error.kind(), DecodeErrorKind::Malformed(_)),
            "{error}"
        );
    }
}

#[test]
fn a_cell_of_the_wrong_size_is_refused_with_both_sizes() {
    fn sizes(error: &DecodeError) -> (usize, usize) {
        match error.kind() {
            DecodeErrorKind::Size { expected, actual } => (*expected, *actual),
            _ => panic!("{error}"),
        }
    }
    assert_eq!(sizes(&refused::<i32>(&ColumnType::Int, "000001")), (4, 3));
    assert_eq!(
        sizes(&refused::<i64>(&ColumnType::BigInt, "00000001")),
        (8, 4)
    );
    assert_eq!(
        sizes(&refused::<Decimal>(&ColumnType::Decimal, "000002")),
        (5, 3)
    );
    assert_eq!(
        sizes(&refused::<Uuid>(&ColumnType::Uuid, &"00".repeat(15))),
        (16, 15)
    );
    assert_eq!(
        sizes(&refused::<Vec<f32>>(
            &vector(ColumnType::Float, 3),
            &"00".repeat(8)
        )),
        (12, 8)
    );
    assert_eq!(
        sizes(&refused::<Value>(
            &vector(ColumnType::Float, 3),
            &"00".repeat(8)
        )),
        (12, 8)
    );
    assert_eq!(
        sizes(&refused::<Timestamp>(
            &ColumnType::Timestamp,
            &"00".repeat(9)
        )),
        (8, 9)
    );
    let error = refused::<i32>(&ColumnType::Int, "000001");
    assert_eq!(
        error.to_string(),
        "the value has 3 bytes where its type has 4 (i32, CQL type int)"
    );
}

#[test]
fn dates_reach_over_the_whole_range_and_around_leap_days() {
    let cases = [
        ("7fffffff", (1969, 12, 31)),
        ("80000000", (1970, 1, 1)),
        ("80002b08", (2000, 2, 29)),
        ("7fff9c5c", (1900, 3, 1)),
        ("7ffdf057", (1600, 2, 29)),
        ("00000000", (-5_877_641, 6, 23)),
        ("ffffffff", (5_881_580, 7, 11)),
    ];
    for (digits, (year, month, day)) in cases {
        let date: Date = owned(&ColumnType::Date, digits).unwrap();
        assert_eq!(date.ymd(), (year, month, day), "{digits}");
        assert_eq!(Date::from_ymd(year, month, day), Some(date));
        assert_eq!(date.to_bytes().as_slice(), hex(digits));
    }
    assert_eq!(Date::from_ymd(5_881_580, 7, 12), None);
    assert_eq!(Date::from_ymd(-5_877_641, 6, 22), None);
    assert_eq!(Date::from_ymd(2023, 2, 29), None);
    assert_eq!(Date::from_ymd(2023, 13, 1), None);
}

#[test]
fn the_extremes_of_a_duration_are_read_whole() {
    let cases = [
        ("010305", (-1, -2, -3)),
        ("0000ffffffffffffffffff", (0, 0, i64::MIN)),
        (
            "f0fffffffef0fffffffefffffffffffffffffe",
            (i32::MAX, i32::MAX, i64::MAX),
        ),
        (
            "f0fffffffff0ffffffffffffffffffffffffff",
            (i32::MIN, i32::MIN, i64::MIN),
        ),
    ];
    for (digits, (months, days, nanos)) in cases {
        let duration: Duration = owned(&ColumnType::Duration, digits).unwrap();
        assert_eq!(
            duration,
            Duration {
                months,
                days,
                nanos
            }
        );
    }
    let error = refused::<Duration>(&ColumnType::Duration, "f1000000000000");
    assert!(
        matches!(error.kind(), DecodeErrorKind::OutOfRange),
        "{error}"
    );
    let error = refused::<Duration>(&ColumnType::Duration, "01030500");
    assert!(
        matches!(error.kind(), DecodeErrorKind::Surplus { bytes: 1 }),
        "{error}"
    );
}

#[test]
fn the_sign_of_a_varint_is_its_first_bit() {
    for (digits, number) in [
        ("80", -128),
        ("0080", 128),
        ("ff7f", -129),
        ("00000001", 1),
        ("ffffff", -1),
    ] {
        let varint: Varint = owned(&ColumnType::Varint, digits).unwrap();
        assert_eq!(i64::try_from(&varint), Ok(number));
        assert_eq!(varint.to_string(), number.to_string());
    }
}

#[test]
fn a_decimal_is_read_with_negative_scales_and_shown() {
    for (digits, text) in [
        ("fffffffe05", "5E2"),
        ("0000000205", "0.05"),
        ("0000000200", "0.00"),
        ("00000000ff", "-1"),
    ] {
        let decimal: Decimal = owned(&ColumnType::Decimal, digits).unwrap();
        assert_eq!(decimal.to_string(), text);
    }
    // A scale like this must cost nothing to show.
    let hostile: Decimal = owned(&ColumnType::Decimal, "8000000005").unwrap();
    assert_eq!(hostile.to_string(), "5E2147483648");
}

#[test]
fn small_integers_are_refused_rather_than_cut() {
    assert!(owned::<i8>(&ColumnType::TinyInt, "0001").is_err());
    assert_eq!(owned::<i8>(&ColumnType::TinyInt, "80").unwrap(), -128);
    assert!(owned::<i16>(&ColumnType::SmallInt, "01").is_err());
    // There is no unsigned reading: the range check is the one of the language.
    assert!(u8::try_from(owned::<i8>(&ColumnType::TinyInt, "80").unwrap()).is_err());
    assert!(owned::<i16>(&ColumnType::TinyInt, "80").is_err());
}

#[test]
fn a_vector_is_read_with_lengths_where_servers_put_them() {
    assert_eq!(
        owned::<Vec<i16>>(&vector(ColumnType::SmallInt, 2), "020001020002").unwrap(),
        [1, 2]
    );
    assert_eq!(
        owned::<[i32; 2]>(&vector(ColumnType::Int, 2), "0000000100000002").unwrap(),
        [1, 2]
    );
    assert_eq!(
        owned::<Vec<bool>>(&vector(ColumnType::Boolean, 3), "010001").unwrap(),
        [true, false, true]
    );
    assert!(<[i32; 3] as FromValue>::check(&vector(ColumnType::Int, 2)).is_err());
}

#[test]
fn a_vector_of_no_elements_is_empty_and_nothing_else() {
    let none = vector(ColumnType::Float, 0);
    assert_eq!(owned::<Vec<f32>>(&none, "").unwrap(), [] as [f32; 0]);
    assert_eq!(
        owned::<Value>(&none, "").unwrap(),
        Value::Vector(Vec::new())
    );
    assert!(owned::<Vec<f32>>(&none, "00000000").is_err());
    // Elements without bytes would make as many values as the type says from nothing.
    assert!(owned::<Value>(&vector(none, u32::MAX), "").is_err());
    assert!(owned::<Value>(&vector(ColumnType::Text, u32::MAX), "00").is_err());
    let huge = vector(
        vector(vector(ColumnType::Uuid, u32::MAX), u32::MAX),
        u32::MAX,
    );
    assert!(owned::<Value>(&huge, "00").is_err());
}

#[test]
fn a_user_type_older_than_its_fields_has_null_for_those_added_later() {
    let ty = udt(&["a", "b"]);
    let fields = |a: Value, b: Value| Value::Udt {
        keyspace: "ks".to_owned(),
        name: "u".to_owned(),
        fields: vec![("a".to_owned(), a), ("b".to_owned(), b)],
    };
    let short = fields(Value::Int(1), Value::Null);
    assert_eq!(owned::<Value>(&ty, "0000000400000001").unwrap(), short);
    assert_eq!(
        owned::<Value>(&ty, "").unwrap(),
        fields(Value::Null, Value::Null)
    );
    let in_list = owned::<Value>(&list(ty.clone()), "00000001000000080000000400000001").unwrap();
    assert_eq!(in_list, Value::List(vec![short.clone()]));
    let in_map = owned::<Value>(
        &map(ColumnType::Int, ty.clone()),
        "000000010000000400000007000000080000000400000001",
    );
    assert_eq!(in_map.unwrap(), Value::Map(vec![(Value::Int(7), short)]));
    assert!(owned::<Value>(&ty, "00000004000000010000000400000002ff").is_err());
    assert!(owned::<Value>(&ty, "000000040000").is_err());
}

#[test]
fn any_negative_length_inside_a_tuple_is_null() {
    let ty = ColumnType::Tuple([ColumnType::Int, ColumnType::Int].into());
    let cell = "fffffffe0000000400000001";
    assert_eq!(owned::<(Option<i32>, i32)>(&ty, cell).unwrap(), (None, 1));
    assert_eq!(
        owned::<Value>(&ty, cell).unwrap(),
        Value::Tuple(vec![Value::Null, Value::Int(1)])
    );
}

#[test]
fn nulls_inside_collections_are_read_or_refused_with_their_place() {
    let (ints, cell) = (list(ColumnType::Int), "000000020000000400000001ffffffff");
    assert_eq!(
        owned::<Vec<Option<i32>>>(&ints, cell).unwrap(),
        [Some(1), None]
    );
    let error = refused::<Vec<i32>>(&ints, cell);
    assert!(matches!(error.kind(), DecodeErrorKind::Null));
    assert_eq!(error.path().collect::<Vec<_>>(), [&PathStep::Element(1)]);
    assert_eq!(
        error.to_string(),
        "element 1: the value is null (i32, CQL type int)"
    );
    let (ty, cell) = (
        map(ColumnType::Text, ColumnType::Int),
        "00000001000000016bffffffff",
    );
    let expected = HashMap::from([("k".to_owned(), None)]);
    assert_eq!(
        owned::<HashMap<String, Option<i32>>>(&ty, cell).unwrap(),
        expected
    );
    let error = refused::<BTreeMap<String, i32>>(&ty, cell);
    assert_eq!(error.path().collect::<Vec<_>>(), [&PathStep::Value(0)]);
}

#[test]
fn zero_length_text_is_text_and_not_null() {
    let ty = map(ColumnType::Text, ColumnType::Text);
    let read_map =
        owned::<BTreeMap<String, Option<String>>>(&ty, "00000001000000016b00000000").unwrap();
    assert_eq!(
        read_map,
        BTreeMap::from([("k".to_owned(), Some(String::new()))])
    );
    assert_eq!(
        read::<Option<&str>>(&ColumnType::Text, b"").unwrap(),
        Some("")
    );
    assert_eq!(
        read::<Option<&[u8]>>(&ColumnType::Blob, b"").unwrap(),
        Some(&[][..])
    );
    assert_eq!(
        owned::<Value>(&ColumnType::Blob, "").unwrap(),
        Value::Blob(Bytes::new())
    );
}

#[test]
fn a_zero_length_number_is_neither_null_nor_zero() {
    let types = [
        ColumnType::Int,
        ColumnType::BigInt,
        ColumnType::Uuid,
        ColumnType::Timestamp,
        ColumnType::Inet,
        ColumnType::Boolean,
    ];
    for ty in &types {
        assert_eq!(owned::<Value>(ty, "").unwrap(), Value::Empty);
        let mut written = Vec::new();
        Value::Empty.encode(ty, &mut written).unwrap();
        assert_eq!(written, [0; 4]);
    }
    let error = refused::<i32>(&ColumnType::Int, "");
    assert!(matches!(error.kind(), DecodeErrorKind::Empty), "{error}");
    let error = refused::<IpAddr>(&ColumnType::Inet, "");
    assert!(matches!(error.kind(), DecodeErrorKind::Empty), "{error}");
    assert_eq!(
        owned::<MaybeEmpty<i32>>(&ColumnType::Int, "").unwrap(),
        MaybeEmpty::Empty
    );
    assert_eq!(
        owned::<MaybeEmpty<i32>>(&ColumnType::Int, "00000001").unwrap(),
        MaybeEmpty::Value(1)
    );
    assert!(
        Value::Empty
            .encode(&ColumnType::Counter, &mut Vec::new())
            .is_err()
    );
}

#[test]
fn text_that_is_not_utf8_is_refused() {
    let error = refused::<String>(&ColumnType::Text, "c328");
    assert!(matches!(error.kind(), DecodeErrorKind::NotUtf8), "{error}");
    let error = refused::<Value>(&ColumnType::Text, "c328");
    assert!(matches!(error.kind(), DecodeErrorKind::NotUtf8), "{error}");
    let error = refused::<Value>(&ColumnType::Ascii, "80");
    assert!(matches!(error.kind(), DecodeErrorKind::NotAscii), "{error}");
    let error = refused::<String>(&ColumnType::Ascii, "c3a9");
    assert!(matches!(error.kind(), DecodeErrorKind::NotAscii), "{error}");
}

#[test]
fn types_that_nest_without_end_are_refused_and_not_followed() {
    let (mut ty, mut bytes) = (ColumnType::Int, vec![0, 0, 0, 1]);
    for _ in 0..300 {
        ty = list(ty);
        let length = u32::try_from(bytes.len()).unwrap().to_be_bytes();
        bytes = [&[0, 0, 0, 1], &length[..], &bytes].concat();
    }
    let error = Value::decode(&ty, Some(&bytes)).unwrap_err();
    assert!(matches!(error.kind(), DecodeErrorKind::TooDeep), "{error}");
    let mut value = Value::Int(1);
    for _ in 0..300 {
        value = Value::List(vec![value]);
    }
    let error = value.encode(&ty, &mut Vec::new()).unwrap_err();
    assert!(
        matches!(error.kind(), crate::types::EncodeErrorKind::TooDeep),
        "{error}"
    );
}

#[test]
fn a_few_bytes_cannot_unfold_to_nulls_without_end() {
    let wide = ColumnType::Tuple(vec![ColumnType::Int; 60_000].into());
    let one = owned::<Value>(&wide, "").unwrap();
    assert!(matches!(one, Value::Tuple(values) if values.len() == 60_000));
    let error = refused::<Value>(&list(wide), &format!("00000008{}", "00000000".repeat(8)));
    assert!(matches!(error.kind(), DecodeErrorKind::TooLarge), "{error}");
}

#[test]
fn a_shared_cell_points_into_the_page() {
    let page = Bytes::from_static(b"..blob..");
    let cell = Cell::new(&page, &page[2..6]);
    let shared = Bytes::from_value(&ColumnType::Blob, Some(cell)).unwrap();
    assert_eq!(shared, "blob");
    assert_eq!(shared.as_ptr(), page[2..].as_ptr());
    // Bytes from elsewhere are copied rather than trusted.
    assert_eq!(Cell::new(&page, b"other").shared(), "other");
}

#[test]
fn what_follows_a_refused_element_stays_in_step() {
    let ty = list(ColumnType::Ascii);
    let bytes = hex("00000003000000016100000001800000000163");
    let items: Vec<_> = read::<Items<'_, &str>>(&ty, &bytes)
        .unwrap()
        .map(|item| item.ok())
        .collect();
    assert_eq!(items, [Some("a"), None, Some("c")]);
    let ty = map(ColumnType::Ascii, ColumnType::Int);
    let bytes = hex("000000020000000180000000040000000100000001620000000400000002");
    let entries: Vec<_> = read::<Entries<'_, &str, i32>>(&ty, &bytes)
        .unwrap()
        .map(|entry| entry.ok())
        .collect();
    assert_eq!(entries, [None, Some(("b", 2))]);
}

#[test]
fn a_null_collection_is_empty_unless_null_is_asked_for() {
    let ty = list(ColumnType::Int);
    assert_eq!(Vec::<i32>::from_value(&ty, None).unwrap(), [0_i32; 0]);
    assert_eq!(Option::<Vec<i32>>::from_value(&ty, None).unwrap(), None);
    assert!(
        HashSet::<i32>::from_value(&ColumnType::Set(ColumnType::Int.into()), None)
            .unwrap()
            .is_empty()
    );
    assert!(Vec::<f32>::from_value(&vector(ColumnType::Float, 1), None).is_err());
    assert!(owned::<Vec<i32>>(&ty, "").is_err());
    assert!(owned::<Vec<i32>>(&ty, "0000000000").is_err());
}

#[test]
fn a_type_check_says_which_part_does_not_fit() {
    let ty = map(ColumnType::Text, list(ColumnType::BigInt));
    let error = <HashMap<String, Vec<i32>> as FromValue>::check(&ty).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("does not fit the CQL type map<text, list<bigint>> in its value"),
        "{error}"
    );
    let error =
        <(i32, i32) as FromValue>::check(&ColumnType::Tuple([ColumnType::Int].into())).unwrap_err();
    assert_eq!(
        error.to_string(),
        "(i32, i32) has 2 components where tuple<int> has 1"
    );
}

#[test]
fn system_times_before_and_after_the_epoch_keep_their_millisecond() {
    for millis in [0, 1, -1, 1_700_000_000_123, -62_000_000_000_001] {
        let time = Timestamp(millis).system_time().unwrap();
        assert_eq!(Timestamp::from_system_time(time), Some(Timestamp(millis)));
    }
    let between = SystemTime::UNIX_EPOCH - std::time::Duration::from_nanos(1);
    assert_eq!(Timestamp::from_system_time(between), Some(Timestamp(-1)));
    let _ = Timestamp(i64::MIN).system_time();
    let _ = Timestamp(i64::MAX).system_time();
}

#[test]
fn addresses_of_another_family_or_size_are_refused() {
    assert_eq!(
        owned::<Ipv4Addr>(&ColumnType::Inet, "7f000001").unwrap(),
        Ipv4Addr::LOCALHOST
    );
    assert!(owned::<Ipv4Addr>(&ColumnType::Inet, &"00".repeat(16)).is_err());
    let error = refused::<IpAddr>(&ColumnType::Inet, "010203");
    assert!(
        matches!(error.kind(), DecodeErrorKind::AddressSize { actual: 3 }),
        "{error}"
    );
}
