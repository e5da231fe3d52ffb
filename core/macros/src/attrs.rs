//! The `#[cql(..)]` attributes of structs and fields.

use syn::meta::ParseNestedMeta;
use syn::{Attribute, LitStr, Path};

/// What is said about a whole struct.
#[derive(Default)]
pub(crate) struct StructAttrs {
    /// Fields are matched by place rather than by name.
    pub(crate) order: bool,
    /// The path of the API.
    pub(crate) krate: Option<Path>,
}

/// What is said about a field.
#[derive(Default)]
pub(crate) struct FieldAttrs {
    pub(crate) rename: Option<LitStr>,
    pub(crate) skip: bool,
    pub(crate) default: bool,
}

impl StructAttrs {
    pub(crate) fn new(attrs: &[Attribute]) -> syn::Result<Self> {
        let mut parsed = Self::default();
        each(attrs, |meta| {
            if meta.path.is_ident("order") {
                parsed.order = true;
            } else if meta.path.is_ident("crate") {
                parsed.krate = Some(path(&meta)?);
            } else {
                return Err(
                    meta.error("unknown attribute; a struct takes `order` and `crate = path`")
                );
            }
            Ok(())
        })?;
        Ok(parsed)
    }
}

impl FieldAttrs {
    pub(crate) fn new(attrs: &[Attribute]) -> syn::Result<Self> {
        let mut parsed = Self::default();
        each(attrs, |meta| {
            if meta.path.is_ident("rename") {
                parsed.rename = Some(meta.value()?.parse()?);
            } else if meta.path.is_ident("skip") {
                parsed.skip = true;
            } else if meta.path.is_ident("default") {
                parsed.default = true;
            } else {
                let message =
                    "unknown attribute; a field takes `rename = \"name\"`, `skip` and `default`";
                return Err(meta.error(message));
            }
            Ok(())
        })?;
        Ok(parsed)
    }
}

fn each(
    attrs: &[Attribute],
    mut take: impl FnMut(ParseNestedMeta<'_>) -> syn::Result<()>,
) -> syn::Result<()> {
    attrs
        .iter()
        .filter(|attr| attr.path().is_ident("cql"))
        .try_for_each(|attr| attr.parse_nested_meta(&mut take))
}

/// Reads a path, bare or in quotes.
fn path(meta: &ParseNestedMeta<'_>) -> syn::Result<Path> {
    let value = meta.value()?;
    if value.peek(LitStr) {
        return value.parse::<LitStr>()?.parse();
    }
    value.call(Path::parse_mod_style)
}
