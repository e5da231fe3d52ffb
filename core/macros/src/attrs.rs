//! The `#[cql(..)]` attributes of structs, enums, fields and variants. What they mean together is `input`'s and `variants`'.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::ext::IdentExt;
use syn::meta::ParseNestedMeta;
use syn::spanned::Spanned;
use syn::{Attribute, LitStr, Path};

use crate::case::Case;
use crate::errors::Errors;

/// What is said about a whole struct or enum.
#[derive(Default)]
pub(crate) struct ContainerAttrs {
    /// Fields are matched by place rather than by name.
    pub(crate) order: Option<Span>,
    /// The struct is what its only field is.
    pub(crate) transparent: Option<Span>,
    /// How names are made from those of fields or variants.
    pub(crate) rename_all: Option<(Case, Span)>,
    /// As what an enum is stored.
    pub(crate) stored: Option<(Stored, Span)>,
    /// The path of the API.
    pub(crate) krate: Option<Path>,
}

/// The CQL types that an enum can be stored as.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stored {
    Text,
    TinyInt,
    SmallInt,
    Int,
    BigInt,
}

impl Stored {
    fn of_cql(name: &str) -> Option<Self> {
        Some(match name {
            "text" => Self::Text,
            "tinyint" => Self::TinyInt,
            "smallint" => Self::SmallInt,
            "int" => Self::Int,
            "bigint" => Self::BigInt,
            _ => return None,
        })
    }

    /// Returns the name of the CQL type, the variant of `ColumnType` and the Rust type of a number; `None` for text.
    pub(crate) fn number(self) -> Option<(&'static str, TokenStream, TokenStream)> {
        Some(match self {
            Self::Text => return None,
            Self::TinyInt => ("tinyint", quote!(TinyInt), quote!(i8)),
            Self::SmallInt => ("smallint", quote!(SmallInt), quote!(i16)),
            Self::Int => ("int", quote!(Int), quote!(i32)),
            Self::BigInt => ("bigint", quote!(BigInt), quote!(i64)),
        })
    }
}

/// What is said about a field.
#[derive(Default)]
pub(crate) struct FieldAttrs {
    pub(crate) rename: Option<LitStr>,
    pub(crate) skip: Option<Span>,
    pub(crate) default: Option<DefaultAttr>,
    pub(crate) flatten: Option<Span>,
}

/// What a field is without a value.
pub(crate) struct DefaultAttr {
    pub(crate) span: Span,
    /// The function that makes it, where it is not `Default::default`.
    pub(crate) function: Option<Path>,
}

/// What is said about a variant of an enum.
#[derive(Default)]
pub(crate) struct VariantAttrs {
    pub(crate) rename: Option<LitStr>,
}

impl ContainerAttrs {
    pub(crate) fn new(attrs: &[Attribute], errors: &mut Errors) -> Self {
        let mut parsed = Self::default();
        each(attrs, errors, |meta| {
            let span = meta.path.span();
            let name = name_of(&meta);
            match name.as_str() {
                "order" => once(&mut parsed.order, span, &meta),
                "transparent" => once(&mut parsed.transparent, span, &meta),
                "crate" => {
                    let path = path(&meta)?;
                    once(&mut parsed.krate, path, &meta)
                }
                "rename_all" => {
                    let text: LitStr = meta.value()?.parse()?;
                    match Case::named(&text.value()) {
                        Some(case) => once(&mut parsed.rename_all, (case, span), &meta),
                        None => {
                            let message = format!("unknown case; there are {}", Case::names());
                            Err(syn::Error::new(text.span(), message))
                        }
                    }
                }
                name => match Stored::of_cql(name) {
                    Some(stored) => once(&mut parsed.stored, (stored, span), &meta),
                    None => Err(meta.error(UNKNOWN_OF_CONTAINER)),
                },
            }
        });
        parsed
    }
}

impl FieldAttrs {
    pub(crate) fn new(attrs: &[Attribute], errors: &mut Errors) -> Self {
        let mut parsed = Self::default();
        each(attrs, errors, |meta| {
            let span = meta.path.span();
            let name = name_of(&meta);
            match name.as_str() {
                "rename" => {
                    let name = meta.value()?.parse()?;
                    once(&mut parsed.rename, name, &meta)
                }
                "skip" => once(&mut parsed.skip, span, &meta),
                "flatten" => once(&mut parsed.flatten, span, &meta),
                "default" => {
                    let function = if meta.input.peek(syn::Token![=]) {
                        Some(path(&meta)?)
                    } else {
                        None
                    };
                    once(&mut parsed.default, DefaultAttr { span, function }, &meta)
                }
                _ => Err(meta.error(UNKNOWN_OF_FIELD)),
            }
        });
        parsed
    }
}

impl VariantAttrs {
    pub(crate) fn new(attrs: &[Attribute], errors: &mut Errors) -> Self {
        let mut parsed = Self::default();
        each(attrs, errors, |meta| {
            if !meta.path.is_ident("rename") {
                return Err(meta.error(UNKNOWN_OF_VARIANT));
            }
            let name = meta.value()?.parse()?;
            once(&mut parsed.rename, name, &meta)
        });
        parsed
    }
}

const UNKNOWN_OF_CONTAINER: &str = "unknown attribute; a struct takes `order`, `transparent`, `rename_all = \"case\"` and `crate = path`, an enum takes `text`, `tinyint`, `smallint`, `int`, `bigint`, `rename_all = \"case\"` and `crate = path`";
const UNKNOWN_OF_FIELD: &str = "unknown attribute; a field takes `rename = \"name\"`, `skip`, `default`, `default = function` and `flatten`";
const UNKNOWN_OF_VARIANT: &str = "unknown attribute; a variant takes `rename = \"name\"`";

fn each(
    attrs: &[Attribute],
    errors: &mut Errors,
    mut take: impl FnMut(ParseNestedMeta<'_>) -> syn::Result<()>,
) {
    for attr in attrs.iter().filter(|attr| attr.path().is_ident("cql")) {
        errors.take(attr.parse_nested_meta(&mut take));
    }
}

/// Returns the name of an attribute, keywords such as `crate` included; paths have none.
fn name_of(meta: &ParseNestedMeta<'_>) -> String {
    meta.path
        .get_ident()
        .map(|ident| ident.unraw().to_string())
        .unwrap_or_default()
}

fn once<T>(slot: &mut Option<T>, value: T, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(meta.error("this is said twice")),
    }
}

/// Reads a path, bare or in quotes.
fn path(meta: &ParseNestedMeta<'_>) -> syn::Result<Path> {
    let value = meta.value()?;
    if value.peek(LitStr) {
        return value.parse::<LitStr>()?.parse();
    }
    value.call(Path::parse_mod_style)
}
