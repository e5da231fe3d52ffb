//! Owns a range of loopback addresses for one cluster, so that several clusters run side by side on one machine.
//! It does not know what listens there later.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::time::{Duration, Instant};

use super::error::CassandraError;
use super::files::{CQL_PORT, STORAGE_PORT};

/// The addresses 127.0.K.1 and following, taken for as long as this value lives.
#[derive(Debug)]
pub(super) struct Lease {
    third: u8,
    // The open socket is the mark that the range is taken; it vanishes with the process, however that ends.
    _mark: TcpListener,
}

impl Lease {
    /// Takes the first range whose ports are free for that many nodes.
    pub(super) fn take(nodes: usize) -> Result<Self, CassandraError> {
        (0..=u8::MAX)
            .find_map(|third| {
                let mark = listen(Ipv4Addr::new(127, 0, third, 1), MARK_PORT).ok()?;
                let lease = Self { third, _mark: mark };
                (0..nodes)
                    .all(|index| is_free(lease.address(index)))
                    .then_some(lease)
            })
            .ok_or(CassandraError::Addresses { nodes })
    }

    /// The address of the node with this index.
    pub(super) fn address(&self, index: usize) -> Ipv4Addr {
        let last = u8::try_from(index + 1).unwrap_or(u8::MAX);
        Ipv4Addr::new(127, 0, self.third, last)
    }
}

/// Waits until nobody listens on the ports of this address; a stopped node holds them for some seconds.
pub(super) fn wait_until_free(address: Ipv4Addr, poll: Duration, until: Instant) -> bool {
    while !is_free(address) {
        if until <= Instant::now() {
            return false;
        }
        std::thread::sleep(poll);
    }
    true
}

fn is_free(address: Ipv4Addr) -> bool {
    [CQL_PORT, STORAGE_PORT]
        .into_iter()
        .all(|port| listen(address, port).is_ok())
}

fn listen(address: Ipv4Addr, port: u16) -> io::Result<TcpListener> {
    TcpListener::bind(SocketAddrV4::new(address, port))
}

/// Any port that nothing else uses: below the range from which systems choose ports for clients.
const MARK_PORT: u16 = 19_042;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_clusters_never_get_the_same_addresses() {
        let first = Lease::take(2).unwrap();
        let second = Lease::take(2).unwrap();

        assert_ne!(first.address(0), second.address(0));
    }

    #[test]
    fn addresses_where_somebody_listens_for_cql_clients_are_passed_over() {
        let taken = Lease::take(1).unwrap();
        let address = taken.address(0);
        let _other = listen(address, CQL_PORT).unwrap();
        drop(taken);

        assert_ne!(Lease::take(1).unwrap().address(0), address);
    }
}
