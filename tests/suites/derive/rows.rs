//! Structs as rows.

use std::borrow::Cow;
use std::marker::PhantomData;

use messina_core::types::{
    ColumnType, DecodeErrorKind, EncodeErrorKind, FromRow, FromValue, MaybeUnset, NamedRow, Row,
    ToRow, ToValue, TypeErrorKind,
};

use crate::support::{ONE, THREE, TWO, bound, columns, page, row, rows};

const INT: ColumnType = ColumnType::Int;
const TEXT: ColumnType = ColumnType::Text;

#[derive(Debug, PartialEq, FromRow, ToRow)]
#[cql(rename_all = "camelCase")]
struct Named<'r> {
    user_id: i32,
    display_name: &'r str,
    #[cql(rename = "AGE")]
    age_in_years: i32,
}

#[test]
fn names_are_put_in_a_case_unless_they_are_given() {
    let markers = columns([("userId", INT), ("displayName", TEXT), ("AGE", INT)]);
    let cells = page(&[ONE, Some(b"ada"), TWO]);
    let named: Named<'_> = row(&markers, &cells).unwrap();
    let expected = Named {
        user_id: 1,
        display_name: "ada",
        age_in_years: 2,
    };
    assert_eq!(named, expected);
    assert_eq!(bound(&markers, &named).unwrap(), cells);
}

macro_rules! cases {
    ($($case:literal $name:ident $field:literal;)*) => {$(
        #[derive(ToRow)]
        #[cql(rename_all = $case)]
        struct $name {
            http_port2: i32,
        }

        assert_eq!($name::name_at(0), Some($field));
        assert_eq!($name { http_port2: 1 }.http_port2, 1);
    )*};
}

#[test]
fn every_case_writes_the_words_of_a_name_in_its_way() {
    cases! {
        "lowercase" Lower "http_port2";
        "UPPERCASE" Upper "HTTP_PORT2";
        "PascalCase" Pascal "HttpPort2";
        "camelCase" Camel "httpPort2";
        "snake_case" Snake "http_port2";
        "SCREAMING_SNAKE_CASE" Shouty "HTTP_PORT2";
        "kebab-case" Kebab "http-port2";
        "SCREAMING-KEBAB-CASE" ShoutyKebab "HTTP-PORT2";
    }
}

#[derive(Debug, PartialEq, FromRow, ToRow)]
struct Key {
    tenant: i32,
    id: i32,
}

#[derive(Debug, PartialEq, FromRow, ToRow)]
struct Audit<'a> {
    #[cql(flatten)]
    by: Author<'a>,
    version: i32,
}

#[derive(Debug, PartialEq, FromRow, ToRow)]
struct Author<'a> {
    author: &'a str,
}

#[derive(Debug, PartialEq, FromRow, ToRow)]
struct Document<'a, K> {
    title: Cow<'a, str>,
    #[cql(flatten)]
    key: K,
    #[cql(flatten)]
    audit: Audit<'a>,
    #[cql(skip)]
    seen: bool,
}

fn document() -> Document<'static, Key> {
    Document {
        title: "t".into(),
        key: Key { tenant: 1, id: 2 },
        audit: Audit {
            by: Author { author: "ada" },
            version: 3,
        },
        seen: false,
    }
}

#[test]
fn flattened_fields_are_read_from_the_same_columns_in_any_order() {
    let straight = columns([
        ("title", TEXT),
        ("tenant", INT),
        ("id", INT),
        ("version", INT),
        ("author", TEXT),
    ]);
    let cells = page(&[Some(b"t"), ONE, TWO, THREE, Some(b"ada")]);
    assert_eq!(
        row::<Document<'_, Key>>(&straight, &cells).unwrap(),
        document()
    );
    let mixed = columns([
        ("author", TEXT),
        ("id", INT),
        ("other", INT),
        ("title", TEXT),
        ("version", INT),
        ("tenant", INT),
    ]);
    let one: [Option<&[u8]>; 6] = [Some(b"ada"), TWO, None, Some(b"t"), THREE, ONE];
    let cells = page(&[one, one].concat());
    let read: Vec<_> = rows::<Document<'_, Key>>(&mixed, 2, &cells)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(read, [document(), document()]);
}

