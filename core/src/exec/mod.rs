//! TODO

pub mod targets;
pub mod statement;
pub mod prepared;
pub mod batch;
pub mod paging;
pub mod result;
