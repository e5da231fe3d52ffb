//! The derives of messina-core: structs as rows (`FromRow`, `ToRow`) and structs and enums as values (`FromValue`, `ToValue`).
//!
//! They only write code that calls `types::row`, `types::udt` and `types::enums` of the core; what the calls do is
//! told there.
#![forbid(unsafe_code)]

use proc_macro::TokenStream;
use syn::{Data, DeriveInput, parse_macro_input};

mod attrs;
mod case;
mod errors;
mod from_row;
mod from_value;
mod input;
mod krate;
mod to_row;
mod to_value;
mod variants;

use crate::input::Input;
use crate::variants::Variants;

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
/// | `#[cql(default)]`, `#[cql(default = function)]` | field | a missing column or a null gives the `Default`, or what the function returns |
/// | `#[cql(flatten)]` | field | the field is itself a row, read from the same columns by name; costs a pass over the row's cells |
/// | `#[cql(rename_all = "camelCase")]` | struct | the columns have the names of the fields in this case |
/// | `#[cql(order)]` | struct | the fields are the columns in their order, whatever their names |
/// | `#[cql(transparent)]` | struct | the struct is read as the row that its only field is |
/// | `#[cql(crate = path)]` | struct | where the driver's API is found, if not by the manifest |
///
/// The cases are `lowercase`, `UPPERCASE`, `PascalCase`, `camelCase`, `snake_case`, `SCREAMING_SNAKE_CASE`,
/// `kebab-case` and `SCREAMING-KEBAB-CASE`. A skipped field of a generic type asks for `Default` of that type.
#[proc_macro_derive(FromRow, attributes(cql))]
pub fn derive_from_row(input: TokenStream) -> TokenStream {
    rows(parse_macro_input!(input), from_row::expand)
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
/// | `#[cql(flatten)]` | field | the values of the field, a struct with `derive(ToRow)`, stand beside those of this struct |
/// | `#[cql(rename_all = "camelCase")]` | struct | the markers have the names of the fields in this case |
/// | `#[cql(order)]` | struct | the fields are the markers in their order, whatever their names |
/// | `#[cql(transparent)]` | struct | the struct is written as the row that its only field is |
/// | `#[cql(crate = path)]` | struct | where the driver's API is found, if not by the manifest |
///
/// A struct whose values have names implements `NamedRow` too, which is what `flatten` asks for. Where a name occurs
/// both in the struct and in a flattened field, the struct's own field is written. `default` is for reading and
/// changes nothing here.
#[proc_macro_derive(ToRow, attributes(cql))]
pub fn derive_to_row(input: TokenStream) -> TokenStream {
    rows(parse_macro_input!(input), to_row::expand)
}

/// Reads values of a user-defined type into a struct, of one type into a struct around it, or names and numbers into
/// an enum.
///
/// A struct with named fields is a user-defined type: each field is read from the field of its name, and fields that
/// the struct does not know are skipped. Fields that a value is too old to have are null. A tuple struct with one
/// field, and a struct that is `#[cql(transparent)]`, is read as that field. The attributes are those of `FromRow`;
/// a flattened field is read from the same value of the user-defined type.
///
/// An enum whose variants hold nothing is read from `text`, by the names of its variants. A value that is none of
/// them is an error that names the value, the enum and the column.
///
/// | attribute | on | meaning |
/// |---|---|---|
/// | `#[cql(rename = "name")]` | variant | the variant is stored as this text |
/// | `#[cql(rename_all = "snake_case")]` | enum | the texts are the names of the variants in this case |
/// | `#[cql(tinyint)]`, `#[cql(smallint)]`, `#[cql(int)]`, `#[cql(bigint)]` | enum | stored as this type, by the number of the variant |
/// | `#[cql(text)]` | enum | stored as text although the variants have numbers |
#[proc_macro_derive(FromValue, attributes(cql))]
pub fn derive_from_value(input: TokenStream) -> TokenStream {
    values(
        parse_macro_input!(input),
        from_value::expand,
        Variants::expand_from_value,
    )
}

/// Writes a struct as a value of a user-defined type or as the one value that it holds, or an enum as its name or number.
///
/// A struct with named fields is a user-defined type: each field is written as the field of its name, and fields
/// that the struct does not have are null. A tuple struct with one field, and a struct that is
/// `#[cql(transparent)]`, is written as that field. The attributes are those of `ToRow`, for enums those of
/// `FromValue`. A struct whose fields have names implements `NamedFields` too, which is what `flatten` asks for.
#[proc_macro_derive(ToValue, attributes(cql))]
pub fn derive_to_value(input: TokenStream) -> TokenStream {
    values(
        parse_macro_input!(input),
        to_value::expand,
        Variants::expand_to_value,
    )
}

fn rows(input: DeriveInput, expand: fn(&Input) -> proc_macro2::TokenStream) -> TokenStream {
    let name = input.ident.span();
    let expanded = match &input.data {
        Data::Struct(data) => {
            Input::new(input.ident, &input.attrs, input.generics, data).map(|input| expand(&input))
        }
        Data::Enum(_) | Data::Union(_) => Err(syn::Error::new(
            name,
            "a row is a struct; enums are values: `FromValue` and `ToValue`",
        )),
    };
    finish(expanded)
}

fn values(
    input: DeriveInput,
    of_struct: fn(&Input) -> proc_macro2::TokenStream,
    of_enum: fn(&Variants) -> proc_macro2::TokenStream,
) -> TokenStream {
    let name = input.ident.span();
    let expanded = match &input.data {
        Data::Struct(data) => Input::new(input.ident, &input.attrs, input.generics, data)
            .and_then(Input::into_value)
            .map(|input| of_struct(&input)),
        Data::Enum(data) => Variants::new(input.ident, &input.attrs, &input.generics, data)
            .map(|variants| of_enum(&variants)),
        Data::Union(_) => Err(syn::Error::new(name, "a union has no CQL value")),
    };
    finish(expanded)
}

fn finish(expanded: syn::Result<proc_macro2::TokenStream>) -> TokenStream {
    expanded
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
