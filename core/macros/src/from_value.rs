//! `derive(FromValue)` for structs.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};

use crate::input::{Field, Input, Layout};

pub(crate) fn expand(input: &Input) -> TokenStream {
    let (name, krate) = (&input.name, &input.krate);
    let bound = quote!(#krate::types::FromValue<'__r>);
    let generics = input.read_impl(&bound, &bound);
    let (head, arguments, bounds) = (&generics.head, &generics.arguments, &generics.bounds);
    let (check, read) = match input.inner() {
        Some(field) => transparent(input, field),
        None => (udt_check(input), udt_read(input)),
    };
    quote! {
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
    }
}

/// A struct around one value is read as that value.
fn transparent(input: &Input, field: &Field) -> (TokenStream, TokenStream) {
    let krate = &input.krate;
    let ty = input.read_type(field);
    let built = input.build(|_, _| quote!(value));
    let value = quote_spanned!(field.span=> <#ty as #krate::types::FromValue<'__r>>);
    let check = quote!(#value::check(ty));
    let read = quote! {
        match #value::from_value(ty, cell) {
            ::core::result::Result::Ok(value) => ::core::result::Result::Ok(#built),
            ::core::result::Result::Err(error) => ::core::result::Result::Err(error),
        }
    };
    (check, read)
}

fn udt_check(input: &Input) -> TokenStream {
    let krate = &input.krate;
    let count = input.columns().count();
    let order = input.layout == Layout::Order;
    let checks = input.columns().map(|(place, field)| {
        let (ty, name) = (input.read_type(field), &field.name);
        let required = field.default.is_none();
        if order {
            quote!(#krate::types::udt::check_read_at::<Self, #ty>(ty, #place)?;)
        } else {
            quote!(#krate::types::udt::check_read::<Self, #ty>(ty, #name, #required)?;)
        }
    });
    let flattened = input.flattened().map(|field| {
        let ty = input.read_type(field);
        quote_spanned!(field.span=> <#ty as #krate::types::FromValue<'__r>>::check(ty)?;)
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

fn udt_read(input: &Input) -> TokenStream {
    let krate = &input.krate;
    let order = input.layout == Layout::Order;
    let locals = input.columns().map(|(_, field)| {
        let (local, ty) = (&field.local, input.read_type(field));
        quote!(let mut #local: ::core::option::Option<#ty> = ::core::option::Option::None;)
    });
    let flattened = input.flattened().map(|field| {
        let (local, ty) = (&field.local, input.read_type(field));
        quote_spanned!(field.span=> let #local = <#ty as #krate::types::FromValue<'__r>>::from_value(ty, cell)?;)
    });
    let arms = input.columns().map(|(place, field)| {
        let (local, ty, name) = (&field.local, input.read_type(field), &field.name);
        let read = match &field.default {
            // What is null stays `None` and becomes the default below.
            Some(_) => quote!(field.read::<::core::option::Option<#ty>>()?),
            None => quote!(::core::option::Option::Some(field.read::<#ty>()?)),
        };
        let pattern = if order { quote!(#place) } else { quote!(#name) };
        quote!(#pattern => #local = #read,)
    });
    let key = if order {
        quote!(field.place)
    } else {
        quote!(field.name)
    };
    let built = input.build(|_, field| {
        let (local, name) = (&field.local, &field.name);
        match &field.default {
            Some(default) => quote!(#local.unwrap_or_else(#default)),
            None => quote! {
                match #local {
                    ::core::option::Option::Some(value) => value,
                    ::core::option::Option::None => {
                        return ::core::result::Result::Err(#krate::types::udt::missing::<Self>(ty, #name));
                    }
                }
            },
        }
    });
    quote! {
        let mut fields = #krate::types::udt::UdtFields::new::<Self>(ty, cell)?;
        #(#flattened)*
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
