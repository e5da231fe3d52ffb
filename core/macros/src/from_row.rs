//! `derive(FromRow)`.

use proc_macro2::TokenStream;
use quote::quote;

use crate::input::Input;

pub(crate) fn expand(input: &Input) -> syn::Result<TokenStream> {
    let (name, krate) = (&input.name, &input.krate);
    let generics = input.read_impl(&quote!(#krate::types::FromValue<'__r>));
    let (head, arguments, bounds) = (&generics.head, &generics.arguments, &generics.bounds);
    let count = input.columns().count();
    let plan = if input.order {
        quote!(by_order::<Self>(columns)?)
    } else {
        let names = input.columns().map(|(_, field)| {
            let (name, required) = (&field.name, !field.default);
            quote!((#name, #required))
        });
        quote!(by_name::<Self>(columns, [#(#names),*])?)
    };
    let checks = input.columns().map(|(place, field)| {
        let ty = input.read_type(field);
        quote!(plan.check::<#ty>(columns, #place)?;)
    });
    let locals = input.columns().map(|(place, field)| {
        let (local, ty) = (&field.local, input.read_type(field));
        if field.default {
            quote!(let #local = cells.read::<::core::option::Option<#ty>>(#place)?.unwrap_or_default();)
        } else {
            quote!(let #local = cells.read::<#ty>(#place)?;)
        }
    });
    let straight = input.build(|_, field| {
        let local = &field.local;
        quote!(#local)
    });
    let picked = input.build(|place, field| {
        let ty = input.read_type(field);
        if field.default {
            quote!(picked.read_or_default::<#ty>(#place)?)
        } else {
            quote!(picked.read::<#ty>(#place)?)
        }
    });
    Ok(quote! {
        #[automatically_derived]
        impl #head #krate::types::FromRow<'__r> for #name #arguments #bounds {
            type Plan = #krate::types::row::FieldPlan<#count>;

            fn plan(
                columns: &[#krate::types::ColumnSpec],
            ) -> ::core::result::Result<Self::Plan, #krate::types::TypeError> {
                let plan = #krate::types::row::FieldPlan::<#count>::#plan;
                #(#checks)*
                ::core::result::Result::Ok(plan)
            }

            #[inline]
            fn from_row(
                plan: &Self::Plan,
                row: &mut #krate::types::RowView<'__r>,
            ) -> ::core::result::Result<Self, #krate::types::DecodeError> {
                if plan.in_order() {
                    let mut cells = row.first::<#count>()?;
                    #(#locals)*
                    cells.end(row);
                    return ::core::result::Result::Ok(#straight);
                }
                let picked = plan.pick(row)?;
                ::core::result::Result::Ok(#picked)
            }
        }
    })
}
