//! Owns the target `custom_type`: class names and type options of any content.

use bytes::Bytes;
use messina_core::types::custom_type::class_name;
use messina_core::types::parse_class_name;
use messina_core::wire::{
    Direction, Flags, FrameHeader, Opcode, ProtocolFeatures, Response, ResponseFrame, ResultBody,
};

use crate::input::Input;

/// Reads a type: an even first byte takes the rest as a class name, an odd one as a type option.
pub fn custom_type(data: &[u8]) {
    let mut input = Input::new(data);
    if input.byte() & 1 == 0 {
        read_class(&String::from_utf8_lossy(input.rest()));
    } else {
        read_option(input.rest());
    }
}

fn read_class(name: &str) {
    let Ok(ty) = parse_class_name(name) else {
        return;
    };
    let _ = ty.to_string();
    let written = class_name(&ty);
    assert_eq!(
        parse_class_name(&written).as_ref(),
        Ok(&ty),
        "{name} became {written}"
    );
    assert_eq!(class_name(&ty), written);
}

/// Reads a type option as that of the only column of a page without rows.
fn read_option(option: &[u8]) {
    let mut body = Vec::from(PAGE_BEFORE_TYPE);
    body.extend_from_slice(option);
    body.extend_from_slice(&0_i32.to_be_bytes());
    let header = FrameHeader {
        direction: Direction::Response,
        version: 4,
        flags: Flags::empty(),
        stream: 1,
        opcode: Opcode::Result,
        length: u32::try_from(body.len()).unwrap_or(u32::MAX),
    };
    let frame = ResponseFrame {
        header,
        body: Bytes::from(body),
    };
    let Ok(envelope) = frame.parse(&ProtocolFeatures::default()) else {
        return;
    };
    let Response::Result(ResultBody::Rows(rows)) = envelope.response else {
        unreachable!("a page of rows was read as something else");
    };
    for column in rows
        .metadata
        .columns
        .iter()
        .flat_map(|columns| columns.iter())
    {
        let _ = column.ty.to_string();
        let _ = class_name(&column.ty);
    }
}

/// Rows; metadata with one table and one column, up to the column's type.
const PAGE_BEFORE_TYPE: [u8; 21] = [
    0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1, 0, 1, b'k', 0, 1, b't', 0, 1, b'c',
];
