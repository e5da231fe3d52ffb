//! `derive(ToRow)`.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};

use crate::input::{Input, Layout};

pub(crate) fn expand(input: &Input) -> TokenStream {
    let (name, krate) = (&input.name, &input.krate);
    let inner = input.inner();
    let bound = match inner {
        Some(_) => quote!(#krate::types::ToRow),
        None => quote!(#krate::types::ToValue),
    };
    let generics = input.write_impl(&bound, &quote!(#krate::types::NamedRow));
    let (head, arguments, bounds) = (&generics.head, &generics.arguments, &generics.bounds);
    let write = match inner {
        Some(field) => {
            let member = &field.member;
            quote_spanned!(field.span=> #krate::types::ToRow::to_row(&self.#member, columns, out))
        }
        None if input.layout == Layout::Order => in_order(input),
        None => quote!(#krate::types::row::write_named(self, columns, out)),
    };
    let named = match input.layout {
        Layout::Names => {
            let named = named(input);
            quote! {
                #[automatically_derived]
                impl #head #krate::types::NamedRow for #name #arguments #bounds { #named }
            }
        }
        Layout::Order | Layout::Transparent => TokenStream::new(),
    };
    quote! {
        #[automatically_derived]
        impl #head #krate::types::ToRow for #name #arguments #bounds {
            fn to_row(
                &self,
                columns: &[#krate::types::ColumnSpec],
                out: &mut #krate::types::RowWriter<'_>,
            ) -> ::core::result::Result<(), #krate::types::EncodeError> {
                #write
            }
        }

        #named
    }
}

fn writes(input: &Input) -> impl Iterator<Item = TokenStream> {
    input.columns().map(|(place, field)| {
        let member = &field.member;
        quote_spanned!(field.span=> #place => out.write(&column.ty, &self.#member),)
    })
}

fn in_order(input: &Input) -> TokenStream {
    let krate = &input.krate;
    let count = input.columns().count();
    let writes = writes(input);
    quote! {
        #krate::types::row::write_in_order(columns, #count, |place, column| match place {
            #(#writes)*
            _ => ::core::result::Result::Ok(()),
        })
    }
}

/// The values by their names: first those of the struct itself, then those of each flattened field.
fn named(input: &Input) -> TokenStream {
    let krate = &input.krate;
    let count = input.columns().count();
    let names = input.columns().map(|(_, field)| &field.name);
    let writes = writes(input);
    let rows = input.flattened().map(|field| {
        let ty = &field.ty;
        quote_spanned!(field.span=> <#ty as #krate::types::NamedRow>)
    });
    let rows: Vec<_> = rows.collect();
    let members = input.flattened().map(|field| &field.member);
    let (name_behind, write_behind) = if rows.is_empty() {
        let none = quote!(::core::option::Option::None);
        (none, quote!(::core::result::Result::Ok(())))
    } else {
        let name_behind = quote! {{
            let place = place - #count;
            #(
                if place < #rows::COUNT {
                    return #rows::name_at(place);
                }
                let place = place - #rows::COUNT;
            )*
            let _ = place;
            ::core::option::Option::None
        }};
        let write_behind = quote! {{
            let place = place - #count;
            #(
                if place < #rows::COUNT {
                    return #rows::write_at(&self.#members, place, column, out);
                }
                let place = place - #rows::COUNT;
            )*
            let _ = place;
            ::core::result::Result::Ok(())
        }};
        (name_behind, write_behind)
    };
    quote! {
        const COUNT: usize = #count #(+ #rows::COUNT)*;

        #[inline]
        fn name_at(place: usize) -> ::core::option::Option<&'static str> {
            const NAMES: [&::core::primitive::str; #count] = [#(#names),*];
            match NAMES.get(place) {
                ::core::option::Option::Some(name) => ::core::option::Option::Some(name),
                ::core::option::Option::None => #name_behind,
            }
        }

        #[inline]
        fn write_at(
            &self,
            place: usize,
            column: &#krate::types::ColumnSpec,
            out: &mut #krate::types::RowWriter<'_>,
        ) -> ::core::result::Result<(), #krate::types::EncodeError> {
            match place {
                #(#writes)*
                _ => #write_behind,
            }
        }
    }
}