#[test]
fn flattened_fields_are_written_beside_the_others() {
    let straight = columns([
        ("title", TEXT),
        ("tenant", INT),
        ("id", INT),
        ("version", INT),
        ("author", TEXT),
    ]);
    let cells = page(&[Some(b"t"), ONE, TWO, THREE, Some(b"ada")]);
    assert_eq!(bound(&straight, &document()).unwrap(), cells);
    let mixed = columns([
        ("author", TEXT),
        ("id", INT),
        ("title", TEXT),
        ("id", INT),
        ("version", INT),
        ("tenant", INT),
    ]);
    let cells = page(&[Some(b"ada"), TWO, Some(b"t"), TWO, THREE, ONE]);
    assert_eq!(bound(&mixed, &document()).unwrap(), cells);
    assert_eq!(Document::<Key>::COUNT, 5);
    assert_eq!(Document::<Key>::name_at(5), None);
}

#[test]
fn a_flattened_name_that_is_missing_is_told() {
    let narrow = columns([
        ("title", TEXT),
        ("tenant", INT),
        ("id", INT),
        ("version", INT),
    ]);
    let error = rows::<Document<'_, Key>>(&narrow, 0, &page(&[])).unwrap_err();
    assert!(matches!(error.kind(), TypeErrorKind::Missing { name } if &**name == "author"));
    assert!(error.rust_type().contains("Author"), "{error}");
    let error = bound(&narrow, &document()).unwrap_err();
    assert!(matches!(error.kind(), EncodeErrorKind::NameUnknown { name } if &**name == "author"));
    let wide = columns([
        ("title", TEXT),
        ("tenant", INT),
        ("id", INT),
        ("version", INT),
        ("author", TEXT),
        ("more", INT),
    ]);
    let error = bound(&wide, &document()).unwrap_err();
    assert!(matches!(error.kind(), EncodeErrorKind::ValueMissing));
    assert_eq!(error.column(), Some("more"));
}

#[test]
fn a_cell_of_a_flattened_field_that_does_not_decode_spoils_its_row_only() {
    let specs = columns([
        ("title", TEXT),
        ("tenant", INT),
        ("id", INT),
        ("version", INT),
        ("author", TEXT),
    ]);
    let good: [Option<&[u8]>; 5] = [Some(b"t"), ONE, TWO, THREE, Some(b"ada")];
    let bad: [Option<&[u8]>; 5] = [Some(b"t"), ONE, None, THREE, Some(b"ada")];
    let cells = page(&[bad, good].concat());
    let mut read = rows::<Document<'_, Key>>(&specs, 2, &cells).unwrap();
    let error = read.next().unwrap().unwrap_err();
    assert_eq!(error.column(), Some("id"));
    assert_eq!(read.next().unwrap().unwrap(), document());
    assert!(read.next().is_none());
    // A page that ends inside of a flattened field's cell has no more rows.
    let cut = cells.slice(..cells.len() - 1);
    let mut read = rows::<Document<'_, Key>>(&specs, 2, &cut).unwrap();
    assert!(read.next().unwrap().is_err());
    assert!(matches!(
        read.next().unwrap().unwrap_err().kind(),
        DecodeErrorKind::Malformed(_)
    ));
    assert!(read.next().is_none());
}

#[derive(FromRow)]
struct WithRest<'r> {
    id: i32,
    #[cql(flatten)]
    all: Row<'r>,
}

#[test]
fn a_dynamic_row_can_be_flattened_to_see_every_column() {
    let specs = columns([("id", INT), ("extra", TEXT)]);
    let cells = page(&[ONE, Some(b"x")]);
    let read: WithRest<'_> = row(&specs, &cells).unwrap();
    assert_eq!(read.id, 1);
    assert_eq!(read.all.read::<&str>("extra").unwrap(), "x");
}

