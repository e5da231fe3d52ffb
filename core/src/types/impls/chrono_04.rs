//! Dates and times of chrono. A duration of CQL has months and days, which chrono's has not; [`Duration`] keeps them.
//!
//! [`Duration`]: crate::types::Duration

use chrono::{DateTime, Datelike, NaiveDate, NaiveTime, TimeZone, Timelike, Utc};

use crate::error::value::{DecodeError, DecodeErrorKind, EncodeError, EncodeErrorKind, TypeError};
use crate::types::column_type::ColumnType;
use crate::types::decode::{Cell, FromValue};
use crate::types::encode::{ToValue, ValueWriter};
use crate::types::impls::{accept, read_as, write_as};
use crate::types::value::{Date, Time, TimeRangeError, Timestamp};

impl From<NaiveDate> for Date {
    fn from(date: NaiveDate) -> Self {
        // chrono's dates reach 262,142 years from the epoch, those of CQL more than five million.
        Self(date.num_days_from_ce() - EPOCH_FROM_CE)
    }
}

impl TryFrom<Date> for NaiveDate {
    type Error = TimeRangeError;

    fn try_from(date: Date) -> Result<Self, TimeRangeError> {
        date.0
            .checked_add(EPOCH_FROM_CE)
            .and_then(Self::from_num_days_from_ce_opt)
            .ok_or(TimeRangeError)
    }
}

/// 1970-01-01 as chrono counts days, where 0001-01-01 is the first.
const EPOCH_FROM_CE: i32 = 719_163;

impl TryFrom<NaiveTime> for Time {
    type Error = TimeRangeError;

    /// Refuses leap seconds, for which CQL has no time of day.
    fn try_from(time: NaiveTime) -> Result<Self, TimeRangeError> {
        let nanos = i64::from(time.nanosecond());
        if NANOS_OF_SECOND <= nanos {
            return Err(TimeRangeError);
        }
        Ok(Self(
            i64::from(time.num_seconds_from_midnight()) * NANOS_OF_SECOND + nanos,
        ))
    }
}

impl TryFrom<Time> for NaiveTime {
    type Error = TimeRangeError;

    fn try_from(time: Time) -> Result<Self, TimeRangeError> {
        let seconds = u32::try_from(time.0.div_euclid(NANOS_OF_SECOND));
        let nanos = u32::try_from(time.0.rem_euclid(NANOS_OF_SECOND));
        match (seconds, nanos) {
            (Ok(seconds), Ok(nanos)) => {
                Self::from_num_seconds_from_midnight_opt(seconds, nanos).ok_or(TimeRangeError)
            }
            _ => Err(TimeRangeError),
        }
    }
}

const NANOS_OF_SECOND: i64 = 1_000_000_000;

impl<Z: TimeZone> From<DateTime<Z>> for Timestamp {
    /// Takes the millisecond that the instant falls into.
    fn from(time: DateTime<Z>) -> Self {
        Self(time.timestamp_millis())
    }
}

impl TryFrom<Timestamp> for DateTime<Utc> {
    type Error = TimeRangeError;

    fn try_from(time: Timestamp) -> Result<Self, TimeRangeError> {
        Self::from_timestamp_millis(time.0).ok_or(TimeRangeError)
    }
}

read_as! {
    NaiveDate as Date;
    NaiveTime as Time;
    DateTime<Utc> as Timestamp;
}

write_as! {
    NaiveDate as Date;
    NaiveTime as Time;
}

impl<Z: TimeZone> ToValue for DateTime<Z> {
    fn check(ty: &ColumnType) -> Result<(), TypeError> {
        accept!(ty, ColumnType::Timestamp)
    }

