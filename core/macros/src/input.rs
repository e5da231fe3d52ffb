//! The struct behind a derive: its fields, names and generics, the same for all four.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, DataStruct, Fields, GenericParam, Generics, Index, Lifetime, LitStr, Member};

use crate::attrs::{ContainerAttrs, FieldAttrs};
use crate::case::Case;
use crate::errors::Errors;

/// A struct to derive for.
pub(crate) struct Input {
    pub(crate) name: Ident,
    /// Where the API is.
    pub(crate) krate: TokenStream,
    pub(crate) layout: Layout,
    /// Whether this is a tuple struct.
    tuple: bool,
    pub(crate) fields: Vec<Field>,
    generics: Generics,
}

/// How the fields find what they are read from or written as.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// By their names.
    Names,
    /// By their places.
    Order,
    /// The only field is the whole.
    Transparent,
}

/// A field of the struct.
pub(crate) struct Field {
    pub(crate) member: Member,
    /// A name for a local variable.
    pub(crate) local: Ident,
    pub(crate) ty: TokenStream,
    /// Where its type stands, for code whose errors are about the type.
    pub(crate) span: Span,
    /// The name of its column.
    pub(crate) name: String,
    pub(crate) role: Role,
    /// The function that makes its value where there is none.
    pub(crate) default: Option<TokenStream>,
    /// Whether that function is `Default::default`.
    plain_default: bool,
}

/// What a field is to the columns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// It has a column.
    Column,
    /// It has none.
    Skipped,
    /// Its own fields have columns.
    Flattened,
}

impl Input {
    pub(crate) fn new(
        name: Ident,
        attrs: &[Attribute],
        generics: Generics,
        data: &DataStruct,
    ) -> syn::Result<Self> {
        let mut errors = Errors::default();
        let attrs = ContainerAttrs::new(attrs, &mut errors);
        let tuple = matches!(data.fields, Fields::Unnamed(_));
        let layout = layout(&attrs, tuple, &mut errors);
        let case = attrs.rename_all.map(|(case, _)| case);
        let mut fields = Vec::new();
        for (index, field) in data.fields.iter().enumerate() {
            fields.push(Field::new(index, field, layout, case, &mut errors));
        }
        match layout {
            Layout::Names => unique(&fields, &mut errors),
            Layout::Transparent if single(&fields).is_none() => errors.at(
                name.span(),
                "a transparent struct has exactly one field that is not skipped",
            ),
            Layout::Transparent | Layout::Order => {}
        }
        let krate = match attrs.krate {
            Some(path) => path.to_token_stream(),
            None => crate::krate::path(),
        };
        errors.or(Self {
            name,
            krate,
            layout,
            tuple,
            fields,
            generics,
        })
    }

    /// Turns a tuple struct into what it is as a value: its only field.
    pub(crate) fn into_value(mut self) -> syn::Result<Self> {
        if self.tuple && self.layout == Layout::Order {
            if single(&self.fields).is_none() {
                let message = "a tuple struct needs exactly one field to be a value; name the fields of a user-defined type";
                return Err(syn::Error::new(self.name.span(), message));
            }
            self.layout = Layout::Transparent;
        }
        Ok(self)
    }

    /// Returns the field of a transparent struct.
    pub(crate) fn inner(&self) -> Option<&Field> {
        match self.layout {
            Layout::Transparent => single(&self.fields),
            Layout::Names | Layout::Order => None,
        }
    }

    /// Returns the fields whose own fields have columns.
    pub(crate) fn flattened(&self) -> impl Iterator<Item = &Field> {
        self.fields
            .iter()
            .filter(|field| field.role == Role::Flattened)
    }

    /// Returns the fields that have a column, with their places among them.
    pub(crate) fn columns(&self) -> impl Iterator<Item = (usize, &Field)> {
        self.fields
            .iter()
            .filter(|field| field.role == Role::Column)
            .enumerate()
    }

