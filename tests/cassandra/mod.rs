//! Owns a real Apache Cassandra on this machine: fetches its jars once, writes its configuration, starts, stops and
//! restarts its nodes. It speaks no CQL: clients bring their own protocol.
//!
//! ```no_run
//! use messina_testkit::cassandra::Cassandra;
//!
//! let cassandra = Cassandra::builder().nodes(1).start()?;
//! println!("{}", cassandra.contact_points().join(","));
//! # Ok::<(), messina_testkit::cassandra::CassandraError>(())
//! ```
//!
//! Java 17 runs the nodes. Maven fetches the jars (66 MB) the first time; later starts need no network. The jars and
//! the folders of the nodes live under cargo's target folder, or under the folder that `MESSINA_CASSANDRA_CACHE` names.
//! Nodes listen on loopback addresses such as 127.0.0.1, 127.0.0.2; when somebody else uses these ports, on
//! 127.0.1.1, 127.0.1.2 and so on. No node outlives its [`Cassandra`], not even when the process is killed.

mod error;
mod files;
mod java;
mod lease;
mod node;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub use self::error::CassandraError;

use self::files::Layout;
#[cfg(feature = "tls")]
use self::files::NodeEncryption;
use self::java::Parts;
use self::lease::Lease;
use self::node::Node;
#[cfg(feature = "tls")]
use crate::certificates::Authority;

/// A running Cassandra of one or more nodes; dropping it kills them and removes their data.
///
/// The output of each node stays behind in a log file, see [`Cassandra::folder`].
#[derive(Debug)]
pub struct Cassandra {
    nodes: Vec<Node>,
    parts: Parts,
    options: Builder,
    folder: PathBuf,
    #[cfg(feature = "tls")]
    authority: Option<Authority>,
    // Dropped last: the addresses are free only when the nodes are gone.
    _lease: Lease,
}

impl Cassandra {
    /// The release of Cassandra that is started.
    pub const VERSION: &str = "5.0.6";

    /// The role that exists after a start with passwords; its password is [`Cassandra::PASSWORD`].
    pub const USER: &str = "cassandra";

    /// The password of [`Cassandra::USER`].
    pub const PASSWORD: &str = "cassandra";

    /// A cluster of one node, without passwords, unless told otherwise.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Why no Cassandra can be started here, or `None` when everything is in place.
    ///
    /// Fetches the jars when they are not in the cache yet, so the first call can take a minute.
    pub fn unavailable() -> Option<CassandraError> {
        Parts::obtain().err()
    }

    /// The addresses of all nodes as `host:port`, also of those that are stopped.
    pub fn contact_points(&self) -> Vec<String> {
        let addresses = self.addresses();
        addresses.iter().map(SocketAddr::to_string).collect()
    }

    /// The addresses of all nodes, in their order, also of those that are stopped.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.nodes
            .iter()
            .map(|node| SocketAddr::from((node.address(), files::CQL_PORT)))
            .collect()
    }

    /// The address of one node, or `None` when there is no node with this index.
    pub fn address(&self, index: usize) -> Option<Ipv4Addr> {
        self.nodes.get(index).map(Node::address)
    }

    /// The authority that signed the nodes' certificates, for clients to trust and to get certificates from; `None`
    /// without encryption.
    #[cfg(feature = "tls")]
    pub fn authority(&self) -> Option<&Authority> {
        self.authority.as_ref()
    }

    /// The folder of this run, with one log file per node: `node1.log` and so on.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether the process of a node runs; an index without a node says no.
    pub fn is_running(&mut self, index: usize) -> bool {
        self.nodes.get_mut(index).is_some_and(Node::is_running)
    }

    /// Stops one node in an orderly way, and kills it when that takes longer than half a minute; its data stays.
    ///
    /// A node that is not running is left as it is.
    ///
    /// # Errors
    ///
    /// [`CassandraError::NoSuchNode`] when there is no node with this index.
    pub fn stop_node(&mut self, index: usize) -> Result<(), CassandraError> {
        self.node(index)?.stop();
        Ok(())
    }

    /// Kills one node as a crash would; its data stays as it lies.
    ///
    /// # Errors
    ///
    /// [`CassandraError::NoSuchNode`] when there is no node with this index.
    pub fn kill_node(&mut self, index: usize) -> Result<(), CassandraError> {
        self.node(index)?.kill();
        Ok(())
    }

    /// Starts a stopped or killed node again on its data and waits until it takes CQL clients.
    ///
    /// A node that is running is left as it is.
    ///
    /// # Errors
    ///
    /// [`CassandraError::NoSuchNode`], or what kept the node from starting, with the end of its log.
    pub fn start_node(&mut self, index: usize) -> Result<(), CassandraError> {
        let Some(node) = self.nodes.get_mut(index) else {
            return Err(CassandraError::NoSuchNode {
                index,
                nodes: self.nodes.len(),
            });
        };
        match node.is_running() {
            true => Ok(()),
            false => node.start(&self.parts, self.options.ready_timeout),
        }
    }

    fn node(&mut self, index: usize) -> Result<&mut Node, CassandraError> {
        let nodes = self.nodes.len();
        self.nodes
            .get_mut(index)
            .ok_or(CassandraError::NoSuchNode { index, nodes })
    }
}

