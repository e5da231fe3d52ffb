//! Fields whose types are no values or no rows.

use messina_tokio::{FromRow, FromValue, ToRow, ToValue};

struct Foreign;

#[derive(FromRow)]
struct Read {
    id: i32,
    foreign: Foreign,
}

#[derive(ToRow)]
struct Written {
    id: i32,
    foreign: Foreign,
}

#[derive(FromValue)]
struct ReadField {
    list: Vec<Foreign>,
}

#[derive(ToValue)]
#[cql(transparent)]
struct WrittenField {
    foreign: Foreign,
}

#[derive(FromRow)]
struct FlatRead {
    #[cql(flatten)]
    id: i32,
}

#[derive(ToRow)]
struct FlatWritten {
    #[cql(flatten)]
    pair: (i32, i32),
}

fn main() {}
