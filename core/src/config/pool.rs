//! Owns the settings of the connection pools: how many connections a host gets, and how their shards are chosen.
//! Reconnection delays have a policy of their own.

use std::num::NonZeroU16;
use std::time::Duration;

use crate::error::session::ConfigError;

/// How many connections a session opens to each host, and when it closes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    /// How many connections each host gets.
    pub size: PoolSize,
    /// Whether the shards of ScyllaDB nodes count; off, a node is treated like one without shards.
    pub shard_awareness: bool,
    /// When the port is used where the client's own port chooses the shard.
    pub shard_aware_port: ShardAwarePort,
    /// The client's own ports that may be used for that.
    pub source_ports: SourcePorts,
    /// How long source ports are left alone after one led to another shard. Five minutes: addresses are rarely
    /// translated for a short time, and one wasted connection in five minutes costs nothing.
    pub source_port_cooldown: Duration,
    /// How many connections that landed on a shard that has enough are kept open while others are missing, in percent
    /// of the node's shards. 200: they make the server hand out other shards, and more of them help little.
    pub excess_percent_max: u32,
    /// How long a connection is used before another one takes its place, so that logins that were changed come into
    /// force; unset, as long as it works. Connections part up to 15 percent earlier, to not be replaced all at once.
    pub connection_age_max: Option<Duration>,
    /// How many opening connections the session has at most at the same time, over all hosts.
    pub opening_max: usize,
    /// How many of them lead to one host: a node shakes hands with a few clients at a time.
    pub opening_per_host_max: usize,
}

impl PoolConfig {
    /// Says whether the pools mean to use the shard-aware port, whatever the servers offer.
    #[must_use]
    pub fn uses_shard_aware_port(&self) -> bool {
        self.shard_awareness
            && self.shard_aware_port != ShardAwarePort::Never
            && !matches!(self.size, PoolSize::PerHost(_))
    }

    /// Counts the connections that may be open beside those in use at a node with so many shards.
    pub(crate) fn excess_max(&self, shards: u16) -> usize {
        let scaled = u64::from(shards).saturating_mul(u64::from(self.excess_percent_max)) / 100;
        usize::try_from(scaled).unwrap_or(usize::MAX)
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let zero = ConfigError::if_zero;
        zero(self.opening_max == 0, "pool.opening_max")?;
        zero(self.opening_per_host_max == 0, "pool.opening_per_host_max")?;
        zero(
            self.source_port_cooldown.is_zero(),
            "pool.source_port_cooldown",
        )?;
        zero(
            self.connection_age_max.is_some_and(|limit| limit.is_zero()),
            "pool.connection_age_max",
        )?;
        zero(
            matches!(self.size, PoolSize::OnDemand { idle } if idle.is_zero()),
            "pool.size.idle",
        )
    }
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self {
            size: PoolSize::default(),
            shard_awareness: true,
            shard_aware_port: ShardAwarePort::default(),
            source_ports: SourcePorts::default(),
            source_port_cooldown: SOURCE_PORT_COOLDOWN,
            excess_percent_max: EXCESS_PERCENT_MAX,
            connection_age_max: None,
            opening_max: OPENING_MAX,
            opening_per_host_max: OPENING_PER_HOST_MAX,
        }
    }
}

/// How many connections a host gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PoolSize {
    /// So many for each shard; a node without shards counts as one shard.
    PerShard(NonZeroU16),
    /// So many in total, on whatever shards they land.
    PerHost(NonZeroU16),
    /// One in total, and one more for each shard that requests ask for; these are closed again when they are idle.
    OnDemand {
        /// How long a connection without requests stays open, at least; it may be twice as long.
        idle: Duration,
    },
}

impl Default for PoolSize {
    /// One for each shard: one carries all the requests that a shard can serve.
    fn default() -> Self {
        Self::PerShard(NonZeroU16::MIN)
    }
}

