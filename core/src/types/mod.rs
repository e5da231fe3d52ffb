//! Values and rows: CQL types, their Rust counterparts, and how both are checked, written and read.
//!
//! Types are compared once per page or statement; cells are then read where they lie. Requests and responses around
//! the values are [`crate::wire`]'s.
//!
//! # Which type is which
//!
//! | CQL | Rust | behind a feature |
//! |---|---|---|
//! | `ascii`, `text` | `&str`, `String`, `Box<str>`, `Arc<str>`, `Cow<str>`, enums with the derives | `secrecy-10`: `SecretString` |
//! | `blob`, custom types | `&[u8]`, `Vec<u8>`, [`Bytes`](bytes::Bytes); `[u8; N]` to write | `secrecy-10`: `SecretSlice<u8>` |
//! | `tinyint`, `smallint`, `int`, `bigint` | `i8`, `i16`, `i32`, `i64`, enums with the derives | |
//! | `counter` | `i64` | |
//! | `varint` | [`Varint`] | `num-bigint-04`: `BigInt` |
//! | `decimal` | [`Decimal`] | `bigdecimal-04`: `BigDecimal` |
//! | `boolean`, `float`, `double` | `bool`, `f32`, `f64` | |
//! | `uuid`, `timeuuid` | [`Uuid`](uuid::Uuid) | |
//! | `inet` | `IpAddr`, `Ipv4Addr`, `Ipv6Addr` | |
//! | `date` | [`Date`] | `chrono-04`: `NaiveDate`; `time-03`: `Date` |
//! | `time` | [`Time`] | `chrono-04`: `NaiveTime`; `time-03`: `Time` |
//! | `timestamp` | [`Timestamp`], `SystemTime` | `chrono-04`: `DateTime<Utc>`, any `DateTime` to write; `time-03`: `OffsetDateTime`, `UtcDateTime` |
//! | `duration` | [`Duration`] | |
//! | `list` | `Vec`, [`Items`] to read without a copy; slices and arrays to write | |
//! | `set` | `BTreeSet`, `HashSet`, `Vec`, [`Items`] | |
//! | `map` | `BTreeMap`, `HashMap`, [`Entries`] to read without a copy | |
//! | `vector` | arrays, `Vec`, [`Items`]; slices to write | |
//! | `tuple` | tuples of up to 16 | |
//! | user-defined types | structs with the derives | |
//! | any of these | [`Value`], and what is transparent: `Box`, `&T` and `Arc` to write, structs around one value | `secrecy-10`: `SecretBox<T>`; `serde`: [`Value`] in other formats |
//!
//! Nothing is widened or narrowed in silence: an `int` is an `i32` and no `i64`. Where a value is outside of what a
//! type can hold (a date of the year five million as a `NaiveDate`, a number above 64 bits for a `bigint`), reading
//! or writing it is an error of the kind `OutOfRange`, and never another value. Instants are cut to the millisecond
//! they fall into. What other crates bring is public here under the name of its feature: `types::chrono_04`.
//!
//! # Null, unset and empty
//!
//! | | what it is | to read | to write |
//! |---|---|---|---|
//! | null | there is no value | `Option`; an empty collection for a collection, since one that is not frozen does not keep the difference; for everything else an error | `Option`; deletes what the column holds |
//! | unset | the column stays as it is | never | [`Unset`], [`MaybeUnset`]; only as a whole value, not inside of one |
//! | empty | the zero-length value that old data may have in columns of numbers, times, ids and addresses | [`MaybeEmpty`]; for everything else an error | [`MaybeEmpty`] |
//!
//! Text and blobs of no length are ordinary values. A vector has no null elements. Fields of a user-defined type that
//! a value is too old to have are null.
//!
//! # Structs and enums
//!
//! [`FromRow`] and [`ToRow`] make a struct a row, [`FromValue`] and [`ToValue`] make it a user-defined type, or an
//! enum a text or a number. Structs may have lifetimes, which are those of the page, and generic parameters.
//!
//! | attribute | on | meaning |
//! |---|---|---|
//! | `rename = "name"` | field, variant | the name of the column, field or text |
//! | `rename_all = "camelCase"` | struct, enum | names are those of the fields or variants in this case |
//! | `skip` | field | neither read nor written; `Default` when read |
//! | `default`, `default = function` | field | stands for a null and for a missing column when read |
//! | `flatten` | field | the fields of this struct stand beside the others, in the same row or user-defined type |
//! | `order` | struct | fields are found by place instead of by name; tuple structs that are rows always are |
//! | `transparent` | struct | the struct is what its only field is; tuple structs around one value always are |
//! | `text`, `tinyint`, `smallint`, `int`, `bigint` | enum | as what it is stored; text by default, numbers are those of the variants |
//! | `crate = path` | struct, enum | where this interface is found, if not by the manifest of the caller |
//!
//! By name, columns that no field asks for are skipped when reading, and every field must have a column unless it has
//! a default. In writing, markers and fields must match one to one. Columns are compared with the struct once per page.
//!
//! ```
//! # #[cfg(feature = "derive")] {
//! use messina_core::{FromRow, FromValue, ToRow, ToValue};
//!
//! #[derive(FromValue, ToValue)]
//! struct Address {
//!     street: String,
//!     #[cql(default)]
//!     zip: Option<i32>,
//! }
//!
//! #[derive(FromValue, ToValue)]
//! #[cql(rename_all = "snake_case")]
//! enum State {
//!     Active,
//!     LockedOut,
//! }
//!
//! #[derive(FromRow, ToRow)]
//! struct Key {
//!     tenant: i32,
//!     id: i64,
//! }
//!
//! #[derive(FromRow, ToRow)]
//! struct User<'r> {
//!     #[cql(flatten)]
//!     key: Key,
//!     name: &'r str,
//!     state: State,
//!     #[cql(rename = "home", default)]
//!     address: Option<Address>,
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

#[cfg(feature = "bigdecimal-04")]
#[doc(no_inline)]
pub use bigdecimal as bigdecimal_04;
#[cfg(feature = "chrono-04")]
#[doc(no_inline)]
pub use chrono as chrono_04;
#[cfg(feature = "num-bigint-04")]
#[doc(no_inline)]
pub use num_bigint as num_bigint_04;
#[cfg(feature = "secrecy-10")]
#[doc(no_inline)]
pub use secrecy as secrecy_10;
#[cfg(feature = "time-03")]
#[doc(no_inline)]
pub use time as time_03;

pub use crate::error::value::{
    BindError, DecodeError, DecodeErrorKind, EncodeError, EncodeErrorKind, PathStep, TypeError,
    TypeErrorKind,
};
pub use crate::wire::result::ColumnSpec;
