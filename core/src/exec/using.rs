//! The clause that tells a ScyllaDB server how long it may work on one statement.
//! What the client waits is another matter (`exec::statement`).

use std::fmt;
use std::time::Duration;

/// Shows itself as `USING TIMEOUT 250ms`, to be put into the text of a statement.
///
/// The server gives up after that time instead of after its own default, which both limits what an expensive statement
/// costs and lets one that is known to be slow finish. The client's limit should be longer, or its answer comes too
/// late to be read. Only ScyllaDB knows the clause. It stands behind `SELECT … WHERE …` and `INSERT … VALUES (…)`,
/// before `SET` in an `UPDATE` and before `WHERE` in a `DELETE`; behind another `USING` it is joined by `AND`, for which
/// there is [`and`](Self::and).
///
/// ```
/// use std::time::Duration;
/// use messina_core::exec::using::UsingTimeout;
///
/// let limit = UsingTimeout::new(Duration::from_millis(250));
/// assert_eq!(
///     format!("UPDATE t {limit} SET v = ? WHERE k = ?"),
///     "UPDATE t USING TIMEOUT 250ms SET v = ? WHERE k = ?",
/// );
/// assert_eq!(
///     format!("INSERT INTO t (k) VALUES (?) USING TTL 60 {}", limit.and()),
///     "INSERT INTO t (k) VALUES (?) USING TTL 60 AND TIMEOUT 250ms",
/// );
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsingTimeout {
    timeout: Duration,
    word: &'static str,
}

impl UsingTimeout {
    /// Makes the clause; part of a millisecond counts as one, because a limit of zero would fail every statement.
    pub const fn new(timeout: Duration) -> Self {
        Self {
            timeout,
            word: "USING",
        }
    }

    /// Makes the clause go behind another one of the same `USING`.
    #[must_use]
    pub const fn and(self) -> Self {
        Self {
            word: "AND",
            ..self
        }
    }
}

impl fmt::Display for UsingTimeout {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.timeout.as_millis();
        let begun = u128::from(!self.timeout.subsec_nanos().is_multiple_of(1_000_000));
        write!(out, "{} TIMEOUT {}ms", self.word, (whole + begun).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_never_shorter_than_asked_and_never_zero() {
        let shown = |nanos| UsingTimeout::new(Duration::from_nanos(nanos)).to_string();
        assert_eq!(shown(0), "USING TIMEOUT 1ms");
        assert_eq!(shown(1_000_000), "USING TIMEOUT 1ms");
        assert_eq!(shown(1_000_001), "USING TIMEOUT 2ms");
        assert_eq!(shown(61_000_000_000), "USING TIMEOUT 61000ms");
    }
}
