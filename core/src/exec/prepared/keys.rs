//! Tests of what a prepared statement is routed by: the table it names and the token of its partition key.

use super::*;
use crate::exec::fixtures::routing;
use crate::routing::TableRouting;
use crate::types::column_type::ColumnType;
use crate::wire::{ColumnSpec, ResultMetadata};

/// A statement on `keyspace.t` with these bind markers, prepared by a session in keyspace `ks1`.
fn statement(
    keyspace: &str,
    markers: &[(&str, ColumnType)],
    pk_indexes: &[u16],
) -> PreparedStatement {
    let marker = |(name, ty): &(&str, ColumnType)| ColumnSpec {
        keyspace: keyspace.into(),
        table: "t".into(),
        name: (*name).into(),
        ty: ty.clone(),
    };
    let body = PreparedBody {
        id: Bytes::from_static(b"id"),
        result_metadata_id: None,
        bind_columns: markers.iter().map(marker).collect(),
        pk_indexes: pk_indexes.to_vec(),
        conditional: false,
        // As of a write: the result has no columns.
        result: ResultMetadata::default(),
    };
    PreparedStatement::new("INSERT".into(), Some("ks1".into()), body, &known())
}

/// Knows a table `t` in each of two keyspaces, and is in the first of them.
fn known() -> Routing<u32> {
    let table = |keyspace: &str| TableRouting {
        keyspace: keyspace.into(),
        name: "t".into(),
        partitioner: Partitioner::Murmur3,
        placement: None,
    };
    let mut known = routing(1, &[]);
    known.keyspace = Some("ks1".into());
    known.tables = [table("ks1"), table("ks2")].into();
    known.table_order = [TableIdx(0), TableIdx(1)].into();
    known
}

fn token_of(bytes: &[u8]) -> Option<Token> {
    Partitioner::Murmur3.token(bytes)
}

#[test]
fn the_key_is_hashed_in_its_own_order_whatever_the_order_of_the_markers() {
    // PRIMARY KEY ((a int, b text)), written as WHERE b = ? AND a = ?.
    let markers = [("b", ColumnType::Text), ("a", ColumnType::Int)];
    let bound = statement("ks2", &markers, &[1, 0])
        .bind(("x", 7))
        .expect("they fit");
    let key = [0, 4, 0, 0, 0, 7, 0, 0, 1, b'x', 0];
    assert_eq!(bound.token(), token_of(&key));
    assert_ne!(
        bound.token(),
        statement("ks2", &markers, &[0, 1])
            .bind(("x", 7))
            .expect("they fit")
            .token()
    );
}

#[test]
fn a_statement_that_does_not_bind_the_whole_key_has_no_token() {
    let markers = [("a", ColumnType::Int)];
    let bound = statement("ks2", &markers, &[])
        .bind((7,))
        .expect("they fit");
    assert_eq!(bound.token(), None);
}

#[test]
fn a_part_of_a_key_longer_than_a_signed_length_is_hashed_with_its_whole_length() {
    let markers = [("a", ColumnType::Blob), ("b", ColumnType::Int)];
    let blob = vec![0xab_u8; 40_000];
    let bound = statement("ks2", &markers, &[0, 1])
        .bind((&blob[..], 1))
        .expect("they fit");
    let mut key = vec![0x9c, 0x40];
    key.extend(&blob);
    key.extend([0, 0, 4, 0, 0, 0, 1, 0]);
    assert_eq!(bound.token(), token_of(&key));
    let markers = [("a", ColumnType::Int), ("b", ColumnType::Text)];
    let bound = statement("ks2", &markers, &[0, 1])
        .bind((1, "ab"))
        .expect("they fit");
    assert_eq!(
        bound.token(),
        token_of(&[0, 4, 0, 0, 0, 1, 0, 0, 2, b'a', b'b', 0])
    );
    let markers = [("a", ColumnType::Blob), ("b", ColumnType::Int)];
    let long = vec![0_u8; 65_536];
    statement("ks2", &markers, &[0, 1])
        .bind((&long[..], 1))
        .expect_err("it has no length");
}

#[test]
fn a_write_is_routed_by_the_table_of_its_markers_in_the_keyspace_it_names() {
    let markers = [("k", ColumnType::Int), ("v", ColumnType::Text)];
    for (keyspace, table) in [("ks1", TableIdx(0)), ("ks2", TableIdx(1))] {
        let write = statement(keyspace, &markers, &[0]);
        assert_eq!(write.table(&known()), Some(table), "{keyspace}");
        // Nor does it follow the session to another keyspace.
        let mut elsewhere = known();
        elsewhere.keyspace = Some("ks2".into());
        assert_eq!(write.table(&elsewhere), Some(table), "{keyspace}");
    }
    let without_markers = statement("ks2", &[], &[]);
    assert_eq!(without_markers.table(&known()), None);
}
