//! Owns the target `row_plan`: rows of any columns and cells are read into structs, tuples and rows without a type.

use std::collections::BTreeMap;
use std::net::IpAddr;

use bytes::Bytes;
use messina_core::types::{
    ColumnSpec, Date, Decimal, Duration, FromRow, FromValue, MaybeEmpty, Row, Rows, Time,
    Timestamp, Value, Varint,
};
use uuid::Uuid;

use crate::input::Input;
use crate::types::read_type;

/// Reads rows: the number of columns, for each a name and a type, the number of rows, then the cells.
pub fn row_plan(data: &[u8]) {
    let mut input = Input::new(data);
    let count = input.below(COLUMNS_MAX);
    let columns: Vec<ColumnSpec> = (0..count)
        .map(|_| ColumnSpec {
            keyspace: "ks".into(),
            table: "t".into(),
            name: input.choose(&NAMES).into(),
            ty: read_type(&mut input, DEPTH_MAX),
        })
        .collect();
    let rows = usize::from(input.byte());
    let cells = Bytes::copy_from_slice(input.rest());
    walk::<Row<'_>>(&columns, rows, &cells);
    walk::<Vec<Value>>(&columns, rows, &cells);
    walk::<ByName<'_>>(&columns, rows, &cells);
    walk::<InOrder>(&columns, rows, &cells);
    walk::<(i32, Option<String>)>(&columns, rows, &cells);
    walk::<(Uuid, Timestamp, IpAddr)>(&columns, rows, &cells);
    walk::<(Vec<i32>,)>(&columns, rows, &cells);
    walk::<(BTreeMap<String, Option<i64>>,)>(&columns, rows, &cells);
    walk::<(Date, Time, Duration)>(&columns, rows, &cells);
    walk::<(Varint, Decimal)>(&columns, rows, &cells);
    walk::<(MaybeEmpty<i32>, Option<f64>)>(&columns, rows, &cells);
    walk::<((i32, Option<String>),)>(&columns, rows, &cells);
}

fn walk<'p, T: FromRow<'p>>(columns: &'p [ColumnSpec], count: usize, cells: &'p Bytes) {
    let Ok(rows) = Rows::<T>::new(columns, count, cells) else {
        return;
    };
    assert!(rows.count() <= count, "more rows than there are");
}

#[derive(FromRow)]
#[expect(dead_code, reason = "only reading it matters")]
struct ByName<'r> {
    a: Option<i32>,
    #[cql(rename = "b", default)]
    text: Option<&'r str>,
    #[cql(default)]
    c: Vec<Address>,
}

#[derive(FromRow)]
#[cql(order)]
#[expect(dead_code, reason = "only reading it matters")]
struct InOrder {
    a: i32,
    b: Option<Address>,
}

#[derive(FromValue, Default)]
#[expect(dead_code, reason = "only reading it matters")]
struct Address {
    f0: Option<i32>,
    f1: Option<String>,
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const COLUMNS_MAX: usize = 12;
const DEPTH_MAX: usize = 8;
