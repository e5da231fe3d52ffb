//! Column types as result metadata carry them.

use std::sync::Arc;

use bytes::Bytes;
use messina_core::types::{ColumnType, UdtType};
use messina_core::wire::header::{Direction, Flags, FrameHeader, Opcode};
use messina_core::wire::response::{Response, ResponseFrame};
use messina_core::wire::result::ResultBody;
use messina_core::wire::supported::ProtocolFeatures;

use crate::files::{self, VectorFile};

#[test]
fn every_type_is_read_from_result_metadata() {
    let Some(file) = VectorFile::open("types.json") else {
        return;
    };
    file.run("types", files::none, |case| {
        let expected = files::column_type(&case["type"]);
        let actual = read(&files::bytes(case, "option_hex"))?;
        if actual == expected {
            Ok(())
        } else {
            Err(format!("read {actual}, expected {expected}"))
        }
    });
}

#[test]
fn a_type_that_is_cut_short_is_refused() {
    let Some(file) = VectorFile::open("types.json") else {
        return;
    };
    file.run("types", files::none, |case| {
        let bytes = files::bytes(case, "option_hex");
        for len in 0..bytes.len() {
            // The row count that follows is cut off too, or bytes of it would be taken for those of the type.
            let mut body = metadata(&bytes[..len]);
            body.truncate(body.len() - 4);
            if let Ok(ty) = parse(body) {
                return Err(format!("read {ty} from the first {len} bytes"));
            }
        }
        Ok(())
    });
}

#[test]
fn a_type_that_was_read_has_a_text() {
    let Some(file) = VectorFile::open("types.json") else {
        return;
    };
    file.run("types", files::none, |case| {
        let ty = read(&files::bytes(case, "option_hex"))?;
        let expected = shown(&ty);
        if ty.to_string() == expected {
            Ok(())
        } else {
            Err(format!("shown as {ty}, expected {expected}"))
        }
    });
}

/// Reads a type option through the metadata of an empty page.
fn read(option: &[u8]) -> Result<ColumnType, String> {
    parse(metadata(option))
}

/// The body of a RESULT with one column and no rows.
fn metadata(option: &[u8]) -> Vec<u8> {
    let rows = [0, 0, 0, 2];
    let global_table_spec = [0, 0, 0, 1];
    let one_column = [0, 0, 0, 1];
    let (keyspace, table, name) = ([0, 1, b'k'], [0, 1, b't'], [0, 1, b'c']);
    let row_count = [0, 0, 0, 0];
    [
        &rows[..],
        &global_table_spec,
        &one_column,
        &keyspace,
        &table,
        &name,
        option,
        &row_count,
    ]
    .concat()
}

fn parse(body: Vec<u8>) -> Result<ColumnType, String> {
    let header = FrameHeader {
        direction: Direction::Response,
        version: 4,
        flags: Flags::default(),
        stream: 0,
        opcode: Opcode::Result,
        length: body.len().try_into().expect("a short body"),
    };
    let frame = ResponseFrame {
        header,
        body: Bytes::from(body),
    };
    let envelope = frame
        .parse(&ProtocolFeatures::default())
        .map_err(|error| error.to_string())?;
    match envelope.response {
        Response::Result(ResultBody::Rows(rows)) => {
            let columns = rows.metadata.columns.ok_or("no columns")?;
            columns
                .first()
                .map(|column| column.ty.clone())
                .ok_or_else(|| "no column".to_owned())
        }
        other => Err(format!("not rows but {other:?}")),
    }
}

/// Writes a type as CQL, apart from the driver's own way.
fn shown(ty: &ColumnType) -> String {
    let udt = |udt: &Arc<UdtType>| format!("{}.{}", quoted(&udt.keyspace), quoted(&udt.name));
    match ty {
        ColumnType::List(element) => format!("list<{}>", shown(element)),
        ColumnType::Set(element) => format!("set<{}>", shown(element)),
        ColumnType::Map(types) => format!("map<{}, {}>", shown(&types.0), shown(&types.1)),
        ColumnType::Tuple(components) => {
            let components: Vec<String> = components.iter().map(shown).collect();
            format!("tuple<{}>", components.join(", "))
        }
        ColumnType::Vector { element, dimension } => {
            format!("vector<{}, {dimension}>", shown(element))
        }
        ColumnType::Udt(ty) => udt(ty),
        ColumnType::Custom(class) => format!("'{class}'"),
        plain => format!("{plain:?}").to_lowercase(),
    }
}

fn quoted(name: &str) -> String {
    let mut chars = name.chars();
    let first = chars.next().is_some_and(|first| first.is_ascii_lowercase());
    if first && chars.all(|char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '_')
    {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}
