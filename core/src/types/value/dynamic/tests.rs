use std::sync::Arc;

use super::*;
use crate::seed::{Random, Seed};
use crate::types::encode::{EncodedValues, RowWriter};

const SEEDS: u64 = 400;

#[test]
fn every_value_survives_being_written_and_read() {
    for seed in 0..SEEDS {
        let mut random = Seed::from_u64(seed).random();
        let ty = any_type(&mut random, 4);
        let value = any_value(&mut random, &ty, true);
        let mut bytes = Vec::new();
        value
            .encode(&ty, &mut bytes)
            .unwrap_or_else(|error| panic!("seed {seed}, {ty}, {value:?}: {error}"));
        let back = if value == Value::Null {
            None
        } else {
            bytes.get(4..)
        };
        let read = Value::decode(&ty, back)
            .unwrap_or_else(|error| panic!("seed {seed}, {ty}, {value:?}: {error}"));
        assert_eq!(read, value, "seed {seed}, {ty}");
    }
}

#[test]
fn a_row_of_values_is_written_as_its_values_one_by_one() {
    for seed in 0..SEEDS {
        let mut random = Seed::from_u64(seed).random();
        let mut values = EncodedValues::new();
        let mut expected = Vec::new();
        for index in 0..random.index(24) {
            let ty = any_type(&mut random, 2);
            let value = any_value(&mut random, &ty, true);
            RowWriter::new(&mut values).write(&ty, &value).unwrap();
            let start = expected.len();
            value.encode(&ty, &mut expected).unwrap();
            let alone = if value == Value::Null {
                None
            } else {
                expected.get(start + 4..)
            };
            assert_eq!(values.value_at(index), alone, "seed {seed}, value {index}");
        }
        assert_eq!(values.values().bytes, expected, "seed {seed}");
    }
}

#[test]
fn a_value_that_is_cut_short_or_changed_is_refused_or_read_as_another_but_never_out_of_step() {
    let (mut refused, mut read) = (0, 0);
    for seed in 0..SEEDS {
        let mut random = Seed::from_u64(seed).random();
        let ty = any_type(&mut random, 4);
        let mut bytes = Vec::new();
        any_value(&mut random, &ty, false)
            .encode(&ty, &mut bytes)
            .unwrap();
        let mut bytes = bytes.split_off(4);
        for _ in 0..20 {
            match random.index(3) {
                0 => bytes.truncate(random.index(bytes.len() + 1)),
                1 => bytes.push(any_byte(&mut random)),
                _ => {
                    let place = random.index(bytes.len().max(1));
                    if let Some(byte) = bytes.get_mut(place) {
                        *byte = any_byte(&mut random);
                    }
                }
            }
            match Value::decode(&ty, Some(&bytes)) {
                Err(_) => refused += 1,
                Ok(value) => {
                    read += 1;
                    let mut again = Vec::new();
                    value
                        .encode(&ty, &mut again)
                        .unwrap_or_else(|error| panic!("seed {seed}, {ty}: {error}"));
                    let again = Value::decode(&ty, again.get(4..)).unwrap();
                    assert!(
                        same_text(&again, &value),
                        "seed {seed}, {ty}: {again:?}, {value:?}"
                    );
                }
            }
        }
    }
    assert!(
        100 < refused && 100 < read,
        "{refused} refused, {read} read"
    );
}

/// Compares what is shown, where NaN equals itself.
fn same_text(left: &Value, right: &Value) -> bool {
    format!("{left:?}") == format!("{right:?}")
}

fn any_byte(random: &mut Random) -> u8 {
    u8::try_from(random.below(256)).unwrap()
}

fn any_type(random: &mut Random, depth: usize) -> ColumnType {
    let plain = [
        ColumnType::Ascii,
        ColumnType::BigInt,
        ColumnType::Blob,
        ColumnType::Boolean,
        ColumnType::Counter,
        ColumnType::Decimal,
        ColumnType::Double,
        ColumnType::Float,
        ColumnType::Int,
        ColumnType::Timestamp,
        ColumnType::Uuid,
        ColumnType::Text,
        ColumnType::Varint,
        ColumnType::Timeuuid,
        ColumnType::Inet,
        ColumnType::Date,
        ColumnType::Time,
        ColumnType::SmallInt,
        ColumnType::TinyInt,
        ColumnType::Duration,
        ColumnType::Custom("org.example.Type".into()),
    ];
    if depth == 0 || random.index(2) == 0 {
        return random.choose(&plain).unwrap().clone();
    }
    let first = any_type(random, depth - 1);
    let second = any_type(random, depth - 1);
    match random.index(6) {
        0 => ColumnType::List(Arc::new(first)),
        1 => ColumnType::Set(Arc::new(first)),
        2 => ColumnType::Map(Arc::new((first, second))),
        3 => ColumnType::Tuple([first, second].into()),
        4 => {
            let fields = vec![("a".into(), first), ("b".into(), second)];
            ColumnType::Udt(Arc::new(UdtType {
                keyspace: "ks".into(),
                name: "u".into(),
                fields,
            }))
        }
        _ => {
            // Vectors of empty vectors are refused as elements of no size.
            let dimension = 1 + u32::try_from(random.index(3)).unwrap();
            ColumnType::Vector {
                element: Arc::new(first),
                dimension,
            }
        }
    }
}

