//! Owns valid frames of every kind, to be mutated, and the seed corpus that is made of them.

mod corpus;
mod requests;
mod responses;
mod values;

pub use corpus::corpus;
pub use requests::requests;
pub use responses::responses;
pub use values::values;

/// A valid input of a target.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Says what it is, in letters that a file's name can have.
    pub name: String,
    /// The input.
    pub bytes: Vec<u8>,
}
