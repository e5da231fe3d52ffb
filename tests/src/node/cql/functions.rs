//! The functions of CQL that the node knows.

use bytes::Bytes;
use messina_core::types::column_type::ColumnType;
use uuid::Uuid;

use crate::node::CqlError;

use super::terms::Env;
use super::types::native_type;

/// A function of one value, or of none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Now,
    Uuid,
    CurrentTimestamp,
    CurrentDate,
    ToTimestamp,
    ToDate,
    ToUnixTimestamp,
    MinTimeuuid,
    MaxTimeuuid,
    AsBlob(ColumnType),
    BlobAs(ColumnType),
}

/// A function's argument: its type and its value, which may be null.
pub(crate) type Argument = (ColumnType, Option<Bytes>);

impl Function {
    pub(crate) fn find(name: &str) -> Result<Self, CqlError> {
        let lower = name.to_ascii_lowercase();
        Ok(match lower.as_str() {
            "now" | "currenttimeuuid" => Self::Now,
            "uuid" => Self::Uuid,
            "currenttimestamp" => Self::CurrentTimestamp,
            "currentdate" => Self::CurrentDate,
            "totimestamp" | "dateof" => Self::ToTimestamp,
            "todate" => Self::ToDate,
            "tounixtimestamp" | "unixtimestampof" => Self::ToUnixTimestamp,
            "mintimeuuid" => Self::MinTimeuuid,
            "maxtimeuuid" => Self::MaxTimeuuid,
            _ => {
                let to = lower
                    .strip_suffix("asblob")
                    .and_then(native_type)
                    .map(Self::AsBlob);
                let from = || {
                    lower
                        .strip_prefix("blobas")
                        .and_then(native_type)
                        .map(Self::BlobAs)
                };
                return to
                    .or_else(from)
                    .ok_or_else(|| CqlError::invalid(format!("Unknown function '{name}'")));
            }
        })
    }

    pub(crate) fn return_type(&self) -> ColumnType {
        match self {
            Self::Now | Self::MinTimeuuid | Self::MaxTimeuuid => ColumnType::Timeuuid,
            Self::Uuid => ColumnType::Uuid,
            Self::CurrentTimestamp | Self::ToTimestamp => ColumnType::Timestamp,
            Self::CurrentDate | Self::ToDate => ColumnType::Date,
            Self::ToUnixTimestamp => ColumnType::BigInt,
            Self::AsBlob(_) => ColumnType::Blob,
            Self::BlobAs(ty) => ty.clone(),
        }
    }

    /// The type of an argument, given the one it has by itself.
    pub(crate) fn argument_type(&self, _at: usize, own: &Option<ColumnType>) -> ColumnType {
        match self {
            Self::AsBlob(ty) => ty.clone(),
            Self::BlobAs(_) => ColumnType::Blob,
            Self::MinTimeuuid | Self::MaxTimeuuid => ColumnType::Timestamp,
            _ => own
                .clone()
                .filter(|ty| *ty != ColumnType::Text)
                .unwrap_or(ColumnType::Timeuuid),
        }
    }

    pub(crate) fn call(
        &self,
        arguments: &[Argument],
        env: &Env<'_>,
    ) -> Result<Option<Bytes>, CqlError> {
        let wanted = match self {
            Self::Now | Self::Uuid | Self::CurrentTimestamp | Self::CurrentDate => 0,
            _ => 1,
        };
        if arguments.len() != wanted {
            return Err(CqlError::invalid(format!(
                "Invalid number of arguments in call to function: {wanted} required but {} provided",
                arguments.len()
            )));
        }
        let now_ms = env.now.div_euclid(1000);
        match self {
            Self::Now => return Ok(Some(uuid_bytes(time_uuid(env)))),
            Self::Uuid => return Ok(Some(uuid_bytes(random_uuid(env)))),
            Self::CurrentTimestamp => return Ok(Some(long_bytes(now_ms))),
            Self::CurrentDate => return Ok(Some(date_bytes(now_ms))),
            _ => {}
        }
        let Some((ty, Some(value))) = arguments.first() else {
            return Ok(None);
        };
        let milliseconds = || {
            milliseconds_of(ty, value)
                .ok_or_else(|| CqlError::invalid(format!("a value of type {ty} has no time")))
        };
        Ok(Some(match self {
            Self::ToTimestamp | Self::ToUnixTimestamp => long_bytes(milliseconds()?),
            Self::ToDate => date_bytes(milliseconds()?),
            Self::MinTimeuuid => {
                uuid_bytes(time_uuid_at(milliseconds()? * 10_000, 0x80, [0x80; 6]))
            }
            Self::MaxTimeuuid => uuid_bytes(time_uuid_at(
                milliseconds()? * 10_000 + 9_999,
                0x7f,
                [0x7f; 6],
            )),
            _ => value.clone(),
        }))
    }
}