/// What to start; see [`Cassandra::builder`].
#[derive(Debug, Clone)]
pub struct Builder {
    datacenters: Vec<(String, usize)>,
    racks: usize,
    passwords: bool,
    settings: Vec<(String, String)>,
    heap_mib: usize,
    ready_timeout: Duration,
    #[cfg(feature = "tls")]
    encryption: Option<ClientEncryption>,
}

/// How nodes encrypt what they say to clients.
#[cfg(feature = "tls")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientEncryption {
    /// Clients may encrypt or not, on the same port.
    Optional,
    /// Clients must encrypt.
    Required,
    /// Clients must encrypt and show a certificate of the nodes' authority.
    Mutual,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            datacenters: vec![(DATACENTER.to_owned(), 1)],
            racks: 1,
            passwords: false,
            settings: Vec::new(),
            heap_mib: HEAP_MIB,
            ready_timeout: READY_TIMEOUT,
            #[cfg(feature = "tls")]
            encryption: None,
        }
    }
}

impl Builder {
    /// The number of nodes in the first datacenter, `dc1`. One by default.
    ///
    /// More than one needs a system where every address of 127.0.0.0/8 is a loopback address, as Linux has it.
    pub fn nodes(mut self, count: usize) -> Self {
        self.datacenters[0].1 = count;
        self
    }

    /// Adds a datacenter of this name with that many nodes.
    pub fn datacenter(mut self, name: &str, nodes: usize) -> Self {
        self.datacenters.push((name.to_owned(), nodes));
        self
    }

    /// Spreads the nodes of each datacenter over racks `rack1` to `rackN`. One by default.
    pub fn racks(mut self, count: usize) -> Self {
        self.racks = count.max(1);
        self
    }

    /// Whether clients must log in, see [`Cassandra::USER`]. Off by default.
    pub fn passwords(mut self, on: bool) -> Self {
        self.passwords = on;
        self
    }

    /// Encrypts what nodes say to clients, with certificates made on the spot: see [`Cassandra::authority`]. Off by
    /// default.
    #[cfg(feature = "tls")]
    pub fn encryption(mut self, encryption: ClientEncryption) -> Self {
        self.encryption = Some(encryption);
        self
    }

    /// Sets a top-level key of `cassandra.yaml` on every node, in place of the value that it would have; `value` is YAML.
    pub fn setting(mut self, key: &str, value: &str) -> Self {
        self.settings.push((key.to_owned(), value.to_owned()));
        self
    }

    /// The size of each node's Java heap. 512 MiB by default.
    pub fn heap_mib(mut self, size: usize) -> Self {
        self.heap_mib = size;
        self
    }

