//! Enums as values.

use std::collections::HashMap;

use messina_core::types::{
    ColumnType, DecodeErrorKind, EncodeErrorKind, FromRow, FromValue, ToRow, ToValue,
};

use crate::support::{ONE, bound, columns, page, read, row, written};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromValue, ToValue)]
#[cql(rename_all = "snake_case")]
enum Color {
    Red,
    DarkBlue,
    #[cql(rename = "grün")]
    Green,
    r#None,
}

#[test]
fn an_enum_is_text_by_the_names_of_its_variants() {
    for (color, text) in [
        (Color::Red, "red"),
        (Color::DarkBlue, "dark_blue"),
        (Color::Green, "grün"),
        (Color::r#None, "none"),
    ] {
        assert_eq!(
            read::<Color>(&ColumnType::Text, text.as_bytes()).unwrap(),
            color
        );
        assert_eq!(written(&ColumnType::Text, &color).unwrap(), text.as_bytes());
    }
    assert_eq!(
        read::<Color>(&ColumnType::Ascii, b"red").unwrap(),
        Color::Red
    );
    assert_eq!(written(&ColumnType::Ascii, &Color::Red).unwrap(), b"red");
    let error = written(&ColumnType::Ascii, &Color::Green).unwrap_err();
    assert!(matches!(error.kind(), EncodeErrorKind::NotAscii));
    assert!(<Color as FromValue>::check(&ColumnType::Int).is_err());
    assert!(<Color as ToValue>::check(&ColumnType::Blob).is_err());
    assert!(written(&ColumnType::Blob, &Color::Red).is_err());
}

const FIRST: i8 = -3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, FromValue, ToValue)]
#[cql(tinyint)]
enum Level {
    Low = FIRST as isize,
    Middle,
    High = 127,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, FromValue, ToValue)]
#[cql(smallint)]
#[repr(u8)]
enum Small {
    A = 200,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, FromValue, ToValue)]
#[cql(int)]
enum Plain {
    Zero,
    One,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, FromValue, ToValue)]
#[cql(bigint)]
#[repr(i64)]
enum Wide {
    Least = i64::MIN,
    Most = i64::MAX,
}

#[test]
fn an_enum_is_a_number_of_the_type_it_names() {
    for (level, byte) in [(Level::Low, -3_i8), (Level::Middle, -2), (Level::High, 127)] {
        let bytes = byte.to_be_bytes();
        assert_eq!(read::<Level>(&ColumnType::TinyInt, &bytes).unwrap(), level);
        assert_eq!(written(&ColumnType::TinyInt, &level).unwrap(), bytes);
    }
    assert_eq!(written(&ColumnType::SmallInt, &Small::A).unwrap(), [0, 200]);
    assert_eq!(
        read::<Small>(&ColumnType::SmallInt, &[0, 200]).unwrap(),
        Small::A
    );
    for (plain, number) in [(Plain::Zero, 0_i32), (Plain::One, 1)] {
        let bytes = number.to_be_bytes();
        assert_eq!(read::<Plain>(&ColumnType::Int, &bytes).unwrap(), plain);
        assert_eq!(written(&ColumnType::Int, &plain).unwrap(), bytes);
    }
    for (wide, number) in [(Wide::Least, i64::MIN), (Wide::Most, i64::MAX)] {
        let bytes = number.to_be_bytes();
        assert_eq!(read::<Wide>(&ColumnType::BigInt, &bytes).unwrap(), wide);
        assert_eq!(written(&ColumnType::BigInt, &wide).unwrap(), bytes);
    }
    // Nothing is widened or narrowed in silence.
    assert!(<Plain as FromValue>::check(&ColumnType::BigInt).is_err());
    assert!(written(&ColumnType::SmallInt, &Plain::One).is_err());
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, FromValue, ToValue)]
#[cql(text)]
enum Numbered {
    Three = 3,
}

#[test]
fn an_enum_with_numbers_can_be_text_all_the_same() {
    assert_eq!(
        written(&ColumnType::Text, &Numbered::Three).unwrap(),
        b"Three"
    );
}

#[derive(Debug, PartialEq, FromRow, ToRow)]
struct Car {
    id: i32,
    color: Color,
    level: Option<Level>,
}

#[test]
fn an_unknown_value_is_told_with_its_column_and_the_enum() {
    let specs = columns([
        ("id", ColumnType::Int),
        ("color", ColumnType::Text),
        ("level", ColumnType::TinyInt),
    ]);
    let cells = page(&[ONE, Some(b"red"), None]);
    let car: Car = row(&specs, &cells).unwrap();
    assert_eq!(
        car,
        Car {
            id: 1,
            color: Color::Red,
            level: None
        }
    );
    assert_eq!(bound(&specs, &car).unwrap(), cells);
    let cells = page(&[ONE, Some(b"mauve\n"), None]);
    let error = row::<Car>(&specs, &cells).unwrap_err();
    assert!(
        matches!(error.kind(), DecodeErrorKind::UnknownVariant { value } if &**value == "mauve\n")
    );
    assert_eq!(
        error.to_string(),
        "column \"color\": no variant of the enum stands for \"mauve\\n\" (derive::enums::Color, CQL type text)"
    );
    let cells = page(&[ONE, Some(b"red"), Some(&[9])]);
    let error = row::<Car>(&specs, &cells).unwrap_err();
    assert_eq!(
        error.to_string(),
        "column \"level\": no variant of the enum stands for \"9\" (derive::enums::Level, CQL type tinyint)"
    );
}

#[test]
fn an_unknown_text_of_any_length_makes_a_short_error() {
    let text = "ü".repeat(100_000);
    let error = read::<Color>(&ColumnType::Text, text.as_bytes()).unwrap_err();
    let DecodeErrorKind::UnknownVariant { value } = error.kind() else {
        panic!("{error}");
    };
    assert_eq!(**value, format!("{}...", "ü".repeat(64)));
}

#[test]
fn null_empty_and_broken_values_of_an_enum_are_told_with_the_enum() {
    for error in [
        Color::from_value(&ColumnType::Text, None).unwrap_err(),
        read::<Color>(&ColumnType::Text, &[0xff]).unwrap_err(),
        read::<Color>(&ColumnType::Text, &[]).unwrap_err(),
    ] {
        assert_eq!(error.rust_type(), Some("derive::enums::Color"), "{error}");
    }
    let error = read::<Plain>(&ColumnType::Int, &[]).unwrap_err();
    assert!(matches!(error.kind(), DecodeErrorKind::Empty), "{error}");
    let error = read::<Plain>(&ColumnType::Int, &[0; 8]).unwrap_err();
    assert!(matches!(
        error.kind(),
        DecodeErrorKind::Size {
            expected: 4,
            actual: 8
        }
    ));
}

#[test]
fn enums_are_keys_and_elements_like_any_value() {
    let ty = ColumnType::Map((ColumnType::Text, ColumnType::TinyInt).into());
    let map = HashMap::from([(Color::DarkBlue, Level::High)]);
    let bytes = written(&ty, &map).unwrap();
    assert_eq!(read::<HashMap<Color, Level>>(&ty, &bytes).unwrap(), map);
}
