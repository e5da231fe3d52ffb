//! The data of one table: partitions in token order, rows in clustering order, cells with timestamps. The last write
//! wins, by timestamp. What a statement means is decided in `cql`.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

/// All rows of one table.
#[derive(Clone, Debug, Default)]
pub(crate) struct TableData {
    pub(crate) partitions: BTreeMap<PartitionPlace, Partition>,
}

/// Where a partition stands: by token, then by the bytes of its key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PartitionPlace {
    pub(crate) token: i64,
    /// The key as it is hashed.
    pub(crate) key: Vec<u8>,
}

/// One partition.
#[derive(Clone, Debug, Default)]
pub(crate) struct Partition {
    /// The columns of the partition key.
    pub(crate) key: Vec<Bytes>,
    /// Everything up to this timestamp is gone.
    deleted_at: Option<i64>,
    ranges: Vec<RangeTombstone>,
    pub(crate) statics: Row,
    /// By the ordered form of the clustering key.
    pub(crate) rows: BTreeMap<Vec<u8>, Row>,
}

/// Rows from `start` up to but without `end` are gone up to `timestamp`.
#[derive(Clone, Debug)]
struct RangeTombstone {
    range: RowRange,
    timestamp: i64,
}

/// A range of ordered clustering keys: from `start` up to but without `end`; no `end` is no bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RowRange {
    pub(crate) start: Vec<u8>,
    pub(crate) end: Option<Vec<u8>>,
}

impl RowRange {
    /// Every key that begins with a prefix.
    pub(crate) fn of_prefix(prefix: &[u8]) -> Self {
        Self {
            start: prefix.to_vec(),
            end: successor(prefix),
        }
    }

    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        self.start.as_slice() <= key && self.end.as_ref().is_none_or(|end| key < end.as_slice())
    }
}

/// The first byte string after all that begin with a prefix.
pub(crate) fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut end = prefix.get(..=last)?.to_vec();
    if let Some(byte) = end.last_mut() {
        *byte += 1;
    }
    Some(end)
}

/// One row, or the static columns of a partition.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    /// The columns of the clustering key.
    pub(crate) clustering: Vec<Bytes>,
    /// What INSERT leaves, so that a row without values exists.
    marker: Option<Life>,
    deleted_at: Option<i64>,
    cells: BTreeMap<Arc<str>, Cell>,
}

/// When something was written and when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    /// Microseconds, as the writer says.
    pub(crate) timestamp: i64,
    /// Microseconds of the node's clock and the seconds that were asked for.
    pub(crate) expiry: Option<Expiry>,
}

/// The end of something that was written with a TTL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expiry {
    pub(crate) at: i64,
    pub(crate) ttl: i32,
}

/// One value, or its tombstone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) value: Option<Bytes>,
    pub(crate) life: Life,
}

impl Life {
    pub(crate) fn forever(timestamp: i64) -> Self {
        Self {
            timestamp,
            expiry: None,
        }
    }

    fn is_live(&self, now: i64, deleted_at: Option<i64>) -> bool {
        deleted_at.is_none_or(|deleted| deleted < self.timestamp)
            && self.expiry.is_none_or(|expiry| now < expiry.at)
    }
}

impl Cell {
    /// Whether this write beats another one; of two at the same time a tombstone wins, then the bigger value.
    fn beats(&self, other: &Self) -> bool {
        let rank = |cell: &Self| (cell.life.timestamp, cell.value.is_none());
        match rank(self).cmp(&rank(other)) {
            std::cmp::Ordering::Equal => other.value <= self.value,
            order => order.is_gt(),
        }
    }
}

impl Row {
    pub(crate) fn write(&mut self, column: &Arc<str>, cell: Cell) {
        match self.cells.get_mut(column) {
            Some(old) => {
                if cell.beats(old) {
                    *old = cell;
                }
            }
            None => {
                self.cells.insert(column.clone(), cell);
            }
        }
    }

    /// Writes a value that was made from the old one, so that it wins over an equally old one.
    pub(crate) fn rewrite(&mut self, column: &Arc<str>, cell: Cell) {
        let newer = self
            .cells
            .get(column)
            .is_some_and(|old| cell.life.timestamp < old.life.timestamp);
        if !newer {
            self.cells.insert(column.clone(), cell);
        }
    }