fn milliseconds_of(ty: &ColumnType, value: &[u8]) -> Option<i64> {
    match ty {
        ColumnType::Timestamp | ColumnType::BigInt => {
            Some(i64::from_be_bytes(*value.first_chunk::<8>()?))
        }
        ColumnType::Date => {
            let days = i64::from(u32::from_be_bytes(*value.first_chunk::<4>()?)) - (1 << 31);
            Some(days * 86_400_000)
        }
        ColumnType::Timeuuid | ColumnType::Uuid => {
            let uuid = Uuid::from_slice(value).ok()?;
            let (seconds, nanoseconds) = uuid.get_timestamp()?.to_unix();
            Some(i64::try_from(seconds).ok()? * 1000 + i64::from(nanoseconds / 1_000_000))
        }
        _ => None,
    }
}

fn long_bytes(value: i64) -> Bytes {
    Bytes::copy_from_slice(&value.to_be_bytes())
}

fn date_bytes(milliseconds: i64) -> Bytes {
    let days = milliseconds.div_euclid(86_400_000) + (1 << 31);
    Bytes::copy_from_slice(&u32::try_from(days).unwrap_or(u32::MAX).to_be_bytes())
}

fn uuid_bytes(uuid: Uuid) -> Bytes {
    Bytes::copy_from_slice(uuid.as_bytes())
}

/// A time-based UUID for this moment, different from all before.
pub(crate) fn time_uuid(env: &Env<'_>) -> Uuid {
    let count = env.unique.get();
    env.unique.set(count.wrapping_add(1));
    let [_, _, a, b, c, d, e, f] = count.to_be_bytes();
    time_uuid_at(env.now.saturating_mul(10), 0x80, [a, b, c, d, e, f])
}

/// `ticks` counts 100 ns since 1970.
fn time_uuid_at(ticks: i64, clock: u8, node: [u8; 6]) -> Uuid {
    let ticks = ticks.wrapping_add(TICKS_TO_1970).cast_unsigned();
    let [b7, b6, b5, b4, b3, b2, b1, b0] = ticks.to_be_bytes();
    let [n0, n1, n2, n3, n4, n5] = node;
    let high = 0x10 | (b7 & 0x0f);
    Uuid::from_bytes([
        b3, b2, b1, b0, b5, b4, high, b6, clock, clock, n0, n1, n2, n3, n4, n5,
    ])
}

/// 100 ns intervals from the start of the Gregorian calendar to 1970.
const TICKS_TO_1970: i64 = 0x01b2_1dd2_1381_4000;

/// A version-4 UUID, different from all before; the randomness is that of a counter well mixed.
pub(crate) fn random_uuid(env: &Env<'_>) -> Uuid {
    let count = env.unique.get();
    env.unique.set(count.wrapping_add(1));
    let wide = (u128::from(mix(count)) << 64) | u128::from(mix(count ^ 0x5555_5555_5555_5555));
    uuid_v4(wide)
}

/// Sets version and variant of a version-4 UUID.
pub(crate) fn uuid_v4(bits: u128) -> Uuid {
    let cleared = bits & !(0xf << 76) & !(0x3 << 62);
    Uuid::from_u128(cleared | (0x4 << 76) | (0x2 << 62))
}

/// Spreads the bits of a counter.
pub(crate) fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn time_uuids_carry_the_time_and_never_repeat() {
        let unique = Cell::new(0);
        let env = Env {
            values: &[],
            now: 1_700_000_000_123_000,
            unique: &unique,
        };
        let (a, b) = (time_uuid(&env), time_uuid(&env));
        assert_ne!(a, b);
        assert_eq!(a.get_version_num(), 1);
        let value = Some(Bytes::copy_from_slice(a.as_bytes()));
        let argument = [(ColumnType::Timeuuid, value)];
        let found = Function::ToTimestamp.call(&argument, &env).unwrap();
        assert_eq!(found, Some(long_bytes(1_700_000_000_123)));
        assert_eq!(random_uuid(&env).get_version_num(), 4);
    }

    #[test]
    fn the_conversions_to_and_from_blobs_are_found_by_type() {
        assert_eq!(
            Function::find("intAsBlob"),
            Ok(Function::AsBlob(ColumnType::Int))
        );
        assert_eq!(
            Function::find("blobasbigint"),
            Ok(Function::BlobAs(ColumnType::BigInt))
        );
        assert!(Function::find("nope").is_err());
    }
}
