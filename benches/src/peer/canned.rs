//! The answers that are made once: what PREPARE says about a workload's statement, and what its EXECUTE gets.

use std::sync::Arc;

use super::system::{cell, int, short, string};
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

type Column = (&'static str, u16);

const KV: [Column; 3] = [("pk", 2), ("v", 13), ("data", 3)];
const BLOBS: [Column; 2] = [("pk", 2), ("data", 3)];
const WIDE: [Column; 10] = [
    ("c0", 9),
    ("c1", 13),
    ("c2", 3),
    ("c3", 2),
    ("c4", 7),
    ("c5", 12),
    ("c6", 11),
    ("c7", 4),
    ("c8", 13),
    ("c9", 9),
];
const KEY: [Column; 1] = [("pk", 2)];

/// Makes all of them.
pub(crate) fn all() -> Vec<Canned> {
    let of = |workload: Workload, table, bound, result: &'static [Column], body: Vec<u8>| Canned {
        text: workload.statement(),
        id: workload.id(),
        head: head(&body),
        large: (SMALL < body.len()).then(|| body.into()),
        table,
        bound,
        result,
    };
    let blob = |cells: &mut Vec<u8>| {
        cell(cells, &7_i64.to_be_bytes());
        cell(cells, &vec![0xab; LARGE]);
    };
    vec![
        of(Workload::Insert, "kv", &KV, &[], int(1)),
        of(
            Workload::Select1,
            "kv",
            &KEY,
            &KV,
            rows("kv", &KV, 1, small_row),
        ),
        of(
            Workload::PageOwned,
            "wide",
            &KEY,
            &WIDE,
            rows("wide", &WIDE, PAGE_ROWS, wide_cells),
        ),
        of(
            Workload::BlobGet,
            "blobs",
            &KEY,
            &BLOBS,
            rows("blobs", &BLOBS, 1, blob),
        ),
        of(Workload::BlobPut, "blobs", &BLOBS, &[], int(1)),
    ]
}

/// The answer of a select of one row.
pub(crate) fn select1_frame() -> Vec<u8> {
    head(&rows("kv", &KV, 1, small_row))
}

/// The frame's header, and its body too unless that is large.
fn head(body: &[u8]) -> Vec<u8> {
    let mut head = vec![0x84, 0, 0, 0, 8];
    head.extend((body.len() as u32).to_be_bytes());
    if body.len() <= SMALL {
        head.extend(body);
    }
    head
}

/// Above this an answer is not copied.
const SMALL: usize = 4096;

impl Canned {
    /// A RESULT of kind PREPARED; the last byte of the id says which canned answer an EXECUTE gets.
    pub(crate) fn prepared(&self, has_metadata_id: bool) -> Vec<u8> {
        let mut id = [0; 16];
        id[15] = self.id;
        let mut out = int(4);
        let ids = if has_metadata_id { 2 } else { 1 };
        for _ in 0..ids {
            out.extend(short(16));
            out.extend(id);
        }
        out.extend(int(1));
        out.extend(int(self.bound.len() as i32));
        out.extend(int(1));
        out.extend(short(0));
        columns(&mut out, self.table, self.bound);
        if self.result.is_empty() {
            out.extend(int(4));
            out.extend(int(0));
        } else {
            out.extend(int(1));
            out.extend(int(self.result.len() as i32));
            columns(&mut out, self.table, self.result);
        }
        out
    }
}

fn rows(table: &str, names: &[Column], count: usize, mut row: impl FnMut(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = int(2);
    out.extend(int(1));
    out.extend(int(names.len() as i32));
    columns(&mut out, table, names);
    out.extend(int(count as i32));
    for _ in 0..count {
        row(&mut out);
    }
    out
}

fn columns(out: &mut Vec<u8>, table: &str, columns: &[Column]) {
    string(out, "bench");
    string(out, table);
    for (name, kind) in columns {
        string(out, name);
        out.extend(short(*kind));
    }
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
