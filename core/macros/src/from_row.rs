//! `derive(FromRow)`.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote, quote_spanned};

use crate::input::{Field, Input, Layout};

pub(crate) fn expand(input: &Input) -> TokenStream {
    let (name, krate) = (&input.name, &input.krate);
    let from_row = quote!(#krate::types::FromRow<'__r>);
    let from_value = quote!(#krate::types::FromValue<'__r>);
    let inner = input.inner();
    let column_bound = if inner.is_some() {
        &from_row
    } else {
        &from_value
    };
    let generics = input.read_impl(column_bound, &from_row);
    let (head, arguments, bounds) = (&generics.head, &generics.arguments, &generics.bounds);
    let body = match inner {
        Some(field) => transparent(input, field),
        None => fields(input),
    };
    let Body {
        plan_type,
        plan,
        read,
    } = body;
    quote! {
        #[automatically_derived]
        impl #head #krate::types::FromRow<'__r> for #name #arguments #bounds {
            type Plan = #plan_type;

            fn plan(
                columns: &[#krate::types::ColumnSpec],
            ) -> ::core::result::Result<Self::Plan, #krate::types::TypeError> {
                #plan
            }

            #[inline]
            fn from_row(
                plan: &Self::Plan,
                row: &mut #krate::types::RowView<'__r>,
            ) -> ::core::result::Result<Self, #krate::types::DecodeError> {
                #read
            }
        }
    }
}

/// What stands in the implementation.
struct Body {
    plan_type: TokenStream,
    plan: TokenStream,
    read: TokenStream,
}

/// A struct around one row is read as that row.
fn transparent(input: &Input, field: &Field) -> Body {
    let krate = &input.krate;
    let ty = input.read_type(field);
    let row = quote_spanned!(field.span=> <#ty as #krate::types::FromRow<'__r>>);
    let built = input.build(|_, _| quote!(value));
    Body {
        plan_type: quote!(#row::Plan),
        plan: quote!(#row::plan(columns)),
        read: quote! {
            match #row::from_row(plan, row) {
                ::core::result::Result::Ok(value) => ::core::result::Result::Ok(#built),
                ::core::result::Result::Err(error) => ::core::result::Result::Err(error),
            }
        },
    }
}

fn fields(input: &Input) -> Body {
    let krate = &input.krate;
    let count = input.columns().count();
    let field_plan = quote!(#krate::types::row::FieldPlan::<#count>);
    let find = if input.layout == Layout::Order {
        quote!(by_order::<Self>(columns)?)
    } else {
        let names = input.columns().map(|(_, field)| {
            let (name, required) = (&field.name, field.default.is_none());
            quote!((#name, #required))
        });
        quote!(by_name::<Self>(columns, [#(#names),*])?)
    };
    let checks = input.columns().map(|(place, field)| {
        let ty = input.read_type(field);
        quote!(plan.check::<#ty>(columns, #place)?;)
    });
    let flat = Flat::new(input);
    let (flat_rows, flat_plans, flat_pattern) = (&flat.rows, &flat.plans, &flat.pattern);
    let (plan_type, made) = if flat.plans.is_empty() {
        (field_plan.clone(), quote!(plan))
    } else {
        (
            quote!((#field_plan, #(#flat_rows::Plan,)*)),
            quote!((plan, #(#flat_rows::plan(columns)?,)*)),
        )
    };
    let flat_locals = input.flattened().zip(flat_plans).zip(flat_rows);
    let flat_locals = flat_locals.map(|((field, plan), row)| {
        let local = &field.local;
        quote!(let #local = #row::from_row(#plan, &mut ::core::clone::Clone::clone(row))?;)
    });
    let read = read_columns(input);
    Body {
        plan_type,
        plan: quote! {
            let plan = #field_plan::#find;
            #(#checks)*
            ::core::result::Result::Ok(#made)
        },
        read: quote! {
            #flat_pattern
            #(#flat_locals)*
            #read
        },
    }
}

/// What flattened fields add to a plan.
struct Flat {
    /// Their types as rows.
    rows: Vec<TokenStream>,
    plans: Vec<Ident>,
    /// Takes the plan apart, where there is something to take apart.
    pattern: TokenStream,
}

impl Flat {
    fn new(input: &Input) -> Self {
        let krate = &input.krate;
        let rows = input.flattened().map(|field| {
            let ty = input.read_type(field);
            quote_spanned!(field.span=> <#ty as #krate::types::FromRow<'__r>>)
        });
        let rows: Vec<_> = rows.collect();
        let plans: Vec<_> = (0..rows.len())
            .map(|index| format_ident!("__plan_{index}"))
            .collect();
        let pattern = if plans.is_empty() {
            TokenStream::new()
        } else {
            quote!(let (plan, #(#plans,)*) = plan;)
        };
        Self {
            rows,
            plans,
            pattern,
        }
    }
}

/// Reads the fields that have columns: straight where they are the first ones in order, else picked from all.
fn read_columns(input: &Input) -> TokenStream {
    let count = input.columns().count();
    let locals = input.columns().map(|(place, field)| {
        let (local, ty) = (&field.local, input.read_type(field));
        match &field.default {
            Some(default) => {
                quote!(let #local = cells.read::<::core::option::Option<#ty>>(#place)?.unwrap_or_else(#default);)
            }
            None => quote!(let #local = cells.read::<#ty>(#place)?;),
        }
    });
    let straight = input.build(|_, field| {
        let local = &field.local;
        quote!(#local)
    });
    let picked = input.build(|place, field| {
        let ty = input.read_type(field);
        match &field.default {
            Some(default) => quote!(picked.read_or::<#ty>(#place, #default)?),
            None => quote!(picked.read::<#ty>(#place)?),
        }
    });
    quote! {
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
