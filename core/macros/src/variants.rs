//! Enums as values: `derive(FromValue)` and `derive(ToValue)` for enums whose variants hold nothing.

use std::collections::BTreeMap;

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, DataEnum, Fields, Generics};

use crate::attrs::{ContainerAttrs, Stored, VariantAttrs};
use crate::errors::Errors;

/// An enum to derive for.
pub(crate) struct Variants {
    name: Ident,
    krate: TokenStream,
    stored: Stored,
    all: Vec<Variant>,
}

struct Variant {
    ident: Ident,
    /// What it is as text.
    text: String,
    /// The constant that has its number.
    number: Ident,
}

impl Variants {
    pub(crate) fn new(
        name: Ident,
        attrs: &[Attribute],
        generics: &Generics,
        data: &DataEnum,
    ) -> syn::Result<Self> {
        let mut errors = Errors::default();
        let attrs = ContainerAttrs::new(attrs, &mut errors);
        if let Some(span) = attrs.order {
            errors.at(span, "`order` is for structs");
        }
        if let Some(span) = attrs.transparent {
            errors.at(span, "`transparent` is for structs");
        }
        if !generics.params.is_empty() {
            errors.at(generics.span(), "an enum that is a value has no parameters");
        }
        if data.variants.is_empty() {
            errors.at(name.span(), "an enum without variants has no values");
        }
        let numbered = data
            .variants
            .iter()
            .find_map(|variant| variant.discriminant.as_ref());
        if let (None, Some((_, number))) = (&attrs.stored, numbered) {
            errors.at(
                number.span(),
                "an enum with numbers says what it is stored as: `#[cql(text)]`, or `#[cql(int)]` with one of `tinyint`, `smallint`, `int` and `bigint`",
            );
        }
        let stored = attrs.stored.map_or(Stored::Text, |(stored, _)| stored);
        if let (true, Some((_, span))) = (stored != Stored::Text, &attrs.rename_all) {
            errors.at(*span, "an enum that is stored as a number has no names");
        }
        let mut all = Vec::new();
        for (index, variant) in data.variants.iter().enumerate() {
            all.push(Variant::new(index, variant, &attrs, stored, &mut errors));
        }
        unique(&all, &mut errors);
        let krate = match attrs.krate {
            Some(path) => path.to_token_stream(),
            None => crate::krate::path(),
        };
        errors.or(Self {
            name,
            krate,
            stored,
            all,
        })
    }

