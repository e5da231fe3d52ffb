//! The struct behind a derive: its fields, names and generics, the same for all four.

use std::collections::BTreeSet;

use proc_macro2::{Group, Ident, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Fields, GenericParam, Generics, Index, Lifetime, Member};

use crate::attrs::{FieldAttrs, StructAttrs};

/// A struct to derive for.
pub(crate) struct Input {
    pub(crate) name: Ident,
    /// Where the API is.
    pub(crate) krate: TokenStream,
    /// Whether fields are matched by place.
    pub(crate) order: bool,
    /// Whether this is a tuple struct.
    pub(crate) tuple: bool,
    pub(crate) fields: Vec<Field>,
    generics: Generics,
}

/// A field of the struct.
pub(crate) struct Field {
    pub(crate) member: Member,
    /// A name for a local variable.
    pub(crate) local: Ident,
    pub(crate) ty: TokenStream,
    /// The name of its column.
    pub(crate) name: String,
    pub(crate) skip: bool,
    pub(crate) default: bool,
}

impl Input {
    pub(crate) fn new(input: DeriveInput) -> syn::Result<Self> {
        let Data::Struct(data) = &input.data else {
            let message = "this derive is for structs; implement the trait by hand for other types";
            return Err(syn::Error::new(input.ident.span(), message));
        };
        let attrs = StructAttrs::new(&input.attrs)?;
        let tuple = matches!(data.fields, Fields::Unnamed(_));
        let fields = data
            .fields
            .iter()
            .enumerate()
            .map(|(index, field)| Field::new(index, field))
            .collect::<syn::Result<Vec<_>>>()?;
        let order = attrs.order || tuple;
        if !order {
            unique(&fields)?;
        }
        let krate = match attrs.krate {
            Some(path) => path.to_token_stream(),
            None => crate::krate::path(),
        };
        Ok(Self {
            name: input.ident,
            krate,
            order,
            tuple,
            fields,
            generics: input.generics,
        })
    }

    /// Returns the fields that have a column, with their places among them.
    pub(crate) fn columns(&self) -> impl Iterator<Item = (usize, &Field)> {
        self.fields.iter().filter(|field| !field.skip).enumerate()
    }

    /// Returns the expressions that build the struct, where each field with a column is given by `read`.
    pub(crate) fn build(&self, mut read: impl FnMut(usize, &Field) -> TokenStream) -> TokenStream {
        let mut place = 0;
        let fields = self.fields.iter().map(|field| {
            let member = &field.member;
            let value = if field.skip {
                quote!(::core::default::Default::default())
            } else {
                place += 1;
                read(place - 1, field)
            };
            quote!(#member: #value)
        });
        let fields: Vec<_> = fields.collect();
        quote!(Self { #(#fields),* })
    }

    /// Returns the pieces of an `impl` that reads: every lifetime of the struct becomes `'__r`, that of the page.
    pub(crate) fn read_impl(&self, bound: &TokenStream) -> Impl {
        let lives: Vec<Ident> = self
            .generics
            .lifetimes()
            .map(|life| life.lifetime.ident.clone())
            .collect();
        let page = |tokens: TokenStream| rename_lifetimes(tokens, &lives);
        let params = self.params().map(|param| page(param.to_token_stream()));
        let head = quote!(<'__r, #(#params),*>);
        let mut pieces = self.pieces(head, quote!('__r), bound);
        pieces.bounds = page(pieces.bounds);
        pieces
    }

    /// Returns the pieces of an `impl` that writes.
    pub(crate) fn write_impl(&self, bound: &TokenStream) -> Impl {
        let lives = self.generics.lifetimes();
        let params = self.params();
        let head = quote!(<#(#lives,)* #(#params),*>);
        let mut pieces = self.pieces(head, TokenStream::new(), bound);
        let (_, arguments, _) = self.generics.split_for_impl();
        pieces.arguments = arguments.to_token_stream();
        pieces
    }

    /// Returns the type of a field as it is in a reading `impl`.
    pub(crate) fn read_type(&self, field: &Field) -> TokenStream {
        let lives: Vec<Ident> = self
            .generics
            .lifetimes()
            .map(|life| life.lifetime.ident.clone())
            .collect();
        rename_lifetimes(field.ty.clone(), &lives)
    }

    fn pieces(&self, head: TokenStream, life: TokenStream, bound: &TokenStream) -> Impl {
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
            if !field.skip {
                bounds.push(quote!(#ty: #bound));
            }
            if field.skip || field.default {
                bounds.push(quote!(#ty: ::core::default::Default));
            }
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
    fn new(index: usize, field: &syn::Field) -> syn::Result<Self> {
        let attrs = FieldAttrs::new(&field.attrs)?;
        if attrs.skip && (attrs.default || attrs.rename.is_some()) {
            return Err(syn::Error::new(
                field.span(),
                "a skipped field has no other attributes",
            ));
        }
        let (member, name) = match &field.ident {
            Some(ident) => (Member::Named(ident.clone()), ident.unraw().to_string()),
            None => (Member::Unnamed(Index::from(index)), index.to_string()),
        };
        Ok(Self {
            member,
            local: format_ident!("__field_{index}"),
            ty: field.ty.to_token_stream(),
            name: attrs.rename.map_or(name, |rename| rename.value()),
            skip: attrs.skip,
            default: attrs.default,
        })
    }
}

fn unique(fields: &[Field]) -> syn::Result<()> {
    let mut names = BTreeSet::new();
    for field in fields.iter().filter(|field| !field.skip) {
        if !names.insert(&field.name) {
            let message = format!("two fields have the name \"{}\"", field.name);
            return Err(syn::Error::new(field.member.span(), message));
        }
    }
    Ok(())
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
