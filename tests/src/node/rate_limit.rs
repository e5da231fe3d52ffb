//! The limit on requests for one partition: counts them by the seconds of the cluster's clock. What the limits are is
//! an option of the table; who is refused is told by `requests`.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::CqlError;
use super::schema::Table;
use super::store::PartitionPlace;

/// What a request does with a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    Read,
    Write,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// The requests of this second, for all nodes together, as replicas would count them.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestRates {
    second: i64,
    counts: BTreeMap<(Uuid, Operation, PartitionPlace), u32>,
}

impl RequestRates {
    /// Counts a request; false when its second is full, and then it does not count.
    pub(crate) fn admit(
        &mut self,
        table: &Table,
        operation: Operation,
        place: PartitionPlace,
        now: i64,
    ) -> bool {
        let limits = &table.options.per_partition_rate_limit;
        let limit = match operation {
            Operation::Read => limits.max_reads_per_second,
            Operation::Write => limits.max_writes_per_second,
        };
        let Some(limit) = limit else { return true };
        let second = now.div_euclid(1_000_000);
        if self.second != second {
            self.second = second;
            self.counts.clear();
        }
        let count = self.counts.entry((table.id, operation, place)).or_default();
        if limit <= *count {
            return false;
        }
        *count += 1;
        true
    }
}

/// The refusal of a request whose second is full.
///
/// `code` is the one that was negotiated; who negotiated none is told of a configuration.
pub(crate) fn refusal(
    table: &Table,
    operation: Operation,
    by_coordinator: bool,
    code: Option<i32>,
) -> CqlError {
    let by = if by_coordinator {
        "coordinator"
    } else {
        "replicas"
    };
    let message = format!(
        "Per-partition rate limit reached for {} in table {}.{}, rejected by {by}",
        operation.name(),
        table.keyspace,
        table.name
    );
    match code {
        Some(code) => CqlError {
            code,
            message,
            detail: super::CqlErrorDetail::RateLimit {
                is_write: operation == Operation::Write,
                by_coordinator,
            },
        },
        None => CqlError::new(CqlError::CONFIG, message),
    }
}