fn any_value(random: &mut Random, ty: &ColumnType, may_be_null: bool) -> Value {
    if may_be_null && random.index(8) == 0 {
        return Value::Null;
    }
    if has_empty(ty) && random.index(16) == 0 && may_be_null {
        return Value::Empty;
    }
    let number = random.next_u64().cast_signed() >> random.index(64);
    let small = i32::try_from(number >> 32).unwrap();
    match ty {
        ColumnType::Ascii => Value::Ascii("ab c".get(random.index(4)..).unwrap().to_owned()),
        ColumnType::Text => Value::Text("é😀 x".repeat(random.index(4))),
        ColumnType::Blob => Value::Blob(any_bytes(random)),
        ColumnType::Custom(_) => Value::Custom(any_bytes(random)),
        ColumnType::BigInt => Value::BigInt(number),
        ColumnType::Counter => Value::Counter(number),
        ColumnType::Boolean => Value::Boolean(number % 2 == 0),
        ColumnType::Int => Value::Int(small),
        ColumnType::SmallInt => Value::SmallInt(i16::try_from(small >> 16).unwrap()),
        ColumnType::TinyInt => Value::TinyInt(i8::try_from(small >> 24).unwrap()),
        ColumnType::Double => Value::Double(f64::from(small) / 3.0),
        ColumnType::Float => Value::Float(f32::from(i16::try_from(small >> 16).unwrap()) / 3.0),
        ColumnType::Timestamp => Value::Timestamp(Timestamp(number)),
        ColumnType::Time => Value::Time(Time(number)),
        ColumnType::Date => Value::Date(Date(small)),
        ColumnType::Duration => Value::Duration(Duration {
            months: small,
            days: -small.saturating_abs(),
            nanos: number,
        }),
        ColumnType::Uuid => Value::Uuid(random.uuid()),
        ColumnType::Timeuuid => Value::Timeuuid(random.uuid()),
        ColumnType::Inet if number % 2 == 0 => Value::Inet(IpAddr::from(small.to_be_bytes())),
        ColumnType::Inet => Value::Inet(IpAddr::from(random.uuid().into_bytes())),
        ColumnType::Varint => Value::Varint(Varint::from_bytes(&any_bytes(random))),
        ColumnType::Decimal => Value::Decimal(Decimal {
            scale: small,
            unscaled: Varint::from_bytes(&any_bytes(random)),
        }),
        ColumnType::List(element) => Value::List(any_values(random, element)),
        ColumnType::Set(element) => Value::Set(any_values(random, element)),
        ColumnType::Vector { element, dimension } => Value::Vector(
            (0..*dimension)
                .map(|_| any_value(random, element, false))
                .collect(),
        ),
        ColumnType::Map(types) => {
            let entry = |random: &mut Random| {
                (
                    any_value(random, &types.0, false),
                    any_value(random, &types.1, true),
                )
            };
            Value::Map((0..random.index(3)).map(|_| entry(random)).collect())
        }
        ColumnType::Tuple(types) => {
            Value::Tuple(types.iter().map(|ty| any_value(random, ty, true)).collect())
        }
        ColumnType::Udt(udt) => Value::Udt {
            keyspace: udt.keyspace.to_string(),
            name: udt.name.to_string(),
            fields: udt
                .fields
                .iter()
                .map(|(name, ty)| (name.to_string(), any_value(random, ty, true)))
                .collect(),
        },
    }
}

fn any_values(random: &mut Random, ty: &ColumnType) -> Vec<Value> {
    (0..random.index(4))
        .map(|_| any_value(random, ty, true))
        .collect()
}

fn any_bytes(random: &mut Random) -> Bytes {
    (0..random.index(20)).map(|_| any_byte(random)).collect()
}
