//! Owns the settings of the connection pools.
//! Reconnection delays have a policy of their own.

/// How many connections a session opens to each host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    /// How many opening connections the session has at most at the same time, over all hosts.
    pub opening_max: usize,
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self {
            opening_max: OPENING_MAX,
        }
    }
}

/// Enough to bring up a usual cluster in one go, few enough not to look like an attack to the servers.
const OPENING_MAX: usize = 64;
