//! TODO

pub mod header;
pub mod read;
pub mod write;
pub mod request;
pub mod response;
pub mod result;
pub mod event;
pub mod server_error;
pub mod supported;
