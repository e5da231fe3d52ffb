//! Attributes that are unknown, said twice, or say nothing.

use messina_tokio::{FromRow, FromValue, ToRow, ToValue};

#[derive(FromRow)]
#[cql(ordered)]
struct UnknownOfStruct {
    id: i32,
}

#[derive(ToRow)]
struct UnknownOfField {
    #[cql(name = "id")]
    id: i32,
    #[cql(rename = "a", rename = "b")]
    twice: i32,
    #[cql(rename)]
    nothing: i32,
}

#[derive(FromValue)]
#[cql(rename_all = "Train-Case")]
struct UnknownCase {
    id: i32,
}

#[derive(ToValue)]
enum UnknownOfVariant {
    #[cql(skip)]
    A,
}

fn main() {}
