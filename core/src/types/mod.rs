//! TODO

pub mod column_type;
pub mod custom_type;
pub mod value;
pub mod encode;
pub mod decode;
pub mod row;
pub mod udt;
mod impls;
