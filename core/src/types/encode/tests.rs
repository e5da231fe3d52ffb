use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;

use super::*;
use crate::types::value::{Decimal, Duration, MaybeEmpty, MaybeUnset, Unset, Value, Varint};
use crate::types::{ToRow, UdtType};
use crate::wire::result::ColumnSpec;

fn column(name: &str, ty: ColumnType) -> ColumnSpec {
    ColumnSpec {
        keyspace: "ks".into(),
        table: "t".into(),
        name: name.into(),
        ty,
    }
}

fn columns<const N: usize>(columns: [(&str, ColumnType); N]) -> [ColumnSpec; N] {
    columns.map(|(name, ty)| column(name, ty))
}

/// The bytes of a value without the length in front.
fn content<T: ToValue + ?Sized>(value: &T, ty: &ColumnType) -> Result<Vec<u8>, EncodeError> {
    let mut out = Vec::new();
    encode_value(value, ty, &mut out)?;
    assert_eq!(
        out[..4],
        i32::try_from(out.len() - 4).unwrap().to_be_bytes()
    );
    Ok(out.split_off(4))
}

fn hex(digits: &str) -> Vec<u8> {
    (0..digits.len() / 2)
        .map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).unwrap())
        .collect()
}

fn vector(element: ColumnType, dimension: u32) -> ColumnType {
    ColumnType::Vector {
        element: Arc::new(element),
        dimension,
    }
}

#[test]
fn null_unset_and_empty_have_lengths_of_their_own() {
    let ints = columns([
        ("a", ColumnType::Int),
        ("b", ColumnType::Int),
        ("c", ColumnType::Int),
        ("d", ColumnType::Int),
    ]);
    let mut values = EncodedValues::new();
    let row = (
        None::<i32>,
        Unset,
        MaybeEmpty::<i32>::Empty,
        MaybeUnset::Set(7),
    );
    row.to_row(&ints, &mut RowWriter::new(&mut values)).unwrap();
    assert_eq!(
        values.values().bytes,
        hex("fffffffffffffffe000000000000000400000007")
    );
    assert_eq!(values.value_at(0), None);
    assert_eq!(values.value_at(1), None);
    assert_eq!(values.value_at(2), Some(&[][..]));
    assert_eq!(values.value_at(3), Some(&[0, 0, 0, 7][..]));
    assert_eq!(values.value_at(4), None);
}

#[test]
fn varints_are_written_in_their_shortest_form_with_a_sign() {
    let cases = [
        ("0", "00"),
        ("127", "7f"),
        ("128", "0080"),
        ("255", "00ff"),
        ("256", "0100"),
        ("-1", "ff"),
        ("-128", "80"),
        ("-129", "ff7f"),
        ("9223372036854775808", "008000000000000000"),
        ("-9223372036854775809", "ff7fffffffffffffff"),
    ];
    for (number, bytes) in cases {
        let number: Varint = number.parse().unwrap();
        assert_eq!(
            content(&number, &ColumnType::Varint).unwrap(),
            hex(bytes),
            "{number}"
        );
    }
}

#[test]
fn a_number_of_any_size_is_written_as_a_bigint_of_eight_bytes_or_refused() {
    let write = |number: &str| content(&number.parse::<Varint>().unwrap(), &ColumnType::BigInt);
    assert_eq!(write("1").unwrap(), hex("0000000000000001"));
    assert_eq!(write("-1").unwrap(), hex("ffffffffffffffff"));
    assert_eq!(
        write("9223372036854775807").unwrap(),
        hex("7fffffffffffffff")
    );
    let error = write("9223372036854775808").unwrap_err();
    assert!(
        matches!(error.kind(), EncodeErrorKind::OutOfRange),
        "{error}"
    );
}

#[test]
fn the_extremes_of_a_duration_are_written_whole() {
    let cases = [
        (-1, -2, -3, "010305"),
        (0, 0, i64::MIN, "0000ffffffffffffffffff"),
        (
            i32::MAX,
            i32::MAX,
            i64::MAX,
            "f0fffffffef0fffffffefffffffffffffffffe",
        ),
        (
            i32::MIN,
            i32::MIN,
            i64::MIN,
            "f0fffffffff0ffffffffffffffffffffffffff",
        ),
    ];
    for (months, days, nanos, bytes) in cases {
        let duration = Duration {
            months,
            days,
            nanos,
        };
        assert_eq!(
            content(&duration, &ColumnType::Duration).unwrap(),
            hex(bytes)
        );
    }
}