    pub(crate) fn expand_from_value(&self) -> TokenStream {
        let (name, krate) = (&self.name, &self.krate);
        let check = self.check();
        let (consts, variants) = (self.consts(), self.all.iter());
        let read = match self.stored.number() {
            None => {
                let arms = variants.map(|Variant { ident, text, .. }| {
                    quote!(#text => ::core::result::Result::Ok(Self::#ident),)
                });
                quote! {
                    match #krate::types::enums::text_of::<Self>(ty, cell)? {
                        #(#arms)*
                        other => ::core::result::Result::Err(
                            #krate::types::enums::unknown::<Self>(ty, &other),
                        ),
                    }
                }
            }
            Some((_, _, number)) => {
                let arms = variants.map(|variant| {
                    let (ident, value) = (&variant.ident, &variant.number);
                    quote!(#value => ::core::result::Result::Ok(Self::#ident),)
                });
                quote! {
                    #consts
                    match <#number>::from_be_bytes(#krate::types::enums::bytes_of::<Self, _>(ty, cell)?) {
                        #(#arms)*
                        other => ::core::result::Result::Err(
                            #krate::types::enums::unknown::<Self>(ty, &other),
                        ),
                    }
                }
            }
        };
        quote! {
            #[automatically_derived]
            impl<'__r> #krate::types::FromValue<'__r> for #name {
                fn check(
                    ty: &#krate::types::ColumnType,
                ) -> ::core::result::Result<(), #krate::types::TypeError> {
                    #check
                }

                fn from_value(
                    ty: &'__r #krate::types::ColumnType,
                    cell: ::core::option::Option<#krate::types::Cell<'__r>>,
                ) -> ::core::result::Result<Self, #krate::types::DecodeError> {
                    #read
                }
            }
        }
    }

    pub(crate) fn expand_to_value(&self) -> TokenStream {
        let (name, krate) = (&self.name, &self.krate);
        let check = self.check();
        let (consts, variants) = (self.consts(), self.all.iter());
        let write = match self.stored.number() {
            None => {
                let arms =
                    variants.map(|Variant { ident, text, .. }| quote!(Self::#ident => #text,));
                quote! {
                    let text = match self { #(#arms)* };
                    #krate::types::enums::write_text::<Self>(text, ty, out)
                }
            }
            Some(_) => {
                let arms = variants.map(|variant| {
                    let (ident, value) = (&variant.ident, &variant.number);
                    quote!(Self::#ident => #value,)
                });
                quote! {
                    #consts
                    let number = match self { #(#arms)* };
                    <Self as #krate::types::ToValue>::check(ty)?;
                    out.fixed(number.to_be_bytes())
                }
            }
        };
        quote! {
            #[automatically_derived]
            impl #krate::types::ToValue for #name {
                fn check(
                    ty: &#krate::types::ColumnType,
                ) -> ::core::result::Result<(), #krate::types::TypeError> {
                    #check
                }

                fn to_value(
                    &self,
                    ty: &#krate::types::ColumnType,
                    out: #krate::types::ValueWriter<'_>,
                ) -> ::core::result::Result<(), #krate::types::EncodeError> {
                    #write
                }
            }
        }
    }

    fn check(&self) -> TokenStream {
        let krate = &self.krate;
        let accepted = match self.stored.number() {
            None => quote!(#krate::types::ColumnType::Text | #krate::types::ColumnType::Ascii),
            Some((_, variant, _)) => quote!(#krate::types::ColumnType::#variant),
        };
        quote! {
            match ty {
                #accepted => ::core::result::Result::Ok(()),
                other => ::core::result::Result::Err(#krate::types::TypeError::mismatch::<Self>(other)),
            }
        }
    }

    /// Returns a constant for each variant's number, with the check that it fits.
    fn consts(&self) -> TokenStream {
        let Some((cql, _, number)) = self.stored.number() else {
            return TokenStream::new();
        };
        let name = &self.name;
        let consts = self.all.iter().map(|variant| {
            let (ident, value) = (&variant.ident, &variant.number);
            let message = format!("the number of `{ident}` does not fit `{cql}`");
            quote_spanned! {ident.span()=>
                const #value: #number = {
                    let number = #name::#ident as i128;
                    ::core::assert!(
                        <#number>::MIN as i128 <= number && number <= <#number>::MAX as i128,
                        #message
                    );
                    number as #number
                };
            }
        });
        quote!(#(#consts)*)
    }
}

impl Variant {
    fn new(
        index: usize,
        variant: &syn::Variant,
        container: &ContainerAttrs,
        stored: Stored,
        errors: &mut Errors,
    ) -> Self {
        let attrs = VariantAttrs::new(&variant.attrs, errors);
        if !matches!(variant.fields, Fields::Unit) {
            let message =
                "a variant that holds something has no CQL value; implement the trait by hand";
            errors.at(variant.fields.span(), message);
        }
        if let (true, Some(name)) = (stored != Stored::Text, &attrs.rename) {
            let message = "an enum that is stored as a number has no names";
            errors.at(name.span(), message);
        }
        let text = match (&attrs.rename, &container.rename_all) {
            (Some(name), _) => name.value(),
            (None, Some((case, _))) => case.apply(&variant.ident.unraw().to_string()),
            (None, None) => variant.ident.unraw().to_string(),
        };
        Self {
            ident: variant.ident.clone(),
            text,
            number: format_ident!("__NUMBER_{index}"),
        }
    }
}

fn unique(all: &[Variant], errors: &mut Errors) {
    let mut seen = BTreeMap::new();
    for variant in all {
        if let Some(first) = seen.insert(&variant.text, &variant.ident) {
            let message = format!("the text \"{}\" is taken by `{first}`", variant.text);
            errors.at(variant.ident.span(), message);
        }
    }
}
