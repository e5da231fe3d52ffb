//! Derives for messina-core: FromRow, ToRow, FromValue, ToValue.
use proc_macro::TokenStream;

/// Reads a struct from a row.
#[proc_macro_derive(FromRow, attributes(cql))]
pub fn from_row(_input: TokenStream) -> TokenStream {
    TokenStream::new()
}
/// Writes a struct as the values of a statement.
#[proc_macro_derive(ToRow, attributes(cql))]
pub fn to_row(_input: TokenStream) -> TokenStream {
    TokenStream::new()
}
/// Reads a struct from a user-defined type.
#[proc_macro_derive(FromValue, attributes(cql))]
pub fn from_value(_input: TokenStream) -> TokenStream {
    TokenStream::new()
}
/// Writes a struct as a user-defined type.
#[proc_macro_derive(ToValue, attributes(cql))]
pub fn to_value(_input: TokenStream) -> TokenStream {
    TokenStream::new()
}
