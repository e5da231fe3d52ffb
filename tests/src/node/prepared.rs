//! Prepared statements of one node, and the ids that they and their results have.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use md5::{Digest, Md5};
use messina_core::wire::result::ColumnSpec;
use sha2::Sha256;

use super::CqlError;
use super::cql::executor::{Plan, plan};
use super::cql::parser::parse;
use super::cql::types::marshal_name;
use super::schema::Schema;

/// A statement that PREPARE was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub(crate) id: Bytes,
    pub(crate) text: String,
    pub(crate) plan: Plan,
    /// The id of the columns of its result.
    pub(crate) metadata_id: Bytes,
}

/// What a node has prepared since it started.
#[derive(Clone, Debug, Default)]
pub(crate) struct PreparedStatements {
    by_id: BTreeMap<Bytes, Arc<Prepared>>,
}

impl PreparedStatements {
    /// Checks a statement and remembers it.
    pub(crate) fn prepare(
        &mut self,
        text: &str,
        keyspace: Option<&str>,
        schema: &Schema,
    ) -> Result<Arc<Prepared>, CqlError> {
        let id = statement_id(text, keyspace);
        if let Some(known) = self.by_id.get(&id) {
            return Ok(known.clone());
        }
        let plan = plan(&parse(text)?, schema, keyspace)?;
        let metadata_id = metadata_id(plan.result.as_deref().unwrap_or(&[]));
        let prepared = Arc::new(Prepared {
            id: id.clone(),
            text: text.to_owned(),
            plan,
            metadata_id,
        });
        self.by_id.insert(id, prepared.clone());
        Ok(prepared)
    }

    /// Finds a statement by its id.
    pub(crate) fn find(&self, id: &Bytes) -> Result<Arc<Prepared>, CqlError> {
        self.by_id
            .get(id)
            .cloned()
            .ok_or_else(|| CqlError::unprepared(id.clone()))
    }

    pub(crate) fn clear(&mut self) {
        self.by_id.clear();
    }

    /// Forgets what depends on a table, or on any table of a keyspace.
    pub(crate) fn forget(&mut self, keyspace: &str, table: Option<&str>) {
        self.by_id.retain(|_, prepared| {
            !prepared.plan.tables.iter().any(|used| {
                &*used.keyspace == keyspace && table.is_none_or(|table| &*used.name == table)
            })
        });
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }
}

/// The hash of keyspace and text, equal on all nodes.
fn statement_id(text: &str, keyspace: Option<&str>) -> Bytes {
    let mut hash = Md5::new();
    hash.update(keyspace.unwrap_or("").as_bytes());
    hash.update(text.as_bytes());
    let id: [u8; 16] = hash.finalize().into();
    Bytes::copy_from_slice(&id)
}

/// The hash of names and types of the columns of a result.
fn metadata_id(columns: &[ColumnSpec]) -> Bytes {
    let mut hash = Sha256::new();
    let mut part = |text: &str| {
        hash.update(u64::try_from(text.len()).unwrap_or(u64::MAX).to_le_bytes());
        hash.update(text.as_bytes());
    };
    for column in columns {
        part(&column.name);
        part(&marshal_name(&column.ty));
    }
    let id: [u8; 32] = hash.finalize().into();
    Bytes::copy_from_slice(id.first_chunk::<16>().unwrap_or(&[0; 16]))
}

#[cfg(test)]
mod tests {
    use messina_core::types::column_type::ColumnType;

    use super::*;

    fn column(name: &str, ty: ColumnType) -> ColumnSpec {
        ColumnSpec {
            keyspace: "k".into(),
            table: "t".into(),
            name: name.into(),
            ty,
        }
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn metadata_ids_are_those_of_the_server() {
        let int = |name: &str| column(name, ColumnType::Int);
        for (columns, id) in [
            (vec![], "e3b0c44298fc1c149afbf4c8996fb924"),
            (
                vec![column("id", ColumnType::Uuid)],
                "d0c38eb409a57bb14497c35b80dfaaf1",
            ),
            (vec![int("id")], "b62d95c978e2e2498100ad8d20979868"),
            (vec![int("val1")], "f38171ab2b2e4d98e3f76a4640de5b32"),
            (
                vec![int("val1"), int("val2")],
                "31c5cb5d0d41fbc426266248cc37941a",
            ),
        ] {
            assert_eq!(hex(&metadata_id(&columns)), id);
        }
    }

    #[test]
    fn the_id_depends_on_text_and_keyspace() {
        assert_eq!(statement_id("b", Some("a")), statement_id("ab", None));
        assert_ne!(statement_id("SELECT", None), statement_id("select", None));
        assert_eq!(statement_id("x", None).len(), 16);
    }
}
