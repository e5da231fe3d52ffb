//! Integers of variable length.

use messina_core::types::{ColumnType, Duration, Value};
use messina_core::wire::read::Reader;

use crate::files::{self, VectorFile};

#[test]
fn unsigned_vints_are_read() {
    let Some(file) = VectorFile::open("vints.json") else {
        return;
    };
    file.run("unsigned", files::none, |case| {
        let (expected, bytes) = (number::<u64>(case, "value"), files::bytes(case, "hex"));
        let mut reader = Reader::new(&bytes);
        match reader.unsigned_vint() {
            Ok(actual) if actual == expected && reader.is_empty() => Ok(()),
            other => Err(format!("read {other:?}, {} bytes left", reader.remaining())),
        }
    });
}

#[test]
fn signed_vints_are_read() {
    let Some(file) = VectorFile::open("vints.json") else {
        return;
    };
    file.run("signed", files::none, |case| {
        let (expected, bytes) = (number::<i64>(case, "value"), files::bytes(case, "hex"));
        let mut reader = Reader::new(&bytes);
        match reader.vint() {
            Ok(actual) if actual == expected && reader.is_empty() => Ok(()),
            other => Err(format!("read {other:?}, {} bytes left", reader.remaining())),
        }
    });
}

#[test]
fn signed_vints_are_written_as_the_nanoseconds_of_a_duration() {
    let Some(file) = VectorFile::open("vints.json") else {
        return;
    };
    file.run("signed", files::none, |case| {
        let duration = Duration {
            months: 0,
            days: 0,
            nanos: number(case, "value"),
        };
        let mut written = Vec::new();
        Value::Duration(duration)
            .encode(&ColumnType::Duration, &mut written)
            .map_err(|error| error.to_string())?;
        // A length of four bytes and two zeros stand before it.
        match written.get(6..) {
            Some(vint) if vint == files::bytes(case, "hex") => Ok(()),
            other => Err(format!("wrote {other:02x?}")),
        }
    });
}

#[test]
fn a_vint_that_is_cut_short_is_refused() {
    let Some(file) = VectorFile::open("vints.json") else {
        return;
    };
    file.run("unsigned", files::none, |case| {
        let bytes = files::bytes(case, "hex");
        for len in 0..bytes.len() {
            let mut reader = Reader::new(&bytes[..len]);
            if let Ok(value) = reader.unsigned_vint() {
                return Err(format!("read {value} from the first {len} bytes"));
            }
        }
        Ok(())
    });
}

fn number<T: std::str::FromStr>(case: &serde_json::Value, field: &str) -> T {
    let Ok(number) = files::text(case, field).parse() else {
        panic!("{field} is not a number in {case}")
    };
    number
}
