//! The same values through the types of other crates.

use bytes::Bytes;
use messina_core::types::bigdecimal_04::BigDecimal;
use messina_core::types::chrono_04::{DateTime, Datelike, NaiveDate, NaiveTime, Utc};
use messina_core::types::num_bigint_04::BigInt;
use messina_core::types::time_03::{self, OffsetDateTime, UtcDateTime};
use messina_core::types::{
    Cell, ColumnType, Date, DecodeErrorKind, FromValue, ToValue, Value, Varint, encode_value,
};
use serde_json::Value as Json;

use crate::files::{self, VectorFile};

/// One value of the vectors.
struct Case<'c> {
    ty: &'c ColumnType,
    bytes: Vec<u8>,
    /// Whether servers would write other bytes for it.
    only_read: bool,
}

/// Runs `case` on the values of one type.
fn each(ty: &ColumnType, mut case: impl FnMut(&Case<'_>) -> Result<(), String>) {
    let Some(file) = VectorFile::open("values.json") else {
        return;
    };
    let name = ty.to_string();
    let of_type = |json: &&Json| json["cql_type"] == *name;
    let mut ran = 0;
    for json in file.list("values").iter().filter(of_type) {
        let one = Case {
            ty,
            bytes: files::bytes(json, "hex"),
            only_read: json["direction"] == "decode",
        };
        if let Err(failure) = case(&one) {
            panic!("{failure}\n    {json}");
        }
        ran += 1;
    }
    assert!(0 < ran, "no values of {name}");
}

impl Case<'_> {
    /// Reads the value and writes it again, which gives the same bytes; `None` when it is out of the type's range.
    fn there_and_back<T>(&self) -> Result<Option<T>, String>
    where
        T: for<'r> FromValue<'r> + ToValue,
    {
        let (ty, bytes) = (self.ty, &self.bytes);
        <T as FromValue>::check(ty).map_err(|error| error.to_string())?;
        let value = match T::from_value(ty, Some(Cell::of_slice(bytes))) {
            Ok(value) => value,
            Err(error) => {
                return match error.kind() {
                    DecodeErrorKind::OutOfRange => Ok(None),
                    DecodeErrorKind::Empty if bytes.is_empty() => Ok(None),
                    _ => Err(error.to_string()),
                };
            }
        };
        let mut written = Vec::new();
        encode_value(&value, ty, &mut written).map_err(|error| error.to_string())?;
        if self.only_read || written.get(4..) == Some(bytes) {
            Ok(Some(value))
        } else {
            Err(format!("wrote {written:02x?}"))
        }
    }
}

#[test]
fn dates_are_the_same_days_in_every_calendar_or_out_of_its_range() {
    let (mut held, mut out_of_range) = (0, 0);
    each(&ColumnType::Date, |case| {
        let ours = case.there_and_back::<Date>()?;
        let chrono = case.there_and_back::<NaiveDate>()?;
        let time = case.there_and_back::<time_03::Date>()?;
        let Some((year, month, day)) = ours.map(Date::ymd) else {
            return Ok(());
        };
        match chrono {
            Some(date) => {
                held += 1;
                let read = (date.year(), date.month(), date.day());
                if read != (year, month.into(), day.into()) {
                    return Err(format!("{read:?}"));
                }
            }
            None if (-262_143..=262_142).contains(&year) => return Err("refused".to_owned()),
            None => out_of_range += 1,
        }
        match time {
            Some(date) => {
                let read = (date.year(), u8::from(date.month()), date.day());
                if read != (year, month, day) {
                    return Err(format!("{read:?}"));
                }
            }
            None if (-9999..=9999).contains(&year) => return Err("refused".to_owned()),
            None => {}
        }
        Ok(())
    });
    // Both kinds are among the vectors, where there are vectors.
    assert!((0 < held) == (0 < out_of_range), "{held}, {out_of_range}");
}

#[test]
fn times_and_instants_survive_every_calendar_or_are_out_of_its_range() {
    each(&ColumnType::Time, |case| {
        let chrono = case.there_and_back::<NaiveTime>()?;
        let time = case.there_and_back::<time_03::Time>()?;
        match chrono.is_some() == time.is_some() {
            true => Ok(()),
            false => Err(format!("{chrono:?}, {time:?}")),
        }
    });
    each(&ColumnType::Timestamp, |case| {
        let chrono = case.there_and_back::<DateTime<Utc>>()?;
        let offset = case.there_and_back::<OffsetDateTime>()?;
        let utc = case.there_and_back::<UtcDateTime>()?;
        if let (Some(chrono), Some(offset), Some(utc)) = (chrono, offset, utc)
            && (chrono.timestamp(), chrono.timestamp())
                != (offset.unix_timestamp(), utc.unix_timestamp())
        {
            return Err(format!("{chrono}, {offset}, {utc}"));
        }
        Ok(())
    });
}

#[test]
fn numbers_of_any_size_survive_other_crates() {
    each(&ColumnType::Varint, |case| {
        let number = case.there_and_back::<BigInt>()?;
        let ours = case.there_and_back::<Varint>()?;
        let (number, ours) = (
            number.map(|number| number.to_string()),
            ours.map(|number| number.to_string()),
        );
        match number == ours {
            true => Ok(()),
            false => Err(format!("{number:?}, {ours:?}")),
        }
    });
    each(&ColumnType::Decimal, |case| {
        case.there_and_back::<BigDecimal>().map(|_| ())
    });
}

#[test]
fn every_value_survives_json_and_a_format_for_machines() {
    let Some(file) = VectorFile::open("values.json") else {
        return;
    };
    file.run("values", files::none, |case| {
        let (ty, bytes) = (files::column_type(&case["type"]), files::bytes(case, "hex"));
        let value = Value::from_value(&ty, Some(Cell::new(&Bytes::from(bytes.clone()), &bytes)))
            .map_err(|error| error.to_string())?;
        let text = serde_json::to_string(&value).map_err(|error| error.to_string())?;
        let json: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let packed = postcard::to_allocvec(&value).map_err(|error| error.to_string())?;
        let machine: Value = postcard::from_bytes(&packed).map_err(|error| error.to_string())?;
        match crate::values::same(&json, &value) && crate::values::same(&machine, &value) {
            true => Ok(()),
            false => Err(format!(
                "{value:?} as {text}, then {json:?} and {machine:?}"
            )),
        }
    });
}