    /// Returns the expression that builds the struct, where each field with a column is given by `read`; what was
    /// flattened lies in its local variable.
    pub(crate) fn build(&self, mut read: impl FnMut(usize, &Field) -> TokenStream) -> TokenStream {
        let mut place = 0;
        let fields = self.fields.iter().map(|field| {
            let (member, local) = (&field.member, &field.local);
            let value = match field.role {
                Role::Skipped => quote_spanned!(field.span=> ::core::default::Default::default()),
                Role::Flattened => quote!(#local),
                Role::Column => {
                    place += 1;
                    read(place - 1, field)
                }
            };
            quote!(#member: #value)
        });
        let fields: Vec<_> = fields.collect();
        quote!(Self { #(#fields),* })
    }

    /// Returns the pieces of an `impl` that reads: every lifetime of the struct becomes `'__r`, that of the page.
    ///
    /// `bound` is for the types of fields with columns, `flat` for those that are flattened.
    pub(crate) fn read_impl(&self, bound: &TokenStream, flat: &TokenStream) -> Impl {
        let lives = self.lives();
        let page = |tokens: TokenStream| rename_lifetimes(tokens, &lives);
        let params = self.params().map(|param| page(param.to_token_stream()));
        let head = quote!(<'__r, #(#params),*>);
        let default = quote!(::core::default::Default);
        let mut pieces = self.pieces(head, quote!('__r), |field| match field.role {
            Role::Skipped => vec![&default],
            Role::Flattened => vec![flat],
            Role::Column if field.plain_default => vec![bound, &default],
            Role::Column => vec![bound],
        });
        pieces.bounds = page(pieces.bounds);
        pieces
    }

    /// Returns the pieces of an `impl` that writes; the bounds are as for [`Self::read_impl`].
    pub(crate) fn write_impl(&self, bound: &TokenStream, flat: &TokenStream) -> Impl {
        let lives = self.generics.lifetimes();
        let params = self.params();
        let head = quote!(<#(#lives,)* #(#params),*>);
        let mut pieces = self.pieces(head, TokenStream::new(), |field| match field.role {
            Role::Skipped => Vec::new(),
            Role::Flattened => vec![flat],
            Role::Column => vec![bound],
        });
        let (_, arguments, _) = self.generics.split_for_impl();
        pieces.arguments = arguments.to_token_stream();
        pieces
    }

    /// Returns the type of a field as it is in a reading `impl`.
    pub(crate) fn read_type(&self, field: &Field) -> TokenStream {
        rename_lifetimes(field.ty.clone(), &self.lives())
    }

    fn lives(&self) -> Vec<Ident> {
        self.generics
            .lifetimes()
            .map(|life| life.lifetime.ident.clone())
            .collect()
    }

    fn pieces<'b>(
        &self,
        head: TokenStream,
        life: TokenStream,
        bounds_of: impl Fn(&Field) -> Vec<&'b TokenStream>,
    ) -> Impl {
        let mut arguments = Vec::new();
        for param in &self.generics.params {
            match param {
                GenericParam::Lifetime(_) => arguments.push(life.clone()),
                GenericParam::Type(ty) => arguments.push(ty.ident.to_token_stream()),
                GenericParam::Const(value) => arguments.push(value.ident.to_token_stream()),
            }
        }
        let names: BTreeSet<String> = self
            .generics
            .type_params()
            .map(|param| param.ident.to_string())
            .collect();
        let mut bounds: Vec<TokenStream> = Vec::new();
        if let Some(clause) = &self.generics.where_clause {
            bounds.extend(clause.predicates.iter().map(ToTokens::to_token_stream));
        }
        for field in &self.fields {
            // Bounds on types without parameters would only hide where an error comes from.
            if !mentions(&field.ty, &names) {
                continue;
            }
            let ty = &field.ty;
            bounds.extend(
                bounds_of(field)
                    .into_iter()
                    .map(|bound| quote!(#ty: #bound)),
            );
        }
        Impl {
            head,
            arguments: quote!(<#(#arguments),*>),
            bounds: quote!(where #(#bounds),*),
        }
    }

    /// Returns the parameters other than lifetimes, without their defaults.
    fn params(&self) -> impl Iterator<Item = GenericParam> {
        self.generics.params.iter().filter_map(|param| match param {
            GenericParam::Lifetime(_) => None,
            GenericParam::Type(ty) => {
                let mut ty = ty.clone();
                (ty.eq_token, ty.default) = (None, None);
                Some(GenericParam::Type(ty))
            }
            GenericParam::Const(value) => {
                let mut value = value.clone();
                (value.eq_token, value.default) = (None, None);
                Some(GenericParam::Const(value))
            }
        })
    }
}

/// The generic pieces of an `impl`.
pub(crate) struct Impl {
    /// What stands behind `impl`.
    pub(crate) head: TokenStream,
    /// What stands behind the name of the struct.
    pub(crate) arguments: TokenStream,
    /// The `where` clause.
    pub(crate) bounds: TokenStream,
}

impl Field {
    fn new(
        index: usize,
        field: &syn::Field,
        layout: Layout,
        case: Option<Case>,
        errors: &mut Errors,
    ) -> Self {
        let attrs = FieldAttrs::new(&field.attrs, errors);
        let role = match (attrs.skip, attrs.flatten) {
            (Some(_), _) => Role::Skipped,
            (None, Some(_)) => Role::Flattened,
            (None, None) => Role::Column,
        };
        check_attrs(&attrs, role, layout, errors);
        let (member, plain) = match &field.ident {
            Some(ident) => (Member::Named(ident.clone()), ident.unraw().to_string()),
            None => (Member::Unnamed(Index::from(index)), index.to_string()),
        };
        let name = match (&attrs.rename, case) {
            (Some(name), _) => name.value(),
            (None, Some(case)) => case.apply(&plain),
            (None, None) => plain,
        };
        let span = field.ty.span().resolved_at(Span::call_site());
        let function = attrs.default.as_ref().map(|attr| attr.function.as_ref());
        Self {
            member,
            local: format_ident!("__field_{index}"),
            ty: field.ty.to_token_stream(),
            span,
            name,
            role,
            plain_default: function.is_some_and(|function| function.is_none()),
            default: function.map(|function| match function {
                Some(path) => path.to_token_stream(),
                None => quote_spanned!(span=> ::core::default::Default::default),
            }),
        }
    }
}

/// Decides how fields are found, and refuses what contradicts that.
fn layout(attrs: &ContainerAttrs, tuple: bool, errors: &mut Errors) -> Layout {
    if let Some((_, span)) = attrs.stored {
        errors.at(span, "this says how an enum is stored");
    }
    let layout = match (attrs.transparent, attrs.order) {
        (Some(span), Some(_)) => {
            errors.at(span, "a struct is either `transparent` or in `order`");
            Layout::Transparent
        }
        (Some(_), None) => Layout::Transparent,
        (None, Some(_)) => Layout::Order,
        (None, None) if tuple => Layout::Order,
        (None, None) => Layout::Names,
    };
    if let (true, Some((_, span))) = (layout != Layout::Names, &attrs.rename_all) {
        errors.at(*span, NO_NAMES);
    }
    layout
}

/// Refuses attributes of a field that contradict one another, or the struct.
fn check_attrs(attrs: &FieldAttrs, role: Role, layout: Layout, errors: &mut Errors) {
    let rename = attrs.rename.as_ref().map(LitStr::span);
    let default = attrs.default.as_ref().map(|default| default.span);
    let others = [rename, default].into_iter().flatten();
    match role {
        Role::Skipped => others
            .chain(attrs.flatten)
            .for_each(|span| errors.at(span, "a skipped field has no other attributes")),
        Role::Flattened => {
            others.for_each(|span| errors.at(span, "a flattened field has no other attributes"));
            if let (true, Some(span)) = (layout != Layout::Names, attrs.flatten) {
                errors.at(span, "only fields that are found by name can be flattened");
            }
        }
        Role::Column => {
            if let (true, Some(span)) = (layout != Layout::Names, rename) {
                errors.at(span, NO_NAMES);
            }
            if let (Layout::Transparent, Some(span)) = (layout, default) {
                errors.at(
                    span,
                    "the field of a transparent struct is all there is; use `Option`",
                );
            }
        }
    }
}

const NO_NAMES: &str = "the fields of this struct are not found by name";

/// Returns the only field that is not skipped.
fn single(fields: &[Field]) -> Option<&Field> {
    let mut fields = fields.iter().filter(|field| field.role == Role::Column);
    match (fields.next(), fields.next()) {
        (Some(field), None) => Some(field),
        _ => None,
    }
}

fn unique(fields: &[Field], errors: &mut Errors) {
    let mut seen = BTreeMap::new();
    for field in fields.iter().filter(|field| field.role == Role::Column) {
        if let Some(first) = seen.insert(&field.name, &field.member) {
            let first = first.to_token_stream();
            let message = format!("the name \"{}\" is taken by `{first}`", field.name);
            errors.at(field.member.span(), message);
        }
    }
}

/// Says whether one of these names occurs in a type.
fn mentions(tokens: &TokenStream, names: &BTreeSet<String>) -> bool {
    tokens.clone().into_iter().any(|token| match token {
        TokenTree::Ident(ident) => names.contains(&ident.to_string()),
        TokenTree::Group(group) => mentions(&group.stream(), names),
        TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}

/// Turns each of these lifetimes into that of the page.
fn rename_lifetimes(tokens: TokenStream, lives: &[Ident]) -> TokenStream {
    let mut renamed = Vec::new();
    let mut after_quote = false;
    for token in tokens {
        let is_quote = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '\'');
        renamed.push(match token {
            TokenTree::Ident(ident) if after_quote && lives.contains(&ident) => {
                let page = Lifetime::new("'__r", ident.span());
                TokenTree::Ident(page.ident)
            }
            TokenTree::Group(group) => {
                let mut inner =
                    Group::new(group.delimiter(), rename_lifetimes(group.stream(), lives));
                inner.set_span(group.span());
                TokenTree::Group(inner)
            }
            other => other,
        });
        after_quote = is_quote;
    }
    renamed.into_iter().collect()
}
