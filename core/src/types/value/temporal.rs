//! Dates, times and durations as CQL has them. Conversions to calendar crates are `impls`'.

use std::time::SystemTime;

use thiserror::Error;

/// Counts days from 1970-01-01; the whole range of the CQL type, from -5877641-06-23 to 5881580-07-11.
///
/// ```
/// use messina_core::types::Date;
///
/// let leap = Date::from_ymd(1600, 2, 29).ok_or("no such day")?;
/// assert_eq!(leap.0, -135_081);
/// assert_eq!(leap.ymd(), (1600, 2, 29));
/// assert_eq!(Date::from_ymd(1900, 2, 29), None);
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Date(pub i32);

impl Date {
    /// Makes a date of the proleptic Gregorian calendar; `None` when there is no such day.
    #[must_use]
    pub fn from_ymd(year: i32, month: u8, day: u8) -> Option<Self> {
        if !(1..=12).contains(&month) || day < 1 || days_of_month(year, month) < day {
            return None;
        }
        // Years are taken to start in March, so that the leap day is the last one.
        let year = i64::from(year) - i64::from(month < 3);
        let era = year.div_euclid(400);
        let year_of_era = year.rem_euclid(400);
        let month_of_year = (i64::from(month) + 9) % 12;
        let day_of_year = (153 * month_of_year + 2) / 5 + i64::from(day) - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        i32::try_from(era * DAYS_OF_ERA + day_of_era - EPOCH_OF_ERA)
            .ok()
            .map(Self)
    }

    /// Returns year, month and day of the proleptic Gregorian calendar.
    #[must_use]
    pub fn ymd(self) -> (i32, u8, u8) {
        let days = i64::from(self.0) + EPOCH_OF_ERA;
        let era = days.div_euclid(DAYS_OF_ERA);
        let day_of_era = days.rem_euclid(DAYS_OF_ERA);
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_of_year = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_of_year + 2) / 5 + 1;
        let month = (month_of_year + 2) % 12 + 1;
        let year = year_of_era + era * 400 + i64::from(month < 3);
        let expect = "an i32 of days stays within these ranges";
        (
            i32::try_from(year).expect(expect),
            u8::try_from(month).expect(expect),
            u8::try_from(day).expect(expect),
        )
    }

    /// Returns the bytes of the CQL value: unsigned days, with the epoch in the middle of their range.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 4] {
        (self.0 ^ i32::MIN).to_be_bytes()
    }

    /// Reads the bytes of a CQL value.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 4]) -> Self {
        Self(i32::from_be_bytes(bytes) ^ i32::MIN)
    }
}

/// The days of the 400 years after which the calendar repeats.
const DAYS_OF_ERA: i64 = 146_097;

/// 1970-01-01, counted in days from 0000-03-01.
const EPOCH_OF_ERA: i64 = 719_468;

fn days_of_month(year: i32, month: u8) -> u8 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => 31,
    }
}

/// Counts nanoseconds since midnight.
///
/// Servers take 0 to 86,399,999,999,999; other numbers are carried as they are.
///
/// ```
/// use messina_core::types::Time;
///
/// assert_eq!(Time::from_hms_nano(0, 0, 1, 5), Some(Time(1_000_000_005)));
/// assert_eq!(Time::from_hms_nano(24, 0, 0, 0), None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Time(pub i64);

impl Time {
    /// Makes a time of day; `None` when there is none such.
    #[must_use]
    pub fn from_hms_nano(hour: u8, minute: u8, second: u8, nanosecond: u32) -> Option<Self> {
        if 23 < hour || 59 < minute || 59 < second || 999_999_999 < nanosecond {
            return None;
        }
        let seconds = (i64::from(hour) * 60 + i64::from(minute)) * 60 + i64::from(second);
        Some(Self(seconds * 1_000_000_000 + i64::from(nanosecond)))
    }

    /// Says whether this is a time of a day.
    #[must_use]
    pub fn is_time_of_day(self) -> bool {
        (0..86_400_000_000_000).contains(&self.0)
    }
}

/// Counts milliseconds from 1970-01-01 UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Takes the millisecond that the instant falls into; `None` when it is too far away to count.
    #[must_use]
    pub fn from_system_time(time: SystemTime) -> Option<Self> {
        match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_millis()).ok().map(Self),
            Err(before) => {
                let before = before.duration();
                let part = i64::from(before.subsec_nanos() % 1_000_000 != 0);
                let millis = i64::try_from(before.as_millis()).ok()?;
                millis.checked_neg()?.checked_sub(part).map(Self)
            }
        }
    }

    /// Returns the instant; `None` when the system cannot hold it.
    #[must_use]
    pub fn system_time(self) -> Option<SystemTime> {
        let distance = std::time::Duration::from_millis(self.0.unsigned_abs());
        if self.0 < 0 {
            SystemTime::UNIX_EPOCH.checked_sub(distance)
        } else {
            SystemTime::UNIX_EPOCH.checked_add(distance)
        }
    }
}

/// Holds a duration in months, days and nanoseconds, which have no fixed length in one another.
///
/// Servers take it when no two of the parts have different signs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Duration {
    /// Calendar months.
    pub months: i32,
    /// Calendar days.
    pub days: i32,
    /// Nanoseconds.
    pub nanos: i64,
}

/// Says that a date or time is outside of what a type can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the date or time is out of range")]
pub struct TimeRangeError;

impl Duration {
    /// Returns the bytes of the CQL value and how many of them are used.
    #[must_use]
    pub(crate) fn to_bytes(self) -> ([u8; 27], usize) {
        let mut all = [0; 27];
        let mut used = 0;
        for part in [i64::from(self.months), i64::from(self.days), self.nanos] {
            let (bytes, len) = vint_bytes(zigzag(part));
            if let (Some(room), Some(bytes)) = (all.get_mut(used..used + len), bytes.get(..len)) {
                room.copy_from_slice(bytes);
            }
            used += len;
        }
        (all, used)
    }
}

/// Folds the sign into the lowest bit, so that small negative numbers stay short.
fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

/// Writes an unsigned vint in its shortest form and says how many bytes of the array it takes.
#[must_use]
pub(crate) fn vint_bytes(value: u64) -> ([u8; 9], usize) {
    // Each further byte costs one bit of the first one and brings eight: seven bits a byte, all 64 with nine.
    let bits = 64 - (value | 1).leading_zeros();
    let len = usize::try_from(bits.div_ceil(7)).unwrap_or(9).min(9);
    let mut bytes = [0; 9];
    if let Some((first, rest)) = bytes.split_first_mut() {
        rest.copy_from_slice(&value.to_be_bytes());
        if len < 9 {
            // The leading zero bytes go; what is left starts at the first byte.
            bytes.rotate_left(9 - len);
            if let Some(first) = bytes.first_mut() {
                *first |= LEADING_ONES.get(len - 1).copied().unwrap_or_default();
            }
        } else {
            *first = 0xff;
        }
    }
    (bytes, len)
}

/// The first byte's marks for zero to seven further bytes.
const LEADING_ONES: [u8; 8] = [0, 0x80, 0xc0, 0xe0, 0xf0, 0xf8, 0xfc, 0xfe];
