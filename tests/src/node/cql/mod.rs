//! The part of CQL that the node understands: text to tokens, tokens to statements, statements to effects.

pub(crate) mod ast;
mod combine;
pub(crate) mod dates;
mod describe;
pub(crate) mod executor;
pub(crate) mod functions;
pub(crate) mod lexer;
pub(crate) mod lookup;
mod modify;
mod paging;
pub(crate) mod parser;
pub(crate) mod relations;
pub(crate) mod select;
pub(crate) mod selection;
mod sorting;
pub(crate) mod terms;
pub(crate) mod types;
pub(crate) mod usage;
mod write;

#[cfg(test)]
mod tests;
