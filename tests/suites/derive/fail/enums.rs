//! Enums that are no values.

use messina_tokio::{FromRow, FromValue, ToRow, ToValue};

#[derive(FromRow)]
enum Row {
    A,
}

#[derive(ToRow)]
union Rows {
    a: i32,
}

#[derive(FromValue)]
union Value {
    a: i32,
}

#[derive(FromValue)]
enum Nothing {}

#[derive(ToValue)]
enum Holding {
    A,
    B(i32),
    C { d: i32 },
}

#[derive(FromValue)]
enum Undecided {
    A = 1,
}

#[derive(ToValue)]
#[cql(int, rename_all = "snake_case")]
enum NamedNumber {
    #[cql(rename = "a")]
    A = 1,
}

#[derive(ToValue)]
enum SameText {
    A,
    #[cql(rename = "A")]
    B,
}

#[derive(FromValue)]
#[cql(order, transparent)]
enum LikeAStruct {
    A,
}

fn main() {}