#[test]
fn a_decimal_keeps_its_scale_and_its_trailing_zeros() {
    for (scale, unscaled, bytes) in [
        (-2, 5, "fffffffe05"),
        (2, 5, "0000000205"),
        (2, 0, "0000000200"),
        (0, -1, "00000000ff"),
    ] {
        let number = Decimal {
            scale,
            unscaled: Varint::from(i64::from(unscaled)),
        };
        assert_eq!(content(&number, &ColumnType::Decimal).unwrap(), hex(bytes));
    }
}

#[test]
fn elements_of_a_vector_have_lengths_where_servers_expect_them() {
    assert_eq!(
        content(&[1_i16, 2], &vector(ColumnType::SmallInt, 2)).unwrap(),
        hex("020001020002")
    );
    assert_eq!(
        content(&[1_i32, 2], &vector(ColumnType::Int, 2)).unwrap(),
        hex("0000000100000002")
    );
    assert_eq!(
        content(&vec![true, false, true], &vector(ColumnType::Boolean, 3)).unwrap(),
        hex("010001")
    );
    let nested = vector(vector(ColumnType::Text, 1), 2);
    assert_eq!(
        content(&[["a"], ["bc"]], &nested).unwrap(),
        hex("02016103026263")
    );
    let long = "x".repeat(200);
    let written = content(&[[long.as_str()]], &vector(vector(ColumnType::Text, 1), 1)).unwrap();
    assert_eq!(written[..4], hex("80ca80c8"));
    assert_eq!(written.len(), 204);
}

#[test]
fn a_vector_takes_neither_nulls_nor_another_number_of_elements() {
    let ty = vector(ColumnType::Float, 2);
    let error = content(&vec![Some(1.0_f32), None], &ty).unwrap_err();
    assert!(
        matches!(error.kind(), EncodeErrorKind::NullInVector),
        "{error}"
    );
    let error = content(&vec![1.0_f32], &ty).unwrap_err();
    assert!(
        matches!(
            error.kind(),
            EncodeErrorKind::ElementCount {
                expected: 2,
                actual: 1
            }
        ),
        "{error}"
    );
    let error = content(&[1.0_f32; 3], &ty).unwrap_err();
    assert!(
        matches!(
            error.kind(),
            EncodeErrorKind::ElementCount {
                expected: 2,
                actual: 3
            }
        ),
        "{error}"
    );
}

#[test]
fn only_a_whole_value_can_be_left_unset() {
    let error = content(
        &vec![MaybeUnset::<i32>::Unset],
        &ColumnType::List(ColumnType::Int.into()),
    )
    .unwrap_err();
    assert!(
        matches!(error.kind(), EncodeErrorKind::UnsetInside),
        "{error}"
    );
}

#[test]
fn a_user_type_written_from_a_value_has_null_where_a_field_is_left_out() {
    let field = |name: &str| (Arc::from(name), ColumnType::Int);
    let udt = UdtType {
        keyspace: "ks".into(),
        name: "u".into(),
        fields: vec![field("a"), field("b"), field("c")],
    };
    let ty = ColumnType::Udt(Arc::new(udt));
    let value = |fields: &[(&str, i32)]| Value::Udt {
        keyspace: "ks".to_owned(),
        name: "u".to_owned(),
        fields: fields
            .iter()
            .map(|(name, value)| ((*name).to_owned(), Value::Int(*value)))
            .collect(),
    };
    let written = content(&value(&[("c", 3), ("a", 1)]), &ty).unwrap();
    assert_eq!(written, hex("0000000400000001ffffffff0000000400000003"));
    let error = content(&value(&[("d", 1)]), &ty).unwrap_err();
    assert!(
        matches!(error.kind(), EncodeErrorKind::NameUnknown { name } if &**name == "d"),
        "{error}"
    );
}

#[test]
fn text_is_measured_in_bytes() {
    assert_eq!(content("é😀", &ColumnType::Text).unwrap().len(), 6);
    let error = content("é", &ColumnType::Ascii).unwrap_err();
    assert!(matches!(error.kind(), EncodeErrorKind::NotAscii), "{error}");
}