    pub(crate) fn mark(&mut self, life: Life) {
        if self
            .marker
            .is_none_or(|old| old.timestamp <= life.timestamp)
        {
            self.marker = Some(life);
        }
    }

    pub(crate) fn delete(&mut self, timestamp: i64) {
        self.deleted_at = self.deleted_at.max(Some(timestamp));
        self.forget(timestamp);
    }

    /// Drops what a deletion at this time covers.
    fn forget(&mut self, timestamp: i64) {
        self.cells.retain(|_, cell| timestamp < cell.life.timestamp);
        self.marker = self.marker.filter(|marker| timestamp < marker.timestamp);
    }

    fn is_blank(&self) -> bool {
        self.cells.is_empty() && self.marker.is_none() && self.deleted_at.is_none()
    }
}

/// A row as a reader sees it at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowView<'a> {
    row: &'a Row,
    deleted_at: Option<i64>,
    now: i64,
}

impl<'a> RowView<'a> {
    /// The live cell of a column.
    pub(crate) fn cell(&self, column: &str) -> Option<&'a Cell> {
        let cell = self.row.cells.get(column)?;
        (cell.value.is_some() && cell.life.is_live(self.now, self.deleted_at)).then_some(cell)
    }

    /// The live value of a column.
    pub(crate) fn value(&self, column: &str) -> Option<&'a Bytes> {
        self.cell(column).and_then(|cell| cell.value.as_ref())
    }

    pub(crate) fn clustering(&self) -> &'a [Bytes] {
        &self.row.clustering
    }

    /// Whether the row exists: INSERT made it, or a value is in it.
    pub(crate) fn exists(&self) -> bool {
        let live = |life: &Life| life.is_live(self.now, self.deleted_at);
        self.row.marker.as_ref().is_some_and(live)
            || self
                .row
                .cells
                .values()
                .any(|cell| cell.value.is_some() && live(&cell.life))
    }
}

impl Partition {
    pub(crate) fn new(key: Vec<Bytes>) -> Self {
        Self {
            key,
            ..Self::default()
        }
    }

    /// The row with this clustering key, made if it is not there.
    pub(crate) fn row(&mut self, place: Vec<u8>, clustering: &[Bytes]) -> &mut Row {
        self.rows.entry(place).or_insert_with(|| Row {
            clustering: clustering.to_vec(),
            ..Row::default()
        })
    }

    pub(crate) fn delete(&mut self, timestamp: i64) {
        self.deleted_at = self.deleted_at.max(Some(timestamp));
        self.statics.forget(timestamp);
        self.rows.retain(|_, row| {
            row.forget(timestamp);
            !row.is_blank()
        });
    }

    pub(crate) fn delete_range(&mut self, range: RowRange, timestamp: i64) {
        self.rows.retain(|place, row| {
            if range.contains(place) {
                row.forget(timestamp);
            }
            !row.is_blank()
        });
        self.ranges
            .retain(|old| old.range != range || timestamp < old.timestamp);
        self.ranges.push(RangeTombstone { range, timestamp });
    }

    pub(crate) fn statics_view(&self, now: i64) -> RowView<'_> {
        RowView {
            row: &self.statics,
            deleted_at: self.deleted_at.max(self.statics.deleted_at),
            now,
        }
    }

    pub(crate) fn view<'a>(&'a self, place: &[u8], row: &'a Row, now: i64) -> RowView<'a> {
        let covering = self
            .ranges
            .iter()
            .filter(|tombstone| tombstone.range.contains(place));
        let range_deleted_at = covering.map(|tombstone| tombstone.timestamp).max();
        let deleted_at = self.deleted_at.max(row.deleted_at).max(range_deleted_at);
        RowView {
            row,
            deleted_at,
            now,
        }
    }

    /// The row with this clustering key if it exists now.
    pub(crate) fn find(&self, place: &[u8], now: i64) -> Option<RowView<'_>> {
        let row = self.rows.get(place)?;
        Some(self.view(place, row, now)).filter(RowView::exists)
    }
}