    /// Writes the millisecond that the instant falls into; the zone is lost.
    fn to_value(&self, ty: &ColumnType, out: ValueWriter<'_>) -> Result<(), EncodeError> {
        <Self as ToValue>::check(ty)?;
        Timestamp(self.timestamp_millis()).to_value(ty, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::impls::crate_tests::{read, round_trip, written};

    fn day(year: i32, month: u32, day: u32) -> NaiveDate {
        NaiveDate::from_ymd_opt(year, month, day).unwrap()
    }

    #[test]
    fn dates_keep_their_day_before_1970_and_on_leap_days() {
        for (bytes, date) in [
            ([0x7f, 0xff, 0xff, 0xff], day(1969, 12, 31)),
            ([0x80, 0, 0, 0], day(1970, 1, 1)),
            ([0x80, 0, 0x2b, 0x08], day(2000, 2, 29)),
            ([0x7f, 0xff, 0x9c, 0x5c], day(1900, 3, 1)),
            ([0x7f, 0xfd, 0xf0, 0x57], day(1600, 2, 29)),
        ] {
            round_trip(&ColumnType::Date, &bytes, date);
        }
        for date in [NaiveDate::MIN, NaiveDate::MAX] {
            let bytes = written(&ColumnType::Date, &date).unwrap();
            round_trip(&ColumnType::Date, &bytes, date);
        }
    }

    #[test]
    fn a_date_outside_of_the_calendar_is_a_range_error() {
        for bytes in [[0; 4], [0xff; 4]] {
            let error = read::<NaiveDate>(&ColumnType::Date, &bytes).unwrap_err();
            assert!(matches!(error.kind(), DecodeErrorKind::OutOfRange));
            assert_eq!(error.cql_type(), Some(&ColumnType::Date));
            // The driver's own type holds it.
            round_trip(&ColumnType::Date, &bytes, Date::from_bytes(bytes));
        }
    }

    #[test]
    fn times_of_day_are_kept_to_the_nanosecond() {
        for (hour, minute, second, nano) in
            [(0, 0, 0, 0), (12, 34, 56, 7), (23, 59, 59, 999_999_999)]
        {
            let time = NaiveTime::from_hms_nano_opt(hour, minute, second, nano).unwrap();
            let bytes = written(&ColumnType::Time, &time).unwrap();
            round_trip(&ColumnType::Time, &bytes, time);
        }
        for nanos in [-1, 86_400_000_000_000, i64::MAX, i64::MIN] {
            let error = read::<NaiveTime>(&ColumnType::Time, &nanos.to_be_bytes()).unwrap_err();
            assert!(matches!(error.kind(), DecodeErrorKind::OutOfRange));
        }
        let leap = NaiveTime::from_hms_nano_opt(23, 59, 59, 1_500_000_000).unwrap();
        let error = written(&ColumnType::Time, &leap).unwrap_err();
        assert!(matches!(error.kind(), EncodeErrorKind::OutOfRange));
    }

    #[test]
    fn instants_are_kept_to_the_millisecond_they_fall_into() {
        for millis in [0_i64, 1, -1, 1_700_000_000_123, -62_135_596_800_000] {
            let time = DateTime::from_timestamp_millis(millis).unwrap();
            round_trip(&ColumnType::Timestamp, &millis.to_be_bytes(), time);
        }
        let before = DateTime::from_timestamp(-1, 999_999_999).unwrap();
        let bytes = written(&ColumnType::Timestamp, &before).unwrap();
        assert_eq!(bytes, (-1_i64).to_be_bytes());
        for millis in [i64::MIN, i64::MAX] {
            let error =
                read::<DateTime<Utc>>(&ColumnType::Timestamp, &millis.to_be_bytes()).unwrap_err();
            assert!(matches!(error.kind(), DecodeErrorKind::OutOfRange));
        }
    }

    #[test]
    fn an_instant_of_another_zone_is_the_same_instant() {
        let zone = chrono::FixedOffset::east_opt(7200).unwrap();
        let time = zone.with_ymd_and_hms(2024, 2, 29, 1, 2, 3).unwrap();
        assert_eq!(
            written(&ColumnType::Timestamp, &time).unwrap(),
            written(&ColumnType::Timestamp, &time.to_utc()).unwrap()
        );
    }
}