/// When the port is used where the client's own port chooses the shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ShardAwarePort {
    /// Where the node's own port is dialled; behind a translation to another port it can hardly be reached.
    #[default]
    Auto,
    /// Also where the node's port was translated to another one.
    Always,
    /// Not at all: connections are opened on the regular port until each shard has one.
    Never,
}

/// A range of the client's own ports, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SourcePorts {
    low: u16,
    high: u16,
}

impl SourcePorts {
    /// Makes a range.
    ///
    /// # Errors
    /// The low end is a system port (below 1024) or above the high end.
    pub fn new(low: u16, high: u16) -> Result<Self, ConfigError> {
        if low < SYSTEM_PORTS_END || high < low {
            return Err(ConfigError::SourcePorts { low, high });
        }
        Ok(Self { low, high })
    }

    /// The lowest port.
    #[must_use]
    pub fn low(self) -> u16 {
        self.low
    }

    /// The highest port.
    #[must_use]
    pub fn high(self) -> u16 {
        self.high
    }
}

impl Default for SourcePorts {
    /// The ports that nobody registers, 49152 to 65535.
    fn default() -> Self {
        Self {
            low: 49_152,
            high: u16::MAX,
        }
    }
}

/// Ports below this need privileges on most systems.
const SYSTEM_PORTS_END: u16 = 1_024;
/// Source ports are left alone for this time after one led to another shard.
const SOURCE_PORT_COOLDOWN: Duration = Duration::from_secs(300);
/// The usual limit of the field.
const EXCESS_PERCENT_MAX: u32 = 200;
/// Enough to bring up a usual cluster in one go, few enough not to look like an attack to the servers.
const OPENING_MAX: usize = 64;
/// A server's shard takes on a handful of connections at a time, and half of them may wait for the same shard.
const OPENING_PER_HOST_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_system_ports_or_with_swapped_ends_is_refused() {
        for (low, high) in [(0, 65_535), (1_023, 65_535), (49_152, 49_151)] {
            assert_eq!(
                SourcePorts::new(low, high),
                Err(ConfigError::SourcePorts { low, high })
            );
        }
        assert!(SourcePorts::new(1_024, 1_024).is_ok());
        assert_eq!(SourcePorts::new(49_152, 65_535), Ok(SourcePorts::default()));
    }

    #[test]
    fn settings_of_zero_that_would_loop_or_hang_are_refused() {
        let refused = |change: fn(&mut PoolConfig)| {
            let mut config = PoolConfig::default();
            change(&mut config);
            config.check().is_err()
        };
        assert!(PoolConfig::default().check().is_ok());
        assert!(refused(|config| config.opening_max = 0));
        assert!(refused(|config| config.opening_per_host_max = 0));
        assert!(refused(
            |config| config.source_port_cooldown = Duration::ZERO
        ));
        assert!(refused(
            |config| config.connection_age_max = Some(Duration::ZERO)
        ));
        assert!(refused(|config| config.size = PoolSize::OnDemand {
            idle: Duration::ZERO
        }));
    }

    #[test]
    fn the_excess_is_a_rounded_down_part_of_the_shards() {
        let config = PoolConfig {
            excess_percent_max: 50,
            ..PoolConfig::default()
        };
        assert_eq!(config.excess_max(7), 3);
        assert_eq!(PoolConfig::default().excess_max(4), 8);
    }

    #[test]
    fn the_shard_aware_port_is_meant_to_be_used_unless_something_rules_it_out() {
        let uses = |change: fn(&mut PoolConfig)| {
            let mut config = PoolConfig::default();
            change(&mut config);
            config.uses_shard_aware_port()
        };
        assert!(uses(|_| ()));
        assert!(!uses(|config| config.shard_awareness = false));
        assert!(!uses(
            |config| config.shard_aware_port = ShardAwarePort::Never
        ));
        assert!(!uses(
            |config| config.size = PoolSize::PerHost(NonZeroU16::MIN)
        ));
    }
}
