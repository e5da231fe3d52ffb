//! Owns the sample values: of every type without parts, and of nested ones.

use std::sync::Arc;

use bytes::Bytes;
use messina_core::types::{
    ColumnType, Date, Decimal, Duration, Time, Timestamp, UdtType, Value, Varint,
};
use uuid::Uuid;

use super::Sample;
use crate::types::write_type;

/// Valid values: inputs of `value_decode`.
pub fn values() -> Vec<Sample> {
    all()
        .into_iter()
        .enumerate()
        .map(|(at, (ty, value))| {
            let mut bytes = Vec::new();
            write_type(&ty, &mut bytes);
            let mut cell = Vec::new();
            value
                .encode(&ty, &mut cell)
                .expect("samples fit their types");
            bytes.extend_from_slice(cell.get(4..).unwrap_or_default());
            let kind: String = ty
                .to_string()
                .chars()
                .take_while(char::is_ascii_alphabetic)
                .collect();
            Sample {
                name: format!("{at:02}-{kind}"),
                bytes,
            }
        })
        .collect()
}

fn all() -> Vec<(ColumnType, Value)> {
    let id = Uuid::from_u128(0x0123_4567_89ab_1def_8123_4567_89ab_cdef);
    let varint = || {
        "-123456789012345678901234567890"
            .parse::<Varint>()
            .expect("a number")
    };
    let mut all = vec![
        (ColumnType::Ascii, Value::Ascii("plain".into())),
        (ColumnType::BigInt, Value::BigInt(-5)),
        (ColumnType::Blob, Value::Blob(Bytes::from_static(b"\0\xff"))),
        (ColumnType::Boolean, Value::Boolean(true)),
        (ColumnType::Counter, Value::Counter(12)),
        (
            ColumnType::Decimal,
            Value::Decimal(Decimal {
                scale: -7,
                unscaled: varint(),
            }),
        ),
        (ColumnType::Double, Value::Double(-0.5)),
        (ColumnType::Float, Value::Float(2.5)),
        (ColumnType::Int, Value::Int(i32::MIN)),
        (
            ColumnType::Timestamp,
            Value::Timestamp(Timestamp(1_700_000_000_000)),
        ),
        (ColumnType::Uuid, Value::Uuid(id)),
        (ColumnType::Text, Value::Text("größe".into())),
        (ColumnType::Varint, Value::Varint(varint())),
        (ColumnType::Timeuuid, Value::Timeuuid(id)),
        (ColumnType::Inet, Value::Inet([192, 0, 2, 1].into())),
        (
            ColumnType::Inet,
            Value::Inet([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into()),
        ),
        (ColumnType::Date, Value::Date(Date(19_000))),
        (ColumnType::Time, Value::Time(Time(86_399_999_999_999))),
        (ColumnType::SmallInt, Value::SmallInt(-2)),
        (ColumnType::TinyInt, Value::TinyInt(3)),
        (
            ColumnType::Duration,
            Value::Duration(Duration {
                months: 1,
                days: -2,
                nanos: 3,
            }),
        ),
        (ColumnType::Int, Value::Empty),
        (
            ColumnType::Custom("com.example.Odd".into()),
            Value::Custom(Bytes::from_static(b"odd")),
        ),
    ];
    all.extend(nested());
    all
}

fn nested() -> Vec<(ColumnType, Value)> {
    let text_list = ColumnType::List(Arc::new(ColumnType::Text));
    let texts = || Value::List(vec![Value::from("a"), Value::Null, Value::from("")]);
    let map = ColumnType::Map(Arc::new((
        ColumnType::Text,
        ColumnType::Set(Arc::new(ColumnType::Int)),
    )));
    let entries = Value::Map(vec![
        (
            Value::from("k"),
            Value::Set(vec![Value::Int(1), Value::Int(2)]),
        ),
        (Value::from("l"), Value::Set(vec![])),
    ]);
    let fields = vec![
        ("f0".into(), ColumnType::Int),
        ("f1".into(), text_list.clone()),
    ];
    let udt = ColumnType::Udt(Arc::new(UdtType {
        keyspace: "ks".into(),
        name: "t".into(),
        fields,
    }));
    let home = Value::Udt {
        keyspace: "ks".into(),
        name: "t".into(),
        fields: vec![("f0".into(), Value::Int(9)), ("f1".into(), texts())],
    };
    let vector = |element: ColumnType, dimension| ColumnType::Vector {
        element: Arc::new(element),
        dimension,
    };
    let tuple = ColumnType::Tuple([ColumnType::Duration, udt.clone(), ColumnType::Boolean].into());
    let parts = Value::Tuple(vec![
        Value::Duration(Duration {
            months: 0,
            days: 0,
            nanos: -1,
        }),
        home.clone(),
        Value::Boolean(false),
    ]);
    let floats = |numbers: &[f32]| {
        Value::Vector(numbers.iter().map(|number| Value::Float(*number)).collect())
    };
    let deep = (0..40).fold((ColumnType::Int, Value::Int(1)), |(ty, value), _| {
        (ColumnType::List(Arc::new(ty)), Value::List(vec![value]))
    });
    vec![
        (text_list, texts()),
        (map, entries),
        (udt, home),
        (tuple, parts),
        (vector(ColumnType::Float, 3), floats(&[1.0, -2.0, 0.5])),
        (
            vector(ColumnType::Text, 2),
            Value::Vector(vec![Value::from("x"), Value::from("yz")]),
        ),
        (
            vector(vector(ColumnType::Float, 2), 2),
            Value::Vector(vec![floats(&[1.0, 2.0]), floats(&[3.0, 4.0])]),
        ),
        deep,
    ]
}
