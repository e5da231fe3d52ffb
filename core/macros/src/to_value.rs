//! `derive(ToValue)` for structs.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};

use crate::input::{Input, Layout};

pub(crate) fn expand(input: &Input) -> TokenStream {
    let (name, krate) = (&input.name, &input.krate);
    let to_value = quote!(#krate::types::ToValue);
    let flat = quote!(#krate::types::ToValue + #krate::types::NamedFields);
    let generics = input.write_impl(&to_value, &flat);
    let (head, arguments, bounds) = (&generics.head, &generics.arguments, &generics.bounds);
    let (check, write) = match input.inner() {
        Some(field) => {
            let (member, ty) = (&field.member, &field.ty);
            (
                quote_spanned!(field.span=> <#ty as #krate::types::ToValue>::check(ty)),
                quote_spanned!(field.span=> #krate::types::ToValue::to_value(&self.#member, ty, out)),
            )
        }
        None => (udt_check(input), udt_write(input)),
    };
    let named = match input.layout {
        Layout::Names => {
            let named = named(input);
            quote! {
                #[automatically_derived]
                impl #head #krate::types::NamedFields for #name #arguments #bounds { #named }
            }
        }
        Layout::Order | Layout::Transparent => TokenStream::new(),
    };
    quote! {
        #[automatically_derived]
        impl #head #krate::types::ToValue for #name #arguments #bounds {
            fn check(
                ty: &#krate::types::ColumnType,
            ) -> ::core::result::Result<(), #krate::types::TypeError> {
                #check
            }

            #[inline]
            fn to_value(
                &self,
                ty: &#krate::types::ColumnType,
                out: #krate::types::ValueWriter<'_>,
            ) -> ::core::result::Result<(), #krate::types::EncodeError> {
                #write
            }
        }

        #named
    }
}

fn udt_check(input: &Input) -> TokenStream {
    let krate = &input.krate;
    let count = input.columns().count();
    let order = input.layout == Layout::Order;
    let checks = input.columns().map(|(place, field)| {
        let (ty, name) = (&field.ty, &field.name);
        if order {
            quote!(#krate::types::udt::check_write_at::<Self, #ty>(ty, #place)?;)
        } else {
            quote!(#krate::types::udt::check_write::<Self, #ty>(ty, #name)?;)
        }
    });
    let flattened = input.flattened().map(|field| {
        let ty = &field.ty;
        quote_spanned!(field.span=> <#ty as #krate::types::ToValue>::check(ty)?;)
    });
    let whole = if order {
        quote!(#krate::types::udt::check_order::<Self>(ty, #count)?;)
    } else {
        quote!(#krate::types::udt::udt_of::<Self>(ty)?;)
    };
    quote! {
        #whole
        #(#checks)*
        #(#flattened)*
        ::core::result::Result::Ok(())
    }
}

fn udt_write(input: &Input) -> TokenStream {
    let krate = &input.krate;
    if input.layout != Layout::Order {
        return quote! {
            <Self as #krate::types::ToValue>::check(ty)?;
            #krate::types::udt::write_named(self, ty, out)
        };
    }
    let arms = input.columns().map(|(place, field)| {
        let member = &field.member;
        quote_spanned!(field.span=> #place => #krate::types::ToValue::to_value(&self.#member, ty, out),)
    });
    quote! {
        <Self as #krate::types::ToValue>::check(ty)?;
        #krate::types::udt::write_udt::<Self>(ty, out, |place, _, ty, out| match place {
            #(#arms)*
            _ => out.null(),
        })
    }
}

/// The fields by their names: first those of the struct itself, then those of each flattened field.
fn named(input: &Input) -> TokenStream {
    let krate = &input.krate;
    let arms = input.columns().map(|(_, field)| {
        let (member, name) = (&field.member, &field.name);
        quote_spanned! {field.span=>
            #name => {
                #krate::types::ToValue::to_value(&self.#member, ty, out)?;
                ::core::result::Result::Ok(::core::option::Option::None)
            }
        }
    });
    let flattened = input.flattened().map(|field| {
        let member = &field.member;
        quote_spanned! {field.span=>
            let ::core::option::Option::Some(out) =
                #krate::types::NamedFields::write_field(&self.#member, name, ty, out)?
            else {
                return ::core::result::Result::Ok(::core::option::Option::None);
            };
        }
    });
    quote! {
        fn write_field<'__w>(
            &self,
            name: &::core::primitive::str,
            ty: &#krate::types::ColumnType,
            out: #krate::types::ValueWriter<'__w>,
        ) -> ::core::result::Result<
            ::core::option::Option<#krate::types::ValueWriter<'__w>>,
            #krate::types::EncodeError,
        > {
            match name {
                #(#arms)*
                _ => {
                    #(#flattened)*
                    ::core::result::Result::Ok(::core::option::Option::Some(out))
                }
            }
        }
    }
}
