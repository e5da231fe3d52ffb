//! ORDER BY over several partitions: their rows are read one partition after the other and put into one order at the
//! end.

use std::cmp::Ordering;

use bytes::Bytes;

use crate::node::schema::{ColumnKind, Table};
use crate::node::values::compare;

use super::ast::Direction;
use super::executor::RowSet;

/// Rows that wait for all others before they have a place.
#[derive(Clone, Debug, Default)]
pub(super) struct Unsorted {
    rows: Vec<UnsortedRow>,
}

#[derive(Clone, Debug)]
struct UnsortedRow {
    /// Empty for the row of static columns alone, which comes first.
    clustering: Vec<Bytes>,
    cells: Vec<u8>,
}

impl Unsorted {
    pub(super) fn push(&mut self, clustering: &[Bytes], cells: Vec<u8>) {
        let clustering = clustering.to_vec();
        self.rows.push(UnsortedRow { clustering, cells });
    }

    /// Gives the first rows in the order of that many clustering columns; equal ones stay as they were read.
    pub(super) fn finish(
        mut self,
        table: &Table,
        columns: usize,
        reversed: bool,
        limit: u64,
        out: &mut RowSet,
    ) {
        self.rows.sort_by(|a, b| {
            let keys = a.clustering.iter().zip(&b.clustering);
            let parts = table.clustering_key().zip(keys).take(columns);
            let order = parts
                .map(|(column, (a, b))| {
                    let order = compare(&column.ty, Some(a), Some(b));
                    let backwards = column.kind == ColumnKind::Clustering(Direction::Descending);
                    if backwards == reversed {
                        order
                    } else {
                        order.reverse()
                    }
                })
                .find(|order| order.is_ne());
            order.unwrap_or(match (a.clustering.len(), b.clustering.len()) {
                (0, 1..) => Ordering::Less,
                (1.., 0) => Ordering::Greater,
                _ => Ordering::Equal,
            })
        });
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        for row in self.rows.into_iter().take(limit) {
            out.cells.extend_from_slice(&row.cells);
            out.row_count += 1;
        }
    }
}
