//! TODO

pub mod protocol;
pub mod value;
pub mod connect;
pub mod request;
pub mod session;
