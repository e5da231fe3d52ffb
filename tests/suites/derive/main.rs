//! The derives: what they read and write, what they refuse, and that they compile for a user who depends on one adapter.

mod compile;
mod enums;
mod rows;
mod support;
mod user_types;
