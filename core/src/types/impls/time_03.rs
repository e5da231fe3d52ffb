//! Dates and times of the crate time. A duration of CQL has months and days, which that crate's has not.

use time::{OffsetDateTime, UtcDateTime};

use crate::error::value::{DecodeError, DecodeErrorKind, EncodeError, EncodeErrorKind, TypeError};
use crate::types::column_type::ColumnType;
use crate::types::decode::{Cell, FromValue};
use crate::types::encode::{ToValue, ValueWriter};
use crate::types::impls::{accept, read_as, write_as};
use crate::types::value::{Date, Time, TimeRangeError, Timestamp};

impl From<time::Date> for Date {
    fn from(date: time::Date) -> Self {
        // Those dates have six digits of a year at most, those of CQL reach further than five million years.
        Self(date.to_julian_day() - EPOCH_JULIAN)
    }
}

impl TryFrom<Date> for time::Date {
    type Error = TimeRangeError;

    fn try_from(date: Date) -> Result<Self, TimeRangeError> {
        let julian = date.0.checked_add(EPOCH_JULIAN).ok_or(TimeRangeError)?;
        Self::from_julian_day(julian).map_err(|_| TimeRangeError)
    }
}

/// The Julian day of 1970-01-01.
const EPOCH_JULIAN: i32 = 2_440_588;

impl From<time::Time> for Time {
    fn from(time: time::Time) -> Self {
        let (hour, minute, second, nano) = time.as_hms_nano();
        let seconds = (i64::from(hour) * 60 + i64::from(minute)) * 60 + i64::from(second);
        Self(seconds * NANOS_OF_SECOND + i64::from(nano))
    }
}

impl TryFrom<Time> for time::Time {
    type Error = TimeRangeError;

    fn try_from(time: Time) -> Result<Self, TimeRangeError> {
        let seconds = time.0.div_euclid(NANOS_OF_SECOND);
        let nano = u32::try_from(time.0.rem_euclid(NANOS_OF_SECOND));
        let hour = u8::try_from(seconds.div_euclid(3600));
        let minute = u8::try_from(seconds.rem_euclid(3600) / 60);
        let second = u8::try_from(seconds.rem_euclid(60));
        match (hour, minute, second, nano) {
            (Ok(hour), Ok(minute), Ok(second), Ok(nano)) => {
                Self::from_hms_nano(hour, minute, second, nano).map_err(|_| TimeRangeError)
            }
            _ => Err(TimeRangeError),
        }
    }
}

const NANOS_OF_SECOND: i64 = 1_000_000_000;

macro_rules! instants {
    ($($instant:ty),*) => {$(
        impl TryFrom<$instant> for Timestamp {
            type Error = TimeRangeError;

            /// Takes the millisecond that the instant falls into.
            fn try_from(time: $instant) -> Result<Self, TimeRangeError> {
                let millis = time.unix_timestamp_nanos().div_euclid(NANOS_OF_MILLI);
                i64::try_from(millis).map(Self).map_err(|_| TimeRangeError)
            }
        }

        impl TryFrom<Timestamp> for $instant {
            type Error = TimeRangeError;

            fn try_from(time: Timestamp) -> Result<Self, TimeRangeError> {
                // 64 bits of milliseconds as nanoseconds take 84 bits.
                Self::from_unix_timestamp_nanos(i128::from(time.0) * NANOS_OF_MILLI)
                    .map_err(|_| TimeRangeError)
            }
        }
    )*};
}

const NANOS_OF_MILLI: i128 = 1_000_000;

instants!(OffsetDateTime, UtcDateTime);

read_as! {
    time::Date as Date;
    time::Time as Time;
    OffsetDateTime as Timestamp;
    UtcDateTime as Timestamp;
}

write_as! {
    time::Date as Date;
    time::Time as Time;
    OffsetDateTime as Timestamp;
    UtcDateTime as Timestamp;
}

#[cfg(test)]
mod tests {
    use time::Month;

    use super::*;
    use crate::types::impls::crate_tests::{read, round_trip, written};

    fn day(year: i32, month: Month, day: u8) -> time::Date {
        time::Date::from_calendar_date(year, month, day).unwrap()
    }

    #[test]
    fn dates_keep_their_day_before_1970_and_on_leap_days() {
        for (bytes, date) in [
            ([0x7f, 0xff, 0xff, 0xff], day(1969, Month::December, 31)),
            ([0x80, 0, 0, 0], day(1970, Month::January, 1)),
            ([0x80, 0, 0x2b, 0x08], day(2000, Month::February, 29)),
            ([0x7f, 0xff, 0x9c, 0x5c], day(1900, Month::March, 1)),
            ([0x7f, 0xfd, 0xf0, 0x57], day(1600, Month::February, 29)),
        ] {
            round_trip(&ColumnType::Date, &bytes, date);
        }
        for date in [time::Date::MIN, time::Date::MAX] {
            let bytes = written(&ColumnType::Date, &date).unwrap();
            round_trip(&ColumnType::Date, &bytes, date);
        }
    }

    #[test]
    fn a_date_outside_of_the_calendar_is_a_range_error() {
        for bytes in [[0; 4], [0xff; 4]] {
            let error = read::<time::Date>(&ColumnType::Date, &bytes).unwrap_err();
            assert!(matches!(error.kind(), DecodeErrorKind::OutOfRange));
            assert_eq!(error.cql_type(), Some(&ColumnType::Date));
        }
    }

    #[test]
    fn times_of_day_are_kept_to_the_nanosecond() {
        for (hour, minute, second, nano) in
            [(0, 0, 0, 0), (12, 34, 56, 7), (23, 59, 59, 999_999_999)]
        {
            let time = time::Time::from_hms_nano(hour, minute, second, nano).unwrap();
            let bytes = written(&ColumnType::Time, &time).unwrap();
            round_trip(&ColumnType::Time, &bytes, time);
        }
        for nanos in [-1, 86_400_000_000_000, i64::MAX, i64::MIN] {
            let error = read::<time::Time>(&ColumnType::Time, &nanos.to_be_bytes()).unwrap_err();
            assert!(matches!(error.kind(), DecodeErrorKind::OutOfRange));
        }
    }

    #[test]
    fn instants_are_kept_to_the_millisecond_they_fall_into() {
        for millis in [0_i64, 1, -1, 1_700_000_000_123, -62_135_596_800_000] {
            let nanos = i128::from(millis) * NANOS_OF_MILLI;
            let offset = OffsetDateTime::from_unix_timestamp_nanos(nanos).unwrap();
            round_trip(&ColumnType::Timestamp, &millis.to_be_bytes(), offset);
            let utc = UtcDateTime::from_unix_timestamp_nanos(nanos).unwrap();
            round_trip(&ColumnType::Timestamp, &millis.to_be_bytes(), utc);
        }
        let before = OffsetDateTime::from_unix_timestamp_nanos(-1).unwrap();
        let bytes = written(&ColumnType::Timestamp, &before).unwrap();
        assert_eq!(bytes, (-1_i64).to_be_bytes());
        for millis in [i64::MIN, i64::MAX] {
            let error =
                read::<OffsetDateTime>(&ColumnType::Timestamp, &millis.to_be_bytes()).unwrap_err();
            assert!(matches!(error.kind(), DecodeErrorKind::OutOfRange));
        }
    }
}
