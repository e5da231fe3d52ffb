//! Builds the rows of tables that are made up when they are read.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use messina_core::types::column_type::ColumnType;
use uuid::Uuid;

use crate::node::cql::lookup::place_of;
use crate::node::schema::{ColumnKind, Table};
use crate::node::store::{Cell, Life, TableData};
use crate::node::values::{encode_list, encode_map, encode_set, put_clustering};

/// The rows of one table.
#[derive(Debug)]
pub(super) struct Rows<'a> {
    table: &'a Table,
    data: TableData,
}

impl<'a> Rows<'a> {
    pub(super) fn new(table: &'a Table) -> Self {
        Self {
            table,
            data: TableData::default(),
        }
    }

    /// Adds a row; columns that are not named are null.
    pub(super) fn add(&mut self, cells: &[(&str, Option<Bytes>)]) {
        let find = |name: &str| {
            cells
                .iter()
                .find(|(column, _)| *column == name)
                .and_then(|(_, value)| value.clone())
        };
        let (mut key, mut clustering, mut place) = (Vec::new(), Vec::new(), Vec::new());
        for column in &self.table.columns {
            match column.kind {
                ColumnKind::PartitionKey => key.push(find(&column.name).unwrap_or_default()),
                ColumnKind::Clustering(direction) => {
                    let value = find(&column.name).unwrap_or_default();
                    put_clustering(&column.ty, &value, direction, &mut place);
                    clustering.push(value);
                }
                _ => {}
            }
        }
        let Ok(partition) = place_of(&key) else {
            return;
        };
        let row = self.data.partition(partition, &key).row(place, &clustering);
        row.mark(Life::forever(0));
        for column in self
            .table
            .columns
            .iter()
            .filter(|column| !column.kind.is_key())
        {
            if let Some(value) = find(&column.name) {
                let name: Arc<str> = column.name.clone();
                row.write(
                    &name,
                    Cell {
                        value: Some(value),
                        life: Life::forever(0),
                    },
                );
            }
        }
    }

    pub(super) fn finish(self) -> TableData {
        self.data
    }
}

pub(super) fn text(value: &str) -> Option<Bytes> {
    Some(Bytes::copy_from_slice(value.as_bytes()))
}

pub(super) fn int(value: i32) -> Option<Bytes> {
    Some(Bytes::copy_from_slice(&value.to_be_bytes()))
}

pub(super) fn long(value: i64) -> Option<Bytes> {
    Some(Bytes::copy_from_slice(&value.to_be_bytes()))
}

pub(super) fn double(value: f64) -> Option<Bytes> {
    Some(Bytes::copy_from_slice(&value.to_be_bytes()))
}

pub(super) fn boolean(value: bool) -> Option<Bytes> {
    Some(Bytes::copy_from_slice(&[u8::from(value)]))
}

pub(super) fn uuid(value: Uuid) -> Option<Bytes> {
    Some(Bytes::copy_from_slice(value.as_bytes()))
}

pub(super) fn inet(value: IpAddr) -> Option<Bytes> {
    Some(match value {
        IpAddr::V4(address) => Bytes::copy_from_slice(&address.octets()),
        IpAddr::V6(address) => Bytes::copy_from_slice(&address.octets()),
    })
}

pub(super) fn text_list<T: AsRef<str>>(items: &[T]) -> Option<Bytes> {
    let items: Vec<&[u8]> = items.iter().map(|item| item.as_ref().as_bytes()).collect();
    Some(encode_list(&items))
}

pub(super) fn text_set<T: AsRef<str>>(items: &[T]) -> Option<Bytes> {
    let items: Vec<&[u8]> = items.iter().map(|item| item.as_ref().as_bytes()).collect();
    Some(encode_set(&ColumnType::Text, items))
}

pub(super) fn blob_map(entries: &[(&str, Vec<u8>)]) -> Option<Bytes> {
    let entries = entries
        .iter()
        .map(|(key, value)| (key.as_bytes(), value.as_slice()));
    Some(encode_map(&ColumnType::Text, entries.collect()))
}

pub(super) fn text_map(entries: &[(String, String)]) -> Option<Bytes> {
    let entries = entries
        .iter()
        .map(|(key, value)| (key.as_bytes(), value.as_bytes()));
    Some(encode_map(&ColumnType::Text, entries.collect()))
}
