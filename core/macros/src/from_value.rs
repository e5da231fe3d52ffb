//! `derive(FromValue)`.

use proc_macro2::TokenStream;
use quote::quote;

use crate::input::{Field, Input};

pub(crate) fn expand(input: &Input) -> syn::Result<TokenStream> {
    let (name, krate) = (&input.name, &input.krate);
    let generics = input.read_impl(&quote!(#krate::types::FromValue<'__r>));
    let (head, arguments, bounds) = (&generics.head, &generics.arguments, &generics.bounds);
    let (check, read) = if input.tuple {
        transparent(input)?
    } else {
        (udt_check(input), udt_read(input))
    };
    Ok(quote! {
        #[automatically_derived]
        impl #head #krate::types::FromValue<'__r> for #name #arguments #bounds {
            fn check(
                ty: &#krate::types::ColumnType,
            ) -> ::core::result::Result<(), #krate::types::TypeError> {
                #check
            }

            #[inline]
            fn from_value(
                ty: &'__r #krate::types::ColumnType,
                cell: ::core::option::Option<#krate::types::Cell<'__r>>,
            ) -> ::core::result::Result<Self, #krate::types::DecodeError> {
                #read
            }
        }
    })
}

/// A struct around one value is read as that value.
fn transparent(input: &Input) -> syn::Result<(TokenStream, TokenStream)> {
    let krate = &input.krate;
    let field = only_field(input)?;
    let ty = input.read_type(field);
    let built = input.build(|_, _| quote!(value));
    let check = quote!(<#ty as #krate::types::FromValue<'__r>>::check(ty));
    let read = quote! {
        match <#ty as #krate::types::FromValue<'__r>>::from_value(ty, cell) {
            ::core::result::Result::Ok(value) => ::core::result::Result::Ok(#built),
            ::core::result::Result::Err(error) => ::core::result::Result::Err(error),
        }
    };
    Ok((check, read))
}

/// Returns the only field that is not skipped.
pub(crate) fn only_field(input: &Input) -> syn::Result<&Field> {
    let mut fields = input.columns();
    match (fields.next(), fields.next()) {
        (Some((_, field)), None) => Ok(field),
        _ => {
            let message = "a tuple struct needs exactly one field to be a value; name the fields of a user-defined type";
            Err(syn::Error::new(input.name.span(), message))
        }
    }
}

fn udt_check(input: &Input) -> TokenStream {
    let krate = &input.krate;
    let count = input.columns().count();
    let checks = input.columns().map(|(place, field)| {
        let (ty, name, required) = (input.read_type(field), &field.name, !field.default);
        if input.order {
            quote!(#krate::types::udt::check_read_at::<Self, #ty>(ty, #place)?;)
        } else {
            quote!(#krate::types::udt::check_read::<Self, #ty>(ty, #name, #required)?;)
        }
    });
    let whole = if input.order {
        quote!(#krate::types::udt::check_order::<Self>(ty, #count)?;)
    } else {
        quote!(#krate::types::udt::udt_of::<Self>(ty)?;)
    };
    quote! {
        #whole
        #(#checks)*
        ::core::result::Result::Ok(())
    }
}

fn udt_read(input: &Input) -> TokenStream {
    let krate = &input.krate;
    let locals = input.columns().map(|(_, field)| {
        let (local, ty) = (&field.local, input.read_type(field));
        quote!(let mut #local: ::core::option::Option<#ty> = ::core::option::Option::None;)
    });
    let arms = input.columns().map(|(place, field)| {
        let (local, ty, name) = (&field.local, input.read_type(field), &field.name);
        let read = if field.default {
            quote!(field.read::<::core::option::Option<#ty>>()?.unwrap_or_default())
        } else {
            quote!(field.read::<#ty>()?)
        };
        let pattern = if input.order {
            quote!(#place)
        } else {
            quote!(#name)
        };
        quote!(#pattern => #local = ::core::option::Option::Some(#read),)
    });
    let key = if input.order {
        quote!(field.place)
    } else {
        quote!(field.name)
    };
    let built = input.build(|_, field| {
        let (local, name) = (&field.local, &field.name);
        if field.default {
            quote!(#local.unwrap_or_default())
        } else {
            quote! {
                match #local {
                    ::core::option::Option::Some(value) => value,
                    ::core::option::Option::None => {
                        return ::core::result::Result::Err(#krate::types::udt::missing::<Self>(ty, #name));
                    }
                }
            }
        }
    });
    quote! {
        let mut fields = #krate::types::udt::UdtFields::new::<Self>(ty, cell)?;
        #(#locals)*
        while let ::core::option::Option::Some(field) = fields.next_field()? {
            match #key {
                #(#arms)*
                _ => {}
            }
        }
        ::core::result::Result::Ok(#built)
    }
}
