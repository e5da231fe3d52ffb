//! Values and rows: CQL types, their Rust counterparts, and how both are checked, written and read.
//!
//! Types are compared once per page or statement; cells are then read where they lie. Requests and responses around
//! the values are [`crate::wire`]'s.
//!
//! | CQL | Rust |
//! |---|---|
//! | `ascii`, `text` | `&str`, `String`, `Box<str>`, `Arc<str>`, `Cow<str>` |
//! | `blob`, custom types | `&[u8]`, `Vec<u8>`, `Bytes` |
//! | `tinyint`, `smallint`, `int` | `i8`, `i16`, `i32` |
//! | `bigint`, `counter` | `i64` |
//! | `varint`, `decimal` | [`Varint`], [`Decimal`] |
//! | `boolean`, `float`, `double` | `bool`, `f32`, `f64` |
//! | `uuid`, `timeuuid` | `Uuid` |
//! | `inet` | `IpAddr`, `Ipv4Addr`, `Ipv6Addr` |
//! | `date`, `time`, `duration` | [`Date`], [`Time`], [`Duration`] |
//! | `timestamp` | [`Timestamp`], `SystemTime` |
//! | `list`, `vector` | `Vec`, slices and arrays to write, [`Items`] to read without a copy; arrays for `vector` |
//! | `set` | `BTreeSet`, `HashSet`, `Vec`, [`Items`] |
//! | `map` | `BTreeMap`, `HashMap`, [`Entries`] |
//! | `tuple` | tuples |
//! | user-defined types | structs with `derive(FromValue, ToValue)` |
//! | any | [`Value`] |
//!
//! `Option` adds null, [`MaybeUnset`] and [`Unset`] leave a column as it is, [`MaybeEmpty`] adds the zero-length
//! value of old data. Null read into a collection gives an empty one, since a collection that is not frozen does not
//! keep the difference.
//!
//! ```
//! # #[cfg(feature = "derive")] {
//! use messina_core::{FromRow, FromValue, ToRow, ToValue};
//!
//! #[derive(FromValue, ToValue)]
//! struct Address {
//!     street: String,
//!     zip: Option<i32>,
//! }
//!
//! #[derive(FromRow)]
//! struct User<'r> {
//!     id: i32,
//!     name: &'r str,
//!     #[cql(rename = "home", default)]
//!     address: Option<Address>,
//! }
//!
//! #[derive(ToRow)]
//! struct NewUser<'a> {
//!     id: i32,
//!     name: &'a str,
//! }
//! # }
//! ```

pub mod column_type;
pub mod custom_type;
pub mod decode;
pub mod encode;
pub mod enums;
mod impls;
pub mod row;
pub mod udt;
pub mod value;

pub use column_type::{ColumnType, UdtType};
pub use custom_type::parse_class_name;
pub use decode::{Cell, Entries, FromValue, Items, Parts};
pub use encode::{ContentWriter, EncodedValues, RowWriter, ToValue, ValueWriter, encode_value};
#[cfg(feature = "derive")]
pub use messina_macros::{FromRow, FromValue, ToRow, ToValue};
pub use row::{FromRow, NamedRow, Row, RowView, Rows, ToRow};
pub use udt::NamedFields;
pub use value::{
    Date, Decimal, Duration, MaybeEmpty, MaybeUnset, NumberRangeError, ParseNumberError, Time,
    TimeRangeError, Timestamp, Unset, Value, Varint,
};

pub use crate::error::value::{
    BindError, DecodeError, DecodeErrorKind, EncodeError, EncodeErrorKind, PathStep, TypeError,
    TypeErrorKind,
};
pub use crate::wire::result::ColumnSpec;
