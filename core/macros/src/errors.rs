//! Collects what is wrong with an input, so that the user sees all of it at once.

use proc_macro2::Span;

/// The errors found so far.
#[derive(Default)]
pub(crate) struct Errors(Option<syn::Error>);

impl Errors {
    /// Adds an error at this place.
    pub(crate) fn at(&mut self, span: Span, message: impl std::fmt::Display) {
        self.add(syn::Error::new(span, message));
    }

    /// Adds the error of a step, if it failed.
    pub(crate) fn take(&mut self, step: syn::Result<()>) {
        if let Err(error) = step {
            self.add(error);
        }
    }

    /// Returns the value unless something was wrong.
    pub(crate) fn or<T>(self, value: T) -> syn::Result<T> {
        match self.0 {
            None => Ok(value),
            Some(error) => Err(error),
        }
    }

    fn add(&mut self, error: syn::Error) {
        match &mut self.0 {
            Some(all) => all.combine(error),
            None => self.0 = Some(error),
        }
    }
}