impl TableData {
    /// The partition with this key, made if it is not there.
    pub(crate) fn partition(&mut self, place: PartitionPlace, key: &[Bytes]) -> &mut Partition {
        self.partitions
            .entry(place)
            .or_insert_with(|| Partition::new(key.to_vec()))
    }

    /// Forgets a column that was dropped.
    pub(crate) fn drop_column(&mut self, column: &str) {
        for partition in self.partitions.values_mut() {
            partition.statics.cells.remove(column);
            for row in partition.rows.values_mut() {
                row.cells.remove(column);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(value: &str, timestamp: i64) -> Cell {
        Cell {
            value: Some(Bytes::copy_from_slice(value.as_bytes())),
            life: Life::forever(timestamp),
        }
    }

    fn value_of(partition: &Partition, place: &[u8], now: i64) -> Option<String> {
        let view = partition.find(place, now)?;
        view.value("v")
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    #[test]
    fn the_write_with_the_later_timestamp_wins_in_any_order() {
        let column: Arc<str> = "v".into();
        let mut partition = Partition::default();
        partition.row(vec![1], &[]).write(&column, cell("new", 20));
        partition.row(vec![1], &[]).write(&column, cell("old", 10));
        assert_eq!(value_of(&partition, &[1], 0).as_deref(), Some("new"));
        partition
            .row(vec![1], &[])
            .write(&column, cell("bigger", 20));
        assert_eq!(
            value_of(&partition, &[1], 0).as_deref(),
            Some("new"),
            "the bigger value stays"
        );
        partition.row(vec![1], &[]).write(
            &column,
            Cell {
                value: None,
                life: Life::forever(20),
            },
        );
        assert_eq!(
            value_of(&partition, &[1], 0),
            None,
            "a tombstone wins at the same time"
        );
    }

    #[test]
    fn what_was_written_before_a_deletion_stays_dead_even_when_it_arrives_later() {
        let column: Arc<str> = "v".into();
        let mut partition = Partition::default();
        partition.row(vec![1], &[]).delete(15);
        partition.row(vec![1], &[]).write(&column, cell("late", 10));
        assert_eq!(value_of(&partition, &[1], 0), None);
        partition.delete_range(RowRange::of_prefix(&[2]), 15);
        partition
            .row(vec![2, 7], &[])
            .write(&column, cell("late", 15));
        assert_eq!(value_of(&partition, &[2, 7], 0), None);
        partition
            .row(vec![2, 7], &[])
            .write(&column, cell("after", 16));
        assert_eq!(value_of(&partition, &[2, 7], 0).as_deref(), Some("after"));
        partition.delete(30);
        partition.row(vec![3], &[]).write(&column, cell("late", 30));
        assert_eq!(value_of(&partition, &[3], 0), None);
    }

    #[test]
    fn a_value_with_a_ttl_ends_and_its_row_with_it() {
        let column: Arc<str> = "v".into();
        let mut partition = Partition::default();
        let expiry = Some(Expiry { at: 1_000, ttl: 1 });
        let life = Life {
            timestamp: 1,
            expiry,
        };
        let row = partition.row(vec![1], &[]);
        row.mark(life);
        row.write(
            &column,
            Cell {
                value: Some(Bytes::from_static(b"x")),
                life,
            },
        );
        assert!(partition.find(&[1], 999).is_some());
        assert!(partition.find(&[1], 1_000).is_none());
    }

    #[test]
    fn an_inserted_row_exists_without_values_but_an_updated_one_does_not() {
        let column: Arc<str> = "v".into();
        let mut partition = Partition::default();
        partition.row(vec![1], &[]).mark(Life::forever(1));
        assert!(partition.find(&[1], 0).is_some());
        partition.row(vec![2], &[]).write(
            &column,
            Cell {
                value: None,
                life: Life::forever(1),
            },
        );
        assert!(partition.find(&[2], 0).is_none());
    }

    #[test]
    fn the_successor_of_a_prefix_ends_its_range() {
        assert_eq!(successor(&[1, 0xff, 0xff]), Some(vec![2]));
        assert_eq!(successor(&[0xff]), None);
        assert!(RowRange::of_prefix(&[1]).contains(&[1, 0xff]));
        assert!(!RowRange::of_prefix(&[1]).contains(&[2]));
    }
}
