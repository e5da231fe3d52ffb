//! Class names of types, in both directions. Type options with ids are read in [`crate::wire::result`].

use crate::error::protocol::ProtocolError;
use crate::types::column_type::ColumnType;

/// Reads a class name. A name that CQL does not know becomes [`ColumnType::Custom`].
pub fn parse_class_name(_name: &str) -> Result<ColumnType, ProtocolError> {
    todo!()
}
