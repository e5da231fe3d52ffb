//! The options of a table, with the defaults of a new one.

use super::super::CqlError;
use super::super::cql::ast::{Properties, Property};

/// What `CREATE TABLE … WITH` can say and the schema tables show.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TableOptions {
    pub(crate) bloom_filter_fp_chance: f64,
    pub(crate) caching: Vec<(String, String)>,
    pub(crate) comment: String,
    pub(crate) compaction: Vec<(String, String)>,
    pub(crate) compression: Vec<(String, String)>,
    pub(crate) crc_check_chance: f64,
    pub(crate) default_time_to_live: i32,
    pub(crate) gc_grace_seconds: i32,
    pub(crate) max_index_interval: i32,
    pub(crate) memtable_flush_period_in_ms: i32,
    pub(crate) min_index_interval: i32,
    pub(crate) per_partition_rate_limit: RateLimits,
    pub(crate) speculative_retry: String,
}

/// How often one partition may be used; `None` is as often as one likes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RateLimits {
    pub(crate) max_reads_per_second: Option<u32>,
    pub(crate) max_writes_per_second: Option<u32>,
}

impl RateLimits {
    fn new(entries: &[(String, String)]) -> Result<Self, CqlError> {
        let mut limits = Self::default();
        for (key, value) in entries {
            let slot = match key.as_str() {
                "max_reads_per_second" => &mut limits.max_reads_per_second,
                "max_writes_per_second" => &mut limits.max_writes_per_second,
                _ => {
                    return Err(CqlError::new(
                        CqlError::CONFIG,
                        format!("Unknown option in \"per_partition_rate_limit\": {key}"),
                    ));
                }
            };
            let limit = value.parse().map_err(|_| {
                CqlError::new(
                    CqlError::CONFIG,
                    format!("Invalid value for {key} option: \"{value}\". Expected a non-negative number"),
                )
            })?;
            *slot = Some(limit);
        }
        Ok(limits)
    }

    /// What was set, as the table's option spells it.
    pub(crate) fn entries(self) -> Vec<(&'static str, String)> {
        [
            ("max_reads_per_second", self.max_reads_per_second),
            ("max_writes_per_second", self.max_writes_per_second),
        ]
        .into_iter()
        .filter_map(|(key, limit)| Some((key, limit?.to_string())))
        .collect()
    }

    /// What the schema tables hold: a count, then keys and values with their lengths, all little-endian.
    pub(crate) fn serialized(self) -> Option<Vec<u8>> {
        let entries = self.entries();
        let mut out = Vec::new();
        let put_len = |len: usize, out: &mut Vec<u8>| {
            out.extend_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes());
        };
        put_len(entries.len(), &mut out);
        for (key, value) in &entries {
            for part in [*key, value.as_str()] {
                put_len(part.len(), &mut out);
                out.extend_from_slice(part.as_bytes());
            }
        }
        (!entries.is_empty()).then_some(out)
    }
}

impl Default for TableOptions {
    fn default() -> Self {
        let map = |entries: &[(&str, &str)]| {
            entries
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect()
        };
        Self {
            bloom_filter_fp_chance: 0.01,
            caching: map(&[("keys", "ALL"), ("rows_per_partition", "ALL")]),
            comment: String::new(),
            compaction: map(&[("class", "IncrementalCompactionStrategy")]),
            compression: map(&[("sstable_compression", "LZ4WithDictsCompressor")]),
            crc_check_chance: 1.0,
            default_time_to_live: 0,
            gc_grace_seconds: 864_000,
            max_index_interval: 2048,
            memtable_flush_period_in_ms: 0,
            min_index_interval: 128,
            per_partition_rate_limit: RateLimits::default(),
            speculative_retry: "99.0PERCENTILE".to_owned(),
        }
    }
}

impl TableOptions {
    /// Takes over what a WITH clause says.
    pub(super) fn apply(&mut self, properties: &Properties) -> Result<(), CqlError> {
        for (name, property) in properties {
            match name.as_str() {
                "bloom_filter_fp_chance" => self.bloom_filter_fp_chance = number(name, property)?,
                "caching" => self.caching = map(name, property)?,
                "comment" => self.comment = simple(name, property)?.to_owned(),
                "compaction" => self.compaction = map(name, property)?,
                "compression" => self.compression = map(name, property)?,
                "crc_check_chance" => self.crc_check_chance = number(name, property)?,
                "default_time_to_live" => self.default_time_to_live = number(name, property)?,
                "gc_grace_seconds" => self.gc_grace_seconds = number(name, property)?,
                "max_index_interval" => self.max_index_interval = number(name, property)?,
                "memtable_flush_period_in_ms" => {
                    self.memtable_flush_period_in_ms = number(name, property)?;
                }
                "min_index_interval" => self.min_index_interval = number(name, property)?,
                "per_partition_rate_limit" => {
                    self.per_partition_rate_limit = RateLimits::new(&map(name, property)?)?;
                }
                "speculative_retry" => self.speculative_retry = simple(name, property)?.to_owned(),
                // Known to the server, without effect here.
                "id"
                | "cdc"
                | "tombstone_gc"
                | "paxos_grace_seconds"
                | "in_memory"
                | "tablets"
                | "read_repair_chance"
                | "dclocal_read_repair_chance"
                | "synchronous_updates"
                | "read_repair"
                | "additional_write_policy" => {}
                _ => return Err(CqlError::syntax(format!("Unknown property '{name}'"))),
            }
        }
        if self.default_time_to_live < 0 {
            return Err(CqlError::invalid(
                "default_time_to_live cannot be smaller than 0",
            ));
        }
        Ok(())
    }
}

/// A property that is one value.
pub(super) fn simple<'a>(name: &str, property: &'a Property) -> Result<&'a str, CqlError> {
    match property {
        Property::Simple(text) => Ok(text),
        Property::Map(_) => Err(CqlError::syntax(format!(
            "Invalid value for property '{name}'. It should be a string"
        ))),
    }
}

/// A property that is a map.
pub(super) fn map(name: &str, property: &Property) -> Result<Vec<(String, String)>, CqlError> {
    match property {
        Property::Map(entries) => Ok(entries.clone()),
        Property::Simple(_) => Err(CqlError::syntax(format!(
            "Invalid value for property '{name}'. It should be a map."
        ))),
    }
}

fn number<T: std::str::FromStr>(name: &str, property: &Property) -> Result<T, CqlError> {
    simple(name, property)?
        .parse()
        .map_err(|_| CqlError::syntax(format!("Invalid number for property {name}")))
}
