//! TODO

pub mod connect;
pub mod protocol;
pub mod request;
pub mod result;
pub mod session;
pub mod value;
