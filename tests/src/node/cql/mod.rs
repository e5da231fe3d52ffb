//! The part of CQL that the node understands: text to tokens, tokens to statements, statements to effects.

pub(crate) mod ast;
pub(crate) mod dates;
pub(crate) mod functions;
pub(crate) mod lexer;
pub(crate) mod parser;
pub(crate) mod terms;
pub(crate) mod types;
