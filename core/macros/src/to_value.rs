//! `derive(ToValue)`.

use proc_macro2::TokenStream;
use quote::quote;

use crate::from_value::only_field;
use crate::input::Input;

pub(crate) fn expand(input: &Input) -> syn::Result<TokenStream> {
    let (name, krate) = (&input.name, &input.krate);
    let generics = input.write_impl(&quote!(#krate::types::ToValue));
    let (head, arguments, bounds) = (&generics.head, &generics.arguments, &generics.bounds);
    let (check, write) = if input.tuple {
        let field = only_field(input)?;
        let (member, ty) = (&field.member, &field.ty);
        (
            quote!(<#ty as #krate::types::ToValue>::check(ty)),
            quote!(#krate::types::ToValue::to_value(&self.#member, ty, out)),
        )
    } else {
        (udt_check(input), udt_write(input))
    };
    Ok(quote! {
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
    })
}

fn udt_check(input: &Input) -> TokenStream {
    let krate = &input.krate;
    let count = input.columns().count();
    let checks = input.columns().map(|(place, field)| {
        let (ty, name) = (&field.ty, &field.name);
        if input.order {
            quote!(#krate::types::udt::check_write_at::<Self, #ty>(ty, #place)?;)
        } else {
            quote!(#krate::types::udt::check_write::<Self, #ty>(ty, #name)?;)
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

fn udt_write(input: &Input) -> TokenStream {
    let krate = &input.krate;
    let arms = input.columns().map(|(place, field)| {
        let (member, name) = (&field.member, &field.name);
        let pattern = if input.order {
            quote!(#place)
        } else {
            quote!(#name)
        };
        quote!(#pattern => #krate::types::ToValue::to_value(&self.#member, ty, out),)
    });
    let key = if input.order {
        quote!(place)
    } else {
        quote!(name)
    };
    quote! {
        <Self as #krate::types::ToValue>::check(ty)?;
        #krate::types::udt::write_udt::<Self>(ty, out, |place, name, ty, out| {
            let _ = (place, name);
            match #key {
                #(#arms)*
                _ => out.null(),
            }
        })
    }
}
