//! Replies of servers, built byte by byte.

use std::net::IpAddr;

use bytes::Bytes;

use super::world::Node;
use crate::wire::{Direction, Flags, FrameHeader, Opcode, ResponseFrame};

pub(super) const TEXT: &[u8] = &[0, 0x0d];
pub(super) const UUID: &[u8] = &[0, 0x0c];
pub(super) const INET: &[u8] = &[0, 0x10];
pub(super) const INT: &[u8] = &[0, 0x09];
pub(super) const TEXT_SET: &[u8] = &[0, 0x22, 0, 0x0d];
pub(super) const TEXT_MAP: &[u8] = &[0, 0x21, 0, 0x0d, 0, 0x0d];

/// The columns of `local` and `peers` that matter.
pub(super) fn node_columns(broadcast: &'static str) -> Vec<(&'static str, &'static [u8])> {
    vec![
        ("key", TEXT),
        (broadcast, INET),
        ("rpc_address", INET),
        ("host_id", UUID),
        ("data_center", TEXT),
        ("rack", TEXT),
        ("tokens", TEXT_SET),
        ("schema_version", UUID),
        ("partitioner", TEXT),
        ("cluster_name", TEXT),
    ]
}

pub(super) type Cells = Vec<Option<Vec<u8>>>;

pub(super) fn node_row(node: &Node) -> Cells {
    vec![
        cell("local"),
        ip_cell(node.address.ip()),
        ip_cell(node.address.ip()),
        uuid_cell(node.id),
        cell(node.datacenter),
        cell(node.rack),
        Some(text_set(&node.tokens)),
        uuid_cell(node.schema_version),
        cell("org.apache.cassandra.dht.Murmur3Partitioner"),
        cell(node.cluster),
    ]
}

pub(super) fn nodes_frame(broadcast: &'static str, nodes: &[&Node]) -> ResponseFrame {
    rows_frame(
        &node_columns(broadcast),
        nodes.iter().map(|node| node_row(node)).collect(),
    )
}

pub(super) fn cell(text: &str) -> Option<Vec<u8>> {
    Some(text.as_bytes().to_vec())
}

pub(super) fn uuid_cell(id: u128) -> Option<Vec<u8>> {
    Some(id.to_be_bytes().to_vec())
}

pub(super) fn ip_cell(ip: IpAddr) -> Option<Vec<u8>> {
    Some(match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    })
}

fn len(len: usize) -> [u8; 4] {
    u32::try_from(len).expect("short").to_be_bytes()
}

pub(super) fn text_set(texts: &[String]) -> Vec<u8> {
    let mut out = len(texts.len()).to_vec();
    texts
        .iter()
        .for_each(|text| bytes_into(&mut out, Some(text.as_bytes())));
    out
}

pub(super) fn text_map(pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut out = len(pairs.len()).to_vec();
    for (key, value) in pairs {
        bytes_into(&mut out, Some(key.as_bytes()));
        bytes_into(&mut out, Some(value.as_bytes()));
    }
    out
}

fn bytes_into(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => {
            out.extend(len(bytes.len()));
            out.extend(bytes);
        }
        None => out.extend([0xff; 4]),
    }
}

fn string_into(out: &mut Vec<u8>, text: &str) {
    out.extend(u16::try_from(text.len()).expect("short").to_be_bytes());
    out.extend(text.as_bytes());
}

pub(super) fn rows_frame(columns: &[(&str, &[u8])], rows: Vec<Cells>) -> ResponseFrame {
    paged_rows_frame(columns, rows, None)
}

pub(super) fn paged_rows_frame(
    columns: &[(&str, &[u8])],
    rows: Vec<Cells>,
    next: Option<&[u8]>,
) -> ResponseFrame {
    let mut body = len(2).to_vec();
    // One keyspace and table for all columns, and with a paging state one more flag.
    body.extend(len(if next.is_some() { 3 } else { 1 }));
    body.extend(len(columns.len()));
    if let Some(state) = next {
        bytes_into(&mut body, Some(state));
    }
    string_into(&mut body, "system");
    string_into(&mut body, "t");
    for (name, ty) in columns {
        string_into(&mut body, name);
        body.extend(*ty);
    }
    body.extend(len(rows.len()));
    for cell in rows.iter().flatten() {
        bytes_into(&mut body, cell.as_deref());
    }
    frame(Opcode::Result, body)
}

pub(super) fn set_keyspace(name: &str) -> ResponseFrame {
    let mut body = len(3).to_vec();
    string_into(&mut body, name);
    frame(Opcode::Result, body)
}

pub(super) fn error_frame(code: i32, message: &str) -> ResponseFrame {
    let mut body = code.to_be_bytes().to_vec();
    string_into(&mut body, message);
    frame(Opcode::Error, body)
}

pub(super) fn frame(opcode: Opcode, body: Vec<u8>) -> ResponseFrame {
    let header = FrameHeader {
        direction: Direction::Response,
        version: 4,
        flags: Flags::empty(),
        stream: 1,
        opcode,
        length: u32::try_from(body.len()).expect("short"),
    };
    ResponseFrame {
        header,
        body: Bytes::from(body),
    }
}
