//! Errors, typed by whose they are: the peer's, the environment's, the caller's. What follows from them is decided
//! elsewhere, in policies and machines.

pub mod connect;
pub mod io;
pub mod protocol;
pub mod request;
pub mod result;
pub mod session;
pub mod value;
