//! The answers that are made once: what PREPARE says about a workload's statement, and what its EXECUTE gets.

use std::sync::Arc;

use messina_core::types::column_type::ColumnType;
use messina_core::wire::{ColumnSpec, FrameHeader, ProtocolFeatures, Response, ResultBody};

use super::frame;
use super::system::{cell, column, prepared, rows_of};
use crate::workload::{BLOB, LARGE, PAGE_ROWS, TEXT, Workload};

/// The answers for one statement.
pub(crate) struct Canned {
    pub(crate) text: &'static str,
    pub(crate) id: u8,
    /// A frame with stream 0, whole unless its body is large.
    pub(crate) head: Vec<u8>,
    /// A large body, sent from here.
    pub(crate) large: Option<Arc<[u8]>>,
    table: &'static str,
    bound: &'static [Column],
    result: &'static [Column],
}

type Column = (&'static str, ColumnType);

const KV: &[Column] = &[
    ("pk", ColumnType::BigInt),
    ("v", ColumnType::Text),
    ("data", ColumnType::Blob),
];
const BLOBS: &[Column] = &[("pk", ColumnType::BigInt), ("data", ColumnType::Blob)];
const WIDE: &[Column] = &[
    ("c0", ColumnType::Int),
    ("c1", ColumnType::Text),
    ("c2", ColumnType::Blob),
    ("c3", ColumnType::BigInt),
    ("c4", ColumnType::Double),
    ("c5", ColumnType::Uuid),
    ("c6", ColumnType::Timestamp),
    ("c7", ColumnType::Boolean),
    ("c8", ColumnType::Text),
    ("c9", ColumnType::Int),
];
const KEY: &[Column] = &[("pk", ColumnType::BigInt)];

/// Makes all of them.
pub(crate) fn all() -> Vec<Canned> {
    let of = |workload: Workload, table, bound, result: &'static [Column], answer: Response| {
        let mut head = whole(answer);
        let is_large = FrameHeader::LEN + SMALL < head.len();
        Canned {
            text: workload.statement(),
            id: workload.id(),
            large: is_large.then(|| head.split_off(FrameHeader::LEN).into()),
            head,
            table,
            bound,
            result,
        }
    };
    let void = || Response::Result(ResultBody::Void);
    let blob = |cells: &mut Vec<u8>| {
        cell(cells, &7_i64.to_be_bytes());
        cell(cells, &vec![0xab; LARGE]);
    };
    vec![
        of(Workload::Insert, "kv", KV, &[], void()),
        of(
            Workload::Select1,
            "kv",
            KEY,
            KV,
            rows("kv", KV, 1, small_row),
        ),
        of(
            Workload::PageOwned,
            "wide",
            KEY,
            WIDE,
            rows("wide", WIDE, PAGE_ROWS, wide_cells),
        ),
        of(
            Workload::BlobGet,
            "blobs",
            KEY,
            BLOBS,
            rows("blobs", BLOBS, 1, blob),
        ),
        of(Workload::BlobPut, "blobs", BLOBS, &[], void()),
    ]
}

/// The answer of a select of one row.
pub(crate) fn select1_frame() -> Vec<u8> {
    whole(rows("kv", KV, 1, small_row))
}

/// A frame of version 4 with stream 0; where these stand is written over for each request.
fn whole(answer: Response) -> Vec<u8> {
    let mut whole = Vec::new();
    frame(answer, &mut whole, &ProtocolFeatures::default(), 0);
    whole
}

/// Above this an answer is not copied.
const SMALL: usize = 4096;

impl Canned {
    /// A RESULT of kind PREPARED; the last byte of the id says which canned answer an EXECUTE gets.
    pub(crate) fn prepared(&self) -> Response {
        let mut id = vec![0; 16];
        id[15] = self.id;
        let result = (!self.result.is_empty()).then(|| columns(self.table, self.result));
        prepared(id.into(), columns(self.table, self.bound), result)
    }
}

fn rows(
    table: &str,
    names: &[Column],
    count: usize,
    mut row: impl FnMut(&mut Vec<u8>),
) -> Response {
    let mut cells = Vec::new();
    (0..count).for_each(|_| row(&mut cells));
    rows_of(columns(table, names), count, cells)
}

fn columns(table: &str, columns: &[Column]) -> Arc<[ColumnSpec]> {
    let named = columns.iter();
    named
        .map(|(name, ty)| column("bench", table, name, ty.clone()))
        .collect()
}

fn small_row(out: &mut Vec<u8>) {
    cell(out, &7_i64.to_be_bytes());
    cell(out, TEXT.as_bytes());
    cell(out, &BLOB);
}

/// The cells of one row of the wide table.
pub(crate) fn wide_cells(out: &mut Vec<u8>) {
    cell(out, &1_i32.to_be_bytes());
    cell(out, b"twelve chars");
    cell(out, &BLOB);
    cell(out, &7_i64.to_be_bytes());
    cell(out, &1.5_f64.to_be_bytes());
    cell(out, &[0x41; 16]);
    cell(out, &1_700_000_000_000_i64.to_be_bytes());
    cell(out, &[1]);
    cell(out, b"twenty-four chars long..");
    cell(out, &2_i32.to_be_bytes());
}
