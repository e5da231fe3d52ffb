//! The derives of messina-core: structs as rows (`FromRow`, `ToRow`) and as values (`FromValue`, `ToValue`).
//!
//! They only write code that calls `types::row` and `types::udt` of the core; what the calls do is told there.
#![forbid(unsafe_code)]

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

mod attrs;
mod from_row;
mod from_value;
mod input;
mod krate;
mod to_row;
mod to_value;

use crate::input::Input;

/// Reads rows into a struct.
///
/// Each field is read from the column of its name; the order of the columns does not matter, and columns that no
/// field asks for are skipped. The columns are compared with the struct once per page. Fields may borrow from the
/// page: `&'r str`, `&'r [u8]`. The fields of a tuple struct are the columns in their order.
///
/// | attribute | on | meaning |
/// |---|---|---|
/// | `#[cql(rename = "name")]` | field | the column has this name |
/// | `#[cql(skip)]` | field | not read; gets its `Default` |
/// | `#[cql(default)]` | field | a missing column or a null gives the `Default` |
/// | `#[cql(order)]` | struct | the fields are the columns in their order, whatever their names |
/// | `#[cql(crate = path)]` | struct | where the driver's API is found, if not by the manifest |
#[proc_macro_derive(FromRow, attributes(cql))]
pub fn derive_from_row(input: TokenStream) -> TokenStream {
    derive(parse_macro_input!(input), from_row::expand)
}

/// Writes a struct as the values of a statement.
///
/// Each bind marker takes the field of its name; every field must have a marker, and a name that occurs more than
/// once is written each time. The fields of a tuple struct are the markers in their order.
///
/// | attribute | on | meaning |
/// |---|---|---|
/// | `#[cql(rename = "name")]` | field | the marker has this name |
/// | `#[cql(skip)]` | field | not written |
/// | `#[cql(order)]` | struct | the fields are the markers in their order, whatever their names |
/// | `#[cql(crate = path)]` | struct | where the driver's API is found, if not by the manifest |
#[proc_macro_derive(ToRow, attributes(cql))]
pub fn derive_to_row(input: TokenStream) -> TokenStream {
    derive(parse_macro_input!(input), to_row::expand)
}

/// Reads values of a user-defined type into a struct, or values of one type into a struct around it.
///
/// A struct with named fields is a user-defined type: each field is read from the field of its name, and fields that
/// the struct does not know are skipped. Fields that a value is too old to have are null. A tuple struct with one
/// field is read as that field. The attributes are those of `FromRow`.
#[proc_macro_derive(FromValue, attributes(cql))]
pub fn derive_from_value(input: TokenStream) -> TokenStream {
    derive(parse_macro_input!(input), from_value::expand)
}

/// Writes a struct as a value of a user-defined type, or as the one value that it holds.
///
/// A struct with named fields is a user-defined type: each field is written as the field of its name, and fields
/// that the struct does not have are null. A tuple struct with one field is written as that field. The attributes
/// are those of `ToRow`.
#[proc_macro_derive(ToValue, attributes(cql))]
pub fn derive_to_value(input: TokenStream) -> TokenStream {
    derive(parse_macro_input!(input), to_value::expand)
}

fn derive(
    input: DeriveInput,
    expand: fn(&Input) -> syn::Result<proc_macro2::TokenStream>,
) -> TokenStream {
    Input::new(input)
        .and_then(|input| expand(&input))
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