    /// How long one node may take until it listens for CQL clients. Three minutes by default: a start takes about five
    /// seconds on an idle machine, and the bound only keeps a broken start from waiting forever.
    pub fn ready_timeout(mut self, timeout: Duration) -> Self {
        self.ready_timeout = timeout;
        self
    }

    /// Starts the nodes one after the other and returns when the last of them takes CQL clients.
    ///
    /// A node that does not come up gets a second try with an emptied folder: a node that joins sometimes finds the
    /// others not ready for it.
    ///
    /// # Errors
    ///
    /// Says which part is missing, or why a node did not start, with the end of its log.
    pub fn start(self) -> Result<Cassandra, CassandraError> {
        let parts = Parts::obtain()?;
        let placed = self.place();
        let lease = Lease::take(placed.len())?;
        let folder = files::new_run_folder(&parts.cache)?;
        let seed = lease.address(0);
        #[cfg(feature = "tls")]
        let authority = self.encryption.map(|_| Authority::new());
        let layouts = placed
            .into_iter()
            .enumerate()
            .map(|(index, (datacenter, rack))| Layout {
                folder: folder.join(format!("node{}", index + 1)),
                address: lease.address(index),
                seed,
                datacenter,
                rack,
                passwords: self.passwords,
                settings: Arc::from(self.settings.as_slice()),
                heap_mib: self.heap_mib,
                #[cfg(feature = "tls")]
                encryption: self.node_encryption(authority.as_ref(), lease.address(index)),
                #[cfg(not(feature = "tls"))]
                encryption: None,
            });
        let nodes = layouts.map(Node::new).collect();
        let mut cassandra = Cassandra {
            nodes,
            parts,
            options: self,
            folder,
            #[cfg(feature = "tls")]
            authority,
            _lease: lease,
        };
        for index in 0..cassandra.nodes.len() {
            let node = &mut cassandra.nodes[index];
            if node
                .start_fresh(&cassandra.parts, cassandra.options.ready_timeout)
                .is_err()
            {
                node.start_fresh(&cassandra.parts, cassandra.options.ready_timeout)?;
            }
        }
        Ok(cassandra)
    }

    #[cfg(feature = "tls")]
    fn node_encryption(
        &self,
        authority: Option<&Authority>,
        address: Ipv4Addr,
    ) -> Option<NodeEncryption> {
        let (encryption, authority) = (self.encryption?, authority?);
        let identity = authority.issue(&[&address.to_string(), "localhost"]);
        Some(NodeEncryption {
            identity_pem: format!("{}{}", identity.key_pem(), identity.chain_pem()),
            authority_pem: authority.pem().to_owned(),
            optional: encryption == ClientEncryption::Optional,
            mutual: encryption == ClientEncryption::Mutual,
        })
    }

    /// Datacenter and rack of every node, in the order of their addresses.
    fn place(&self) -> Vec<(String, String)> {
        let in_datacenter = |(name, nodes): &(String, usize)| {
            let name = name.clone();
            let racks = self.racks;
            (0..*nodes).map(move |index| (name.clone(), format!("rack{}", index % racks + 1)))
        };
        self.datacenters.iter().flat_map(in_datacenter).collect()
    }
}

impl Drop for Cassandra {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            node.discard();
        }
    }
}

/// The datacenter of a cluster that was not told to have others.
const DATACENTER: &str = "dc1";

/// Cassandra starts with less, but an 8 MiB value and a few thousand rows in the memtable want some room.
const HEAP_MIB: usize = 512;

/// See [`Builder::ready_timeout`].
const READY_TIMEOUT: Duration = Duration::from_secs(180);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_spread_over_the_racks_of_each_datacenter() {
        let placed = Cassandra::builder()
            .nodes(3)
            .datacenter("dc2", 1)
            .racks(2)
            .place();

        let expected = [
            ("dc1", "rack1"),
            ("dc1", "rack2"),
            ("dc1", "rack1"),
            ("dc2", "rack1"),
        ];
        assert_eq!(
            placed,
            expected.map(|(datacenter, rack)| (datacenter.to_owned(), rack.to_owned()))
        );
    }
}
