//! Where the driver's API is found from the caller's crate.

use proc_macro_crate::{FoundCrate, crate_name};
use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;

/// The packages that offer the API, the most direct one first.
const PACKAGES: [&str; 5] = [
    "messina-core",
    "messina-tokio",
    "messina-smol",
    "messina-async-std",
    "messina-engine",
];

/// Returns the path of the first of these packages that the caller's manifest depends on, or is.
pub(crate) fn path() -> TokenStream {
    let found = PACKAGES
        .iter()
        .find_map(|package| match crate_name(package) {
            // Each of them names itself, so that the same path works inside of it, in its examples and in its tests.
            Ok(FoundCrate::Itself) => Some(package.replace('-', "_")),
            Ok(FoundCrate::Name(name)) => Some(name),
            Err(_) => None,
        });
    let name = found.unwrap_or_else(|| "messina_core".to_owned());
    let name = Ident::new(&name, Span::call_site());
    quote!(::#name)
}
