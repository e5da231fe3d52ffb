//! `derive(ToRow)`.

use proc_macro2::TokenStream;
use quote::quote;

use crate::input::Input;

pub(crate) fn expand(input: &Input) -> syn::Result<TokenStream> {
    let (name, krate) = (&input.name, &input.krate);
    let generics = input.write_impl(&quote!(#krate::types::ToValue));
    let (head, arguments, bounds) = (&generics.head, &generics.arguments, &generics.bounds);
    let count = input.columns().count();
    let body = if input.order {
        let writes = input.columns().map(|(place, field)| {
            let member = &field.member;
            quote!(#place => out.write(&column.ty, &self.#member),)
        });
        quote! {
            #krate::types::row::write_in_order(columns, #count, |place, column| match place {
                #(#writes)*
                _ => ::core::result::Result::Ok(()),
            })
        }
    } else {
        let names = input.columns().map(|(_, field)| &field.name);
        let writes = input.columns().map(|(place, field)| {
            let member = &field.member;
            quote!(#place => out.write(&column.ty, &self.#member),)
        });
        quote! {
            #krate::types::row::write_by_name(columns, &[#(#names),*], |place, column| match place {
                #(#writes)*
                _ => ::core::result::Result::Ok(()),
            })
        }
    };
    Ok(quote! {
        #[automatically_derived]
        impl #head #krate::types::ToRow for #name #arguments #bounds {
            fn to_row(
                &self,
                columns: &[#krate::types::ColumnSpec],
                out: &mut #krate::types::RowWriter<'_>,
            ) -> ::core::result::Result<(), #krate::types::EncodeError> {
                #body
            }
        }
    })
}
