//! Owns the choice of which hosts a session connects to at all.
//! The order among the allowed ones belongs to load balancing.

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use uuid::Uuid;

use crate::routing::Host;

/// Says which hosts a session may connect to.
///
/// Asked again whenever the facts of a host change, so it must be a pure function of them.
pub trait HostFilter: Any + fmt::Debug + Send + Sync {
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

/// Allows the hosts that are listed, by address or by identity, and no other.
///
/// ```
/// use messina_core::policy::host_filter::AllowList;
///
/// let filter = AllowList::new()
///     .ip("192.0.2.1".parse().expect("an address"))
///     .address("192.0.2.2:9142".parse().expect("an address"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowList {
    ips: BTreeSet<IpAddr>,
    addresses: BTreeSet<SocketAddr>,
    ids: BTreeSet<Uuid>,
}

impl AllowList {
    /// Makes a list that allows nobody.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            ips: BTreeSet::new(),
            addresses: BTreeSet::new(),
            ids: BTreeSet::new(),
        }
    }

    /// Allows the hosts with this address for clients, on any port; untranslated.
    #[must_use]
    pub fn ip(mut self, ip: IpAddr) -> Self {
        self.ips.insert(ip.to_canonical());
        self
    }

    /// Allows the host with this address for clients and this port; untranslated.
    #[must_use]
    pub fn address(mut self, address: SocketAddr) -> Self {
        self.addresses.insert(canonical(address));
        self
    }

    /// Allows the host with this identity, whatever its address is.
    #[must_use]
    pub fn id(mut self, id: Uuid) -> Self {
        self.ids.insert(id);
        self
    }
}

/// The same address in the one form in which it is compared.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

impl HostFilter for AllowList {
    fn allows(&self, host: &Host) -> bool {
        self.ips.contains(&host.address.ip().to_canonical())
            || self.addresses.contains(&canonical(host.address))
            || self.ids.contains(&host.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(id: u128, address: &str) -> Host {
        Host::new(Uuid::from_u128(id), address.parse().expect("an address"))
    }

    #[test]
    fn a_list_allows_what_is_on_it_and_nothing_else() {
        assert!(!AllowList::new().allows(&host(1, "192.0.2.1:9042")));
        let list = AllowList::new()
            .ip("192.0.2.1".parse().expect("an address"))
            .address("192.0.2.2:9042".parse().expect("an address"))
            .id(Uuid::from_u128(3));
        assert!(list.allows(&host(1, "192.0.2.1:9999")));
        assert!(list.allows(&host(1, "[::ffff:192.0.2.1]:9042")));
        assert!(list.allows(&host(2, "192.0.2.2:9042")));
        assert!(list.allows(&host(2, "[::ffff:192.0.2.2]:9042")));
        let mapped = "[::ffff:192.0.2.2]:9042".parse().expect("an address");
        let list_of_mapped = AllowList::new().address(mapped);
        assert!(list_of_mapped.allows(&host(2, "192.0.2.2:9042")));
        assert!(!list.allows(&host(2, "192.0.2.2:9999")));
        assert!(list.allows(&host(3, "192.0.2.9:9042")));
        assert!(!list.allows(&host(4, "192.0.2.9:9042")));
    }

    #[test]
    fn a_filter_by_datacenter_takes_exact_names() {
        let filter = DatacenterFilter {
            datacenters: ["dc1".into()].into(),
        };
        let in_datacenter = |name: Option<&str>| Host {
            datacenter: name.map(Arc::from),
            ..host(1, "192.0.2.1:9042")
        };
        assert!(filter.allows(&in_datacenter(Some("dc1"))));
        assert!(!filter.allows(&in_datacenter(Some("DC1"))));
        assert!(!filter.allows(&in_datacenter(None)));
    }
}
