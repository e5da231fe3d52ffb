//! Structs as values: user-defined types and what is around one value.

use messina_core::types::{
    ColumnType, DecodeErrorKind, EncodeErrorKind, FromValue, ToValue, TypeErrorKind,
};

use crate::support::{ONE, THREE, TWO, page, read, udt, written};

const INT: ColumnType = ColumnType::Int;
const TEXT: ColumnType = ColumnType::Text;

#[derive(Debug, PartialEq, FromValue, ToValue)]
struct Point {
    x: i32,
    y: i32,
}

#[derive(Debug, PartialEq, FromValue, ToValue)]
#[cql(rename_all = "UPPERCASE")]
struct Label<'a, T> {
    text: &'a str,
    #[cql(default)]
    size: T,
}

#[derive(Debug, PartialEq, FromValue, ToValue)]
struct Mark<'a, T> {
    id: i32,
    #[cql(flatten)]
    at: Point,
    #[cql(flatten)]
    label: Label<'a, T>,
    #[cql(skip)]
    shown: bool,
}

fn mark(size: i32) -> Mark<'static, i32> {
    Mark {
        id: 1,
        at: Point { x: 2, y: 3 },
        label: Label { text: "l", size },
        shown: false,
    }
}

#[test]
fn flattened_fields_are_fields_of_the_same_user_type() {
    let ty = udt([
        ("TEXT", TEXT),
        ("y", INT),
        ("other", INT),
        ("id", INT),
        ("x", INT),
        ("SIZE", INT),
    ]);
    let bytes = page(&[Some(b"l"), THREE, None, ONE, TWO, TWO]);
    assert_eq!(read::<Mark<'_, i32>>(&ty, &bytes).unwrap(), mark(2));
    assert_eq!(written(&ty, &mark(2)).unwrap(), bytes);
    // A value that is older than its last field.
    let old = page(&[Some(b"l"), THREE, None, ONE, TWO]);
    assert_eq!(read::<Mark<'_, i32>>(&ty, &old).unwrap(), mark(0));
}

#[test]
fn a_flattened_field_that_the_type_does_not_have_is_told() {
    let ty = udt([("TEXT", TEXT), ("SIZE", INT), ("id", INT), ("x", INT)]);
    let error = <Mark<'_, i32> as FromValue>::check(&ty).unwrap_err();
    assert!(matches!(error.kind(), TypeErrorKind::Missing { name } if &**name == "y"));
    let error = written(&ty, &mark(1)).unwrap_err();
    assert!(matches!(error.kind(), EncodeErrorKind::Type(_)));
    // A default stands for what is missing when reading; writing would lose it.
    let ty = udt([("TEXT", TEXT), ("id", INT), ("x", INT), ("y", INT)]);
    let bytes = page(&[Some(b"l"), ONE, TWO, THREE]);
    assert_eq!(read::<Mark<'_, i32>>(&ty, &bytes).unwrap(), mark(0));
    assert!(written(&ty, &mark(1)).is_err());
}

#[test]
fn a_null_inside_of_a_user_type_is_told_with_its_field() {
    let ty = udt([("x", INT), ("y", INT)]);
    let error = read::<Point>(&ty, &page(&[ONE, None])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "field \"y\": the value is null (i32, CQL type int)"
    );
    let null = <Option<Point> as FromValue>::from_value(&ty, None).unwrap();
    assert_eq!(null, None);
    let error = <Point as FromValue>::from_value(&ty, None).unwrap_err();
    assert!(matches!(error.kind(), DecodeErrorKind::Null));
}

#[derive(Clone, Debug, PartialEq, FromValue, ToValue)]
#[cql(transparent)]
struct Email<'a> {
    address: &'a str,
    #[cql(skip)]
    verified: bool,
}

#[derive(Debug, PartialEq, FromValue, ToValue)]
struct All<T>(Vec<T>);

#[test]
fn a_struct_around_one_value_is_that_value() {
    let email = Email {
        address: "ada@example.com",
        verified: false,
    };
    assert_eq!(read::<Email<'_>>(&TEXT, b"ada@example.com").unwrap(), email);
    assert_eq!(written(&TEXT, &email).unwrap(), b"ada@example.com");
    let list = ColumnType::List(TEXT.into());
    let bytes = written(&list, &All(vec![email.clone()])).unwrap();
    assert_eq!(
        read::<All<Email<'_>>>(&list, &bytes).unwrap(),
        All(vec![email])
    );
    assert!(<All<Email<'_>> as FromValue>::check(&TEXT).is_err());
}

#[derive(Debug, PartialEq, FromValue, ToValue)]
#[cql(order)]
struct Size {
    width: i32,
    #[cql(default = thirty)]
    height: i32,
}

fn thirty() -> i32 {
    30
}

#[test]
fn fields_in_order_take_what_stands_at_their_place() {
    let ty = udt([("a", INT), ("b", INT)]);
    let size = Size {
        width: 1,
        height: 30,
    };
    assert_eq!(read::<Size>(&ty, &page(&[ONE, None])).unwrap(), size);
    let bytes = page(&[ONE, TWO]);
    let size = read::<Size>(&ty, &bytes).unwrap();
    assert_eq!(size.height, 2);
    assert_eq!(written(&ty, &size).unwrap(), bytes);
}