fn seven() -> i32 {
    7
}

#[derive(Debug, PartialEq, FromRow)]
struct Defaults<T> {
    id: i32,
    #[cql(default)]
    plain: T,
    #[cql(default = seven)]
    chosen: i32,
    #[cql(default = "Vec::new")]
    list: Vec<i32>,
}

#[test]
fn a_default_stands_for_a_null_and_for_a_missing_column() {
    let expected = Defaults {
        id: 1,
        plain: String::new(),
        chosen: 7,
        list: Vec::new(),
    };
    let list = ColumnType::List(INT.into());
    let all = columns([
        ("id", INT),
        ("plain", TEXT),
        ("chosen", INT),
        ("list", list.clone()),
    ]);
    let nulls = page(&[ONE, None, None, None]);
    assert_eq!(row::<Defaults<String>>(&all, &nulls).unwrap(), expected);
    let shuffled = columns([
        ("chosen", INT),
        ("plain", TEXT),
        ("id", INT),
        ("list", list),
    ]);
    let nulls = page(&[None, None, ONE, None]);
    assert_eq!(
        row::<Defaults<String>>(&shuffled, &nulls).unwrap(),
        expected
    );
    let missing = columns([("id", INT)]);
    assert_eq!(
        row::<Defaults<String>>(&missing, &page(&[ONE])).unwrap(),
        expected
    );
    let given = page(&[ONE, Some(b"x"), TWO, None]);
    let read: Defaults<String> = row(&all, &given).unwrap();
    assert_eq!((read.plain.as_str(), read.chosen), ("x", 2));
    // What has no default is needed.
    assert!(rows::<Defaults<String>>(&all[1..], 0, &given).is_err());
}

#[derive(Debug, PartialEq, FromRow, ToRow)]
#[cql(transparent)]
struct Wrapper<T>(T, #[cql(skip)] PhantomData<u8>);

#[test]
fn a_transparent_struct_is_the_row_that_it_holds() {
    let specs = columns([("id", INT), ("tenant", INT)]);
    let cells = page(&[TWO, ONE]);
    let read: Wrapper<Key> = row(&specs, &cells).unwrap();
    assert_eq!(read, Wrapper(Key { tenant: 1, id: 2 }, PhantomData));
    assert_eq!(bound(&specs, &read).unwrap(), cells);
    let pair: Wrapper<(i32, i32)> = row(&specs, &cells).unwrap();
    assert_eq!(pair.0, (2, 1));
}

#[derive(ToRow)]
struct Change<'a, T: ToValue> {
    id: i32,
    name: MaybeUnset<&'a str>,
    note: Option<T>,
}

#[test]
fn null_and_unset_are_written_as_they_are() {
    let markers = columns([("note", TEXT), ("name", TEXT), ("id", INT)]);
    let change = Change::<String> {
        id: 1,
        name: MaybeUnset::Unset,
        note: None,
    };
    let expected: Vec<u8> = [-1_i32, -2, 4, 1]
        .iter()
        .flat_map(|part| part.to_be_bytes())
        .collect();
    assert_eq!(bound(&markers, &change).unwrap(), expected);
}

#[derive(Debug, PartialEq, FromRow)]
struct Positional<'r, T: FromValue<'r>, const N: usize>(T, [i32; N], #[cql(default)] &'r str);

#[test]
fn the_fields_of_a_tuple_struct_are_the_columns_in_order() {
    let vector = ColumnType::Vector {
        element: INT.into(),
        dimension: 2,
    };
    let specs = columns([("a", INT), ("b", vector), ("c", TEXT)]);
    let cells = page(&[ONE, Some(&[0, 0, 0, 1, 0, 0, 0, 2]), None]);
    let read: Positional<'_, i32, 2> = row(&specs, &cells).unwrap();
    assert_eq!(read, Positional(1, [1, 2], ""));
    let error = rows::<Positional<'_, i32, 2>>(&specs[..2], 0, &cells).unwrap_err();
    assert!(matches!(error.kind(), TypeErrorKind::Count { .. }));
}
