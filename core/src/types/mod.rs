//! TODO

pub mod column_type;
pub mod custom_type;
pub mod decode;
pub mod encode;
mod impls;
pub mod row;
pub mod udt;
pub mod value;
