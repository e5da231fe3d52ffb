//! Finding and reading the vector files, and the notation that they share.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use messina_core::types::{ColumnType, UdtType};
use serde_json::Value as Json;

/// One file of vectors.
pub(crate) struct VectorFile {
    name: &'static str,
    json: Json,
}

impl VectorFile {
    /// Reads a file; `None`, said aloud, when the vectors are not on this machine.
    ///
    /// They are looked for where `MESSINA_VECTORS` points, else in `shared/vectors` beside the repository.
    pub(crate) fn open(name: &'static str) -> Option<Self> {
        let path = folder().join(name);
        match std::fs::read(&path) {
            Ok(text) => {
                let json = serde_json::from_slice(&text).expect("a vector file is JSON");
                Some(Self { name, json })
            }
            Err(_) => {
                println!(
                    "skipped: there is no {}; set MESSINA_VECTORS to the folder of the vectors",
                    path.display()
                );
                None
            }
        }
    }

    /// Returns the cases of a list.
    pub(crate) fn list(&self, list: &str) -> &[Json] {
        self.json[list]
            .as_array()
            .unwrap_or_else(|| panic!("{} has no list {list}", self.name))
    }

    /// Runs `case` on each case of a list, except those that `exempt` gives a reason for.
    ///
    /// Fails when the number of cases that ran and of those left out is not that of the list, or when any case failed.
    pub(crate) fn run(
        &self,
        list: &str,
        exempt: impl Fn(&Json) -> Option<&'static str>,
        mut case: impl FnMut(&Json) -> Result<(), String>,
    ) {
        let cases = self.list(list);
        let (mut ran, mut left_out, mut failures) = (0, 0, Vec::new());
        for (index, one) in cases.iter().enumerate() {
            if let Some(reason) = exempt(one) {
                println!("{} {list}[{index}] left out: {reason}", self.name);
                left_out += 1;
                continue;
            }
            ran += 1;
            if let Err(failure) = case(one) {
                failures.push(format!("{list}[{index}]: {failure}\n    {one}"));
            }
        }
        println!(
            "{} {list}: {ran} ran, {left_out} left out, of {}",
            self.name,
            cases.len()
        );
        assert_eq!(ran + left_out, cases.len());
        assert!(0 < ran, "{} {list} is empty", self.name);
        let shown = failures
            .iter()
            .take(20)
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join("\n");
        assert!(
            failures.is_empty(),
            "{} of {ran} failed:\n{shown}",
            failures.len()
        );
    }
}

fn folder() -> PathBuf {
    match std::env::var_os("MESSINA_VECTORS") {
        Some(folder) => folder.into(),
        // This crate is in a folder of the workspace.
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/vectors"),
    }
}

/// Leaves nothing out.
pub(crate) fn none(_case: &Json) -> Option<&'static str> {
    None
}

/// Returns a field that is text.
pub(crate) fn text<'j>(json: &'j Json, field: &str) -> &'j str {
    json[field]
        .as_str()
        .unwrap_or_else(|| panic!("{field} is not text in {json}"))
}

/// Reads hex digits.
pub(crate) fn hex(digits: &str) -> Vec<u8> {
    let nibble = |digit: u8| char::from(digit).to_digit(16).expect("a hex digit");
    digits
        .as_bytes()
        .chunks(2)
        .map(|pair| match pair {
            [high, low] => u8::try_from(nibble(*high) * 16 + nibble(*low)).expect("two digits"),
            _ => panic!("an odd number of hex digits"),
        })
        .collect()
}

/// Returns a field that is hex, as bytes.
pub(crate) fn bytes(json: &Json, field: &str) -> Vec<u8> {
    hex(text(json, field))
}

/// Reads a type tree.
pub(crate) fn column_type(tree: &Json) -> ColumnType {
    let part = |field: &str| column_type(&tree[field]);
    match text(tree, "kind") {
        "native" => native(text(tree, "name")),
        "list" => ColumnType::List(Arc::new(part("elem"))),
        "set" => ColumnType::Set(Arc::new(part("elem"))),
        "map" => ColumnType::Map(Arc::new((part("key"), part("value")))),
        "tuple" => {
            let components = tree["elems"].as_array().expect("components");
            ColumnType::Tuple(components.iter().map(column_type).collect())
        }
        "udt" => {
            let fields = tree["fields"].as_array().expect("fields");
            let field = |field: &Json| {
                (
                    field[0].as_str().expect("a name").into(),
                    column_type(&field[1]),
                )
            };
            ColumnType::Udt(Arc::new(UdtType {
                keyspace: text(tree, "keyspace").into(),
                name: text(tree, "name").into(),
                fields: fields.iter().map(field).collect(),
            }))
        }
        "vector" => ColumnType::Vector {
            element: Arc::new(part("elem")),
            dimension: tree["dim"]
                .as_u64()
                .and_then(|dimension| dimension.try_into().ok())
                .expect("a dimension"),
        },
        "custom" => ColumnType::Custom(text(tree, "class").into()),
        other => panic!("an unknown kind of type: {other}"),
    }
}

fn native(name: &str) -> ColumnType {
    match name {
        "ascii" => ColumnType::Ascii,
        "bigint" => ColumnType::BigInt,
        "blob" => ColumnType::Blob,
        "boolean" => ColumnType::Boolean,
        "counter" => ColumnType::Counter,
        "date" => ColumnType::Date,
        "decimal" => ColumnType::Decimal,
        "double" => ColumnType::Double,
        "duration" => ColumnType::Duration,
        "float" => ColumnType::Float,
        "inet" => ColumnType::Inet,
        "int" => ColumnType::Int,
        "smallint" => ColumnType::SmallInt,
        "text" | "varchar" => ColumnType::Text,
        "time" => ColumnType::Time,
        "timestamp" => ColumnType::Timestamp,
        "timeuuid" => ColumnType::Timeuuid,
        "tinyint" => ColumnType::TinyInt,
        "uuid" => ColumnType::Uuid,
        "varint" => ColumnType::Varint,
        other => panic!("an unknown native type: {other}"),
    }
}
