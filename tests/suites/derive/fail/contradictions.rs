//! Attributes that contradict one another, all told at once.

use messina_tokio::{FromRow, FromValue, ToRow, ToValue};

#[derive(FromRow)]
struct Names {
    id: i32,
    #[cql(rename = "id")]
    other: i32,
}

#[derive(FromRow)]
#[cql(rename_all = "snake_case")]
struct SameCase {
    a_b: i32,
    aB: i32,
}

#[derive(ToRow)]
struct Fields {
    #[cql(skip, rename = "a", default)]
    skipped: i32,
    #[cql(flatten, default)]
    flattened: (i32,),
}

#[derive(ToValue)]
#[cql(order, rename_all = "camelCase")]
struct Order {
    #[cql(rename = "a")]
    renamed: i32,
    #[cql(flatten)]
    flattened: (i32,),
}

#[derive(FromRow)]
struct Tuple(#[cql(rename = "a")] i32);

#[derive(FromValue)]
#[cql(transparent, order)]
struct Both {
    a: i32,
}

#[derive(FromValue)]
#[cql(transparent)]
struct Two {
    a: i32,
    b: i32,
}

#[derive(FromValue)]
struct Pair(i32, i32);

#[derive(FromValue)]
#[cql(int)]
struct Stored {
    a: i32,
}

fn main() {}
