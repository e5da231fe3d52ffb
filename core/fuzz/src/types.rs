//! Owns a compact notation of column types in inputs, in both directions.

use std::sync::Arc;

use messina_core::types::{ColumnType, UdtType};

use crate::input::Input;

/// The types without parts, by their number.
const SIMPLE: [ColumnType; 20] = [
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
];

const LIST: u8 = 20;
const SET: u8 = 21;
const MAP: u8 = 22;
const TUPLE: u8 = 23;
const UDT: u8 = 24;
const VECTOR: u8 = 25;
const CUSTOM: u8 = 26;
const KINDS: u8 = 27;
/// A dimension of a byte; this one says that four bytes follow.
const LONG: u8 = 255;

/// Reads a type, at most `depth` types deep.
pub fn read_type(input: &mut Input<'_>, depth: usize) -> ColumnType {
    let kind = input.byte() % KINDS;
    if let Some(simple) = SIMPLE.get(usize::from(kind)) {
        return simple.clone();
    }
    let Some(depth) = depth.checked_sub(1) else {
        return ColumnType::Int;
    };
    match kind {
        LIST => ColumnType::List(Arc::new(read_type(input, depth))),
        SET => ColumnType::Set(Arc::new(read_type(input, depth))),
        MAP => {
            let key = read_type(input, depth);
            ColumnType::Map(Arc::new((key, read_type(input, depth))))
        }
        TUPLE => {
            let count = input.below(8);
            ColumnType::Tuple((0..count).map(|_| read_type(input, depth)).collect())
        }
        UDT => {
            let count = input.below(8);
            let fields =
                (0..count).map(|at| (Arc::from(format!("f{at}")), read_type(input, depth)));
            ColumnType::Udt(Arc::new(UdtType {
                keyspace: "ks".into(),
                name: "t".into(),
                fields: fields.collect(),
            }))
        }
        VECTOR => {
            let dimension = match input.byte() {
                LONG => input.int(),
                short => short.into(),
            };
            let element = Arc::new(read_type(input, depth));
            ColumnType::Vector { element, dimension }
        }
        _ => ColumnType::Custom("com.example.Odd".into()),
    }
}

/// Writes a type as [`read_type`] reads it; names are not kept.
pub fn write_type(ty: &ColumnType, out: &mut Vec<u8>) {
    if let Some(at) = SIMPLE.iter().position(|simple| simple == ty) {
        out.extend(u8::try_from(at));
        return;
    }
    let count = |len: usize| u8::try_from(len).expect("samples have few parts");
    match ty {
        ColumnType::List(element) => {
            out.push(LIST);
            write_type(element, out);
        }
        ColumnType::Set(element) => {
            out.push(SET);
            write_type(element, out);
        }
        ColumnType::Map(types) => {
            out.push(MAP);
            write_type(&types.0, out);
            write_type(&types.1, out);
        }
        ColumnType::Tuple(parts) => {
            out.extend([TUPLE, count(parts.len())]);
            parts.iter().for_each(|part| write_type(part, out));
        }
        ColumnType::Udt(udt) => {
            out.extend([UDT, count(udt.fields.len())]);
            udt.fields
                .iter()
                .for_each(|(_, field)| write_type(field, out));
        }
        ColumnType::Vector { element, dimension } => {
            out.extend([VECTOR, LONG]);
            out.extend(dimension.to_be_bytes());
            write_type(element, out);
        }
        _ => out.push(CUSTOM),
    }
}
