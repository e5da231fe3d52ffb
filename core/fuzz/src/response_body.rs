//! Owns the target `response_body`: a response frame of any content is read, and everything in it looked at.

use bytes::Bytes;
use messina_core::types::{Row, Rows, Value};
use messina_core::wire::{
    ColumnSpec, Direction, Envelope, FrameHeader, ProtocolFeatures, RawHeader, Response,
    ResponseFrame, ResultBody, RowsBody,
};

use crate::input::{AS_IS, Input, features};
use crate::kinds::{Kind, of_response};

/// Reads a response: the first byte chooses the features, then comes a frame.
pub fn response_body(data: &[u8]) {
    let _ = read_response(data);
}

/// Reads a response and says as what, unless it is refused.
pub fn read_response(data: &[u8]) -> Option<Kind> {
    let (frame, features) = response_frame(data)?;
    let envelope = frame.parse(&features).ok()?;
    look(&envelope);
    Some(of_response(&envelope.response))
}

/// Makes a frame of an input; its length and version are mended unless the first byte says otherwise.
pub(crate) fn response_frame(data: &[u8]) -> Option<(ResponseFrame, ProtocolFeatures)> {
    let (header, body, features) = frame(data, Direction::Response)?;
    Some((ResponseFrame { header, body }, features))
}

pub(crate) fn frame(
    data: &[u8],
    direction: Direction,
) -> Option<(FrameHeader, Bytes, ProtocolFeatures)> {
    let mut input = Input::new(data);
    let bits = input.byte();
    let features = features(bits);
    let (head, body) = input.rest().split_first_chunk::<{ FrameHeader::LEN }>()?;
    let mut raw = RawHeader::parse(head);
    if bits & AS_IS == 0 {
        raw.direction = direction;
        raw.version = features.version.byte();
        raw.length = i32::try_from(body.len()).ok()?;
    }
    let header = FrameHeader::try_from(raw).ok()?;
    Some((header, Bytes::copy_from_slice(body), features))
}

/// Looks at everything that a response gives: texts are shown, rows are walked and decoded.
fn look(envelope: &Envelope) {
    match &envelope.response {
        Response::Error(error) => drop(error.to_string()),
        Response::Supported(supported) => {
            supported.offered();
            supported.shard_info();
            supported.host_id();
            supported.partitioner();
        }
        Response::Result(ResultBody::Rows(rows)) => look_at_rows(rows),
        Response::Result(ResultBody::Prepared(prepared)) => {
            prepared.bind_columns.iter().for_each(look_at_column);
            let bound = prepared.bind_columns.len();
            assert!(
                prepared
                    .pk_indexes
                    .iter()
                    .all(|index| usize::from(*index) < bound),
                "an index of the key is out of range"
            );
        }
        _ => (),
    }
}

fn look_at_column(column: &ColumnSpec) {
    let _ = column.ty.to_string();
}

fn look_at_rows(rows: &RowsBody) {
    let Some(columns) = &rows.metadata.columns else {
        let _ = rows.check_cells();
        return;
    };
    columns.iter().for_each(look_at_column);
    assert_eq!(columns.len(), rows.metadata.column_count);
    let whole = rows.check_cells().is_ok();
    let walk =
        Rows::<Row<'_>>::new(columns, rows.row_count, &rows.cells).expect("rows fit any columns");
    let mut read = 0;
    let mut broken = false;
    for row in walk {
        assert!(!broken, "a row follows the end of the page");
        match row {
            Ok(row) => {
                for at in 0..columns.len() {
                    let _ = row.read_at::<Value>(at);
                }
            }
            Err(_) => broken = true,
        }
        read += 1;
    }
    assert!(read <= rows.row_count);
    assert_eq!(whole, !broken, "the two walks over a page disagree");
}
