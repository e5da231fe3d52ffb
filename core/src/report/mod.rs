//! TODO

pub mod startup;