#[test]
fn a_type_that_does_not_fit_is_refused_even_when_the_value_has_no_elements() {
    let ints = ColumnType::List(ColumnType::Int.into());
    for error in [
        content(&Vec::<String>::new(), &ints).unwrap_err(),
        content(&vec![1_i64], &ints).unwrap_err(),
        content(&1_i64, &ColumnType::Int).unwrap_err(),
        content(&HashSet::from([1]), &ints).unwrap_err(),
        content(&BTreeMap::from([(1, 2)]), &ints).unwrap_err(),
        content("1", &ColumnType::Int).unwrap_err(),
        content(&Value::BigInt(1), &ColumnType::Int).unwrap_err(),
        content(
            &Value::List(Vec::new()),
            &ColumnType::Set(ColumnType::Int.into()),
        )
        .unwrap_err(),
    ] {
        assert!(matches!(error.kind(), EncodeErrorKind::Type(_)), "{error}");
    }
}

#[test]
fn an_error_names_column_rust_type_and_cql_type() {
    let columns = columns([("id", ColumnType::Int), ("name", ColumnType::Text)]);
    let error = (1, 2)
        .to_row(&columns, &mut RowWriter::new(&mut EncodedValues::new()))
        .unwrap_err();
    assert_eq!(error.column(), Some("name"));
    assert_eq!(error.rust_type(), Some("i32"));
    assert_eq!(error.cql_type(), Some(&ColumnType::Text));
    assert_eq!(
        error.to_string(),
        "column \"name\": the value's type does not fit"
    );
    let source = std::error::Error::source(&error).unwrap();
    assert_eq!(source.to_string(), "i32 does not fit the CQL type text");
    assert_eq!(size_of::<EncodeError>(), size_of::<usize>());
    assert_eq!(size_of::<DecodeErrorIsSmall>(), size_of::<usize>());
}

type DecodeErrorIsSmall = crate::error::value::DecodeError;

#[test]
fn values_are_counted_against_the_markers() {
    let columns = columns([("id", ColumnType::Int), ("name", ColumnType::Text)]);
    let mut values = EncodedValues::new();
    let mut out = RowWriter::new(&mut values);
    for error in [
        (1,).to_row(&columns, &mut out).unwrap_err(),
        ().to_row(&columns, &mut out).unwrap_err(),
        vec![1].to_row(&columns, &mut out).unwrap_err(),
        (1, "a", 2).to_row(&columns, &mut out).unwrap_err(),
    ] {
        assert!(
            matches!(
                error.kind(),
                EncodeErrorKind::ValueCount { expected: 2, .. }
            ),
            "{error}"
        );
    }
    assert!(values.is_empty());
}

#[test]
fn maps_bind_by_name_and_refuse_names_that_are_missing_or_unknown() {
    let columns = columns([("id", ColumnType::Int), ("name", ColumnType::Text)]);
    let write = |row: &dyn ToRow| {
        let mut values = EncodedValues::new();
        row.to_row(&columns, &mut RowWriter::new(&mut values))
            .map(|()| values.values().bytes.to_vec())
    };
    let good = HashMap::from([("name", Value::from("a")), ("id", Value::from(1))]);
    assert_eq!(write(&good).unwrap(), hex("00000004000000010000000161"));
    let missing = BTreeMap::from([("id", Value::from(1))]);
    assert!(matches!(
        write(&missing).unwrap_err().kind(),
        EncodeErrorKind::ValueMissing
    ));
    let unknown = BTreeMap::from([
        ("id", Value::from(1)),
        ("name", Value::Null),
        ("x", Value::Null),
    ]);
    assert!(matches!(
        write(&unknown).unwrap_err().kind(),
        EncodeErrorKind::NameUnknown { .. }
    ));
}

#[test]
fn values_of_mixed_types_bind_through_references() {
    let columns = columns([("id", ColumnType::Int), ("name", ColumnType::Text)]);
    let row: [&dyn ToValue; 2] = [&1, &"a"];
    let mut values = EncodedValues::new();
    row.to_row(&columns, &mut RowWriter::new(&mut values))
        .unwrap();
    assert_eq!(values.values().count, 2);
}

#[test]
fn a_failed_value_leaves_the_values_before_it_as_they_were() {
    let mut values = EncodedValues::new();
    RowWriter::new(&mut values)
        .write(&ColumnType::Int, &7)
        .unwrap();
    let list = ColumnType::List(ColumnType::Text.into());
    let ascii = ColumnType::List(ColumnType::Ascii.into());
    RowWriter::new(&mut values).write(&list, &7).unwrap_err();
    RowWriter::new(&mut values)
        .write(&ascii, &["ok", "é"])
        .unwrap_err();
    assert_eq!(values.len(), 1);
    assert_eq!(values.values().bytes, hex("0000000400000007"));
    let mut out = vec![9];
    encode_value(&["ok", "é"], &ascii, &mut out).unwrap_err();
    assert_eq!(out, [9]);
}

