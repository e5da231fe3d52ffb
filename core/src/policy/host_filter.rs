//! Owns the choice of which hosts a session connects to at all.
//! The order among the allowed ones belongs to load balancing.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::routing::Host;

/// Says which hosts a session may connect to.
///
/// Asked again whenever the facts of a host change, so it must be a pure function of them.
pub trait HostFilter: fmt::Debug + Send + Sync {
    /// Says whether connections to the host are allowed.
    fn allows(&self, host: &Host) -> bool;
}

/// Allows the hosts of the named datacenters only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatacenterFilter {
    /// The names, in exact case.
    pub datacenters: BTreeSet<Arc<str>>,
}

impl HostFilter for DatacenterFilter {
    fn allows(&self, host: &Host) -> bool {
        host.datacenter
            .as_ref()
            .is_some_and(|datacenter| self.datacenters.contains(datacenter))
    }
}
