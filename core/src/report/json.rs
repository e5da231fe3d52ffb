//! Owns the writing of JSON documents whose keys keep the order in which they were added, without white space.
//! Leaves out what the documents say.

use std::fmt::{self, Write};

use serde_json::{Number, Value};

/// Is a JSON value to be written.
#[derive(Clone, Debug)]
pub(super) enum Json {
    Bool(bool),
    Whole(u64),
    /// Is written as a whole number where it is one; what JSON has no number for is written as null.
    Real(f64),
    Text(String),
    List(Vec<Self>),
    Object(Object),
}

/// Is a JSON object that is being filled.
#[derive(Clone, Debug, Default)]
pub(super) struct Object(Vec<(&'static str, Json)>);

impl Object {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Makes an object that says of which type it is.
    pub(super) fn typed(name: &str) -> Self {
        Self::new().with("type", name)
    }

    pub(super) fn with(mut self, key: &'static str, value: impl Into<Json>) -> Self {
        self.0.push((key, value.into()));
        self
    }

    /// Adds the key only where there is a value.
    pub(super) fn with_some(self, key: &'static str, value: Option<impl Into<Json>>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// Makes an object with this one as its only value.
    pub(super) fn under(self, key: &'static str) -> Self {
        Self::new().with(key, self)
    }
}

macro_rules! from {
    ($($from:ty => $to:expr),+) => {
        $(impl From<$from> for Json {
            fn from(value: $from) -> Self {
                $to(value)
            }
        })+
    };
}

from!(bool => Json::Bool, u64 => Json::Whole, f64 => Json::Real, String => Json::Text, Object => Json::Object);
from!(u16 => |value| Json::Whole(u64::from(value)), &str => |value: &str| Json::Text(value.into()));

impl fmt::Display for Json {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => value.fmt(out),
            Self::Whole(value) => value.fmt(out),
            Self::Real(value) if value.fract() == 0.0 => write!(out, "{value}"),
            Self::Real(value) => match Number::from_f64(*value) {
                Some(number) => number.fmt(out),
                None => out.write_str("null"),
            },
            Self::Text(text) => Value::String(text.clone()).fmt(out),
            Self::List(values) => {
                out.write_char('[')?;
                for (at, value) in values.iter().enumerate() {
                    write!(out, "{}{value}", if at == 0 { "" } else { "," })?;
                }
                out.write_char(']')
            }
            Self::Object(Object(entries)) => {
                out.write_char('{')?;
                for (at, (key, value)) in entries.iter().enumerate() {
                    let comma = if at == 0 { "" } else { "," };
                    write!(out, "{comma}\"{key}\":{value}")?;
                }
                out.write_char('}')
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_their_order_and_there_is_no_white_space() {
        let object = Object::new()
            .with("z", 1_u64)
            .with_some("never", None::<bool>)
            .with("a", Json::List(vec![true.into(), false.into()]))
            .with("m", Object::new());
        assert_eq!(
            Json::from(object).to_string(),
            r#"{"z":1,"a":[true,false],"m":{}}"#
        );
    }

    #[test]
    fn text_is_escaped_and_whole_numbers_have_no_point() {
        assert_eq!(Json::from("a\"\\\u{0}\n").to_string(), r#""a\"\\\u0000\n""#);
        assert_eq!(
            [99.0, 99.5, f64::NAN].map(|value| Json::from(value).to_string()),
            ["99", "99.5", "null"]
        );
    }
}
