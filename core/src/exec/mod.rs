//! TODO

pub mod batch;
pub mod paging;
pub mod prepared;
pub mod result;
pub mod statement;
pub mod targets;
