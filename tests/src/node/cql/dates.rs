//! Calendar arithmetic and the texts of dates, times and timestamps in CQL.

/// Days since 1970-01-01 of a date in the proleptic Gregorian calendar.
pub(crate) fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Reads `yyyy-mm-dd` as days since 1970-01-01.
pub(crate) fn parse_date(text: &str) -> Option<i64> {
    let (negative, body) = match text.strip_prefix('-') {
        Some(body) => (true, body),
        None => (false, text),
    };
    let mut parts = body.split('-');
    let year: i64 = digits(parts.next()?, 10)?;
    let month: i64 = digits(parts.next()?, 2)?;
    let day: i64 = digits(parts.next()?, 2)?;
    if parts.next().is_some() || !(1..=12).contains(&month) {
        return None;
    }
    let year = if negative { -year } else { year };
    if YEAR_MAX < year.abs() || day < 1 || days_of_month(year, month) < day {
        return None;
    }
    Some(days_from_civil(year, month, day))
}

/// No date of CQL is further away.
const YEAR_MAX: i64 = 6_000_000;

fn days_of_month(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

fn digits(text: &str, len_max: usize) -> Option<i64> {
    if text.is_empty() || len_max < text.len() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// Reads `hh:mm[:ss[.fraction]]` as nanoseconds since midnight.
pub(crate) fn parse_time(text: &str) -> Option<i64> {
    let (clock, fraction) = match text.split_once('.') {
        Some((clock, fraction)) => (clock, Some(fraction)),
        None => (text, None),
    };
    let mut parts = clock.split(':');
    let hours = digits(parts.next()?, 2)?;
    let minutes = digits(parts.next()?, 2)?;
    let seconds = match parts.next() {
        Some(seconds) => digits(seconds, 2)?,
        None if fraction.is_some() => return None,
        None => 0,
    };
    if parts.next().is_some() || 23 < hours || 59 < minutes || 59 < seconds {
        return None;
    }
    let nanoseconds = match fraction {
        Some(fraction) => digits(&format!("{fraction:0<9}"), 9)?,
        None => 0,
    };
    Some(((hours * 60 + minutes) * 60 + seconds) * 1_000_000_000 + nanoseconds)
}

/// Reads a date, perhaps with a time and an offset from UTC, as milliseconds since 1970.
pub(crate) fn parse_timestamp(text: &str) -> Option<i64> {
    let split = text.find(['T', ' ']);
    let Some(split) = split else {
        return Some(parse_date(text)? * MILLISECONDS_OF_DAY);
    };
    let days = parse_date(text.get(..split)?)?;
    let rest = text.get(split + 1..)?.trim();
    let (clock, offset) = match rest.find(['Z', '+', '-']) {
        Some(at) => (rest.get(..at)?.trim(), parse_offset(rest.get(at..)?)?),
        None => (rest, 0),
    };
    let clock = parse_time(clock)? / 1_000_000;
    Some(days * MILLISECONDS_OF_DAY + clock - offset * 60_000)
}

const MILLISECONDS_OF_DAY: i64 = 86_400_000;

/// Reads `Z`, `+hh`, `+hhmm` or `+hh:mm` as minutes.
fn parse_offset(text: &str) -> Option<i64> {
    if text == "Z" {
        return Some(0);
    }
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+')?),
    };
    let rest = rest.replace(':', "");
    let hours = digits(rest.get(..2)?, 2)?;
    let minutes = match rest.get(2..)? {
        "" => 0,
        minutes => digits(minutes, 2)?,
    };
    Some(sign * (hours * 60 + minutes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_days_since_1970() {
        assert_eq!(parse_date("1970-01-01"), Some(0));
        assert_eq!(parse_date("2000-02-29"), Some(11_016));
        assert_eq!(parse_date("1969-12-31"), Some(-1));
        assert_eq!(parse_date("-5877641-06-23"), Some(-(1 << 31)));
        assert_eq!(parse_date("5881580-07-11"), Some((1 << 31) - 1));
        for wrong in ["2001-02-29", "2001-13-01", "2001-01", "x", "2001-01-01-01"] {
            assert_eq!(parse_date(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn times_and_timestamps_are_read_with_fractions_and_offsets() {
        assert_eq!(parse_time("23:59:59.999999999"), Some(86_399_999_999_999));
        assert_eq!(parse_time("08:30"), Some(30_600_000_000_000));
        assert_eq!(parse_time("24:00:00"), None);
        assert_eq!(parse_timestamp("1970-01-02"), Some(86_400_000));
        assert_eq!(parse_timestamp("1970-01-01 00:00:01.5+0000"), Some(1_500));
        assert_eq!(parse_timestamp("1970-01-01T02:00+02:00"), Some(0));
        assert_eq!(parse_timestamp("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(parse_timestamp("yesterday"), None);
    }
}