#[test]
fn values_move_to_the_heap_and_back_and_stay_where_they_were_said_to_be() {
    let mut values = EncodedValues::new();
    for round in 0..3 {
        let texts: Vec<String> = (0..40_usize).map(|i| "x".repeat(i * (round + 1))).collect();
        for text in &texts {
            RowWriter::new(&mut values)
                .write(&ColumnType::Text, text)
                .unwrap();
        }
        for (index, text) in texts.iter().enumerate() {
            assert_eq!(values.value_at(index), Some(text.as_bytes()));
        }
        assert_eq!(values.len(), 40);
        assert_eq!(values.encoded_len(), values.values().bytes.len());
        values.clear();
        assert!(values.values().bytes.is_empty());
    }
    RowWriter::new(&mut values)
        .write(&ColumnType::Int, &1)
        .unwrap();
    assert_eq!(values.value_at(0), Some(&[0, 0, 0, 1][..]));
}

#[test]
fn a_large_shared_value_is_spliced_without_a_copy() {
    let large = Bytes::from(vec![1; 4096]);
    let columns = columns([
        ("a", ColumnType::Int),
        ("b", ColumnType::Blob),
        ("c", ColumnType::Int),
    ]);
    let mut values = EncodedValues::new();
    (1, large.clone(), 2)
        .to_row(&columns, &mut RowWriter::new(&mut values))
        .unwrap();
    let all = values.values();
    assert_eq!(all.bytes, hex("0000000400000001000010000000000400000002"));
    assert_eq!(all.large.len(), 1);
    assert_eq!(all.large[0].at, 12);
    assert_eq!(all.large[0].bytes.as_ptr(), large.as_ptr());
    assert_eq!(values.value_at(1), Some(&large[..]));
    assert_eq!(values.value_at(2), Some(&[0, 0, 0, 2][..]));
    assert_eq!(values.encoded_len(), 20 + 4096);
    // Short ones and those inside of other values are copied.
    values.clear();
    RowWriter::new(&mut values)
        .write(&ColumnType::Blob, &large.slice(..1024))
        .unwrap();
    RowWriter::new(&mut values)
        .write(&ColumnType::List(ColumnType::Blob.into()), &[large])
        .unwrap();
    assert!(values.values().large.is_empty());
    assert_eq!(values.encoded_len(), 4 + 1024 + 4 + 4 + 4 + 4096);
}

#[test]
fn an_implementation_that_writes_nothing_is_found_out() {
    struct Silent;
    impl ToValue for Silent {
        fn check(_ty: &ColumnType) -> Result<(), TypeError> {
            Ok(())
        }
        fn to_value(&self, _ty: &ColumnType, _out: ValueWriter<'_>) -> Result<(), EncodeError> {
            Ok(())
        }
    }
    let mut values = EncodedValues::new();
    let error = RowWriter::new(&mut values)
        .write(&ColumnType::Int, &Silent)
        .unwrap_err();
    assert!(
        matches!(error.kind(), EncodeErrorKind::NothingWritten),
        "{error}"
    );
    let list = ColumnType::List(ColumnType::Int.into());
    let error = content(&vec![Silent], &list).unwrap_err();
    assert!(
        matches!(error.kind(), EncodeErrorKind::NothingWritten),
        "{error}"
    );
}

#[test]
fn strings_of_a_request_are_measured_in_bytes() {
    use crate::wire::request::{RequestOptionsRef, RequestRef};
    use crate::wire::supported::ProtocolFeatures;
    let body = |request: RequestRef<'_>| {
        let mut out = Vec::new();
        request
            .encode(
                &mut out,
                &ProtocolFeatures::default(),
                0,
                &RequestOptionsRef::default(),
            )
            .unwrap();
        let length = u32::try_from(out.len() - 9).unwrap().to_be_bytes();
        assert_eq!(out[5..9], length);
        out.split_off(9)
    };
    let options = [("é😀".to_owned(), "é".to_owned())];
    assert_eq!(
        body(RequestRef::Startup(&options)),
        hex("00010006c3a9f09f98800002c3a9")
    );
    let prepare = RequestRef::Prepare {
        text: "é😀",
        keyspace: None,
    };
    assert_eq!(body(prepare), hex("00000006c3a9f09f9880"));
}
