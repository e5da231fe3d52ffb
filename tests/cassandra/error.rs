//! Owns the reasons why a Cassandra does not start; it prints nothing.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use thiserror::Error;

/// Why a Cassandra could not be fetched, started or addressed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CassandraError {
    /// No Java that can run this Cassandra was found.
    #[error("no usable Java: {0}")]
    Java(String),
    /// The jars are not in the cache, and there is no Maven to fetch them.
    #[error("the jars of Cassandra are not in {}, and Maven cannot fetch them: `mvn` does not run", cache.display())]
    Maven {
        /// Where the jars would be.
        cache: PathBuf,
        /// Why `mvn` does not run.
        source: io::Error,
    },
    /// Maven ran and did not deliver the jars.
    #[error("Maven did not fetch the jars of Cassandra ({problem}); the end of {}:\n{tail}", log.display())]
    Fetch {
        /// What went wrong, in words.
        problem: String,
        /// The whole output of Maven.
        log: PathBuf,
        /// Its last lines.
        tail: String,
    },
    /// A file, folder or process could not be had.
    #[error("{what}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// On every range of loopback addresses that was tried, somebody uses the ports that Cassandra needs.
    #[error("no range of loopback addresses has ports 9042 and 7000 free for {nodes} nodes")]
    Addresses {
        /// How many nodes wanted an address.
        nodes: usize,
    },
    /// The process of a node ended before it took clients.
    #[error("node {address} ended before it took clients ({status}); the end of {}:\n{tail}", log.display())]
    Ended {
        /// The node's address.
        address: std::net::Ipv4Addr,
        /// How the process ended.
        status: ExitStatus,
        /// The whole output of the node.
        log: PathBuf,
        /// Its last lines.
        tail: String,
    },
    /// A node did not take clients within the time it was given.
    #[error("node {address} does not take clients after {seconds} s; the end of {}:\n{tail}", log.display())]
    TimedOut {
        /// The node's address.
        address: std::net::Ipv4Addr,
        /// How long it was waited for.
        seconds: u64,
        /// The whole output of the node.
        log: PathBuf,
        /// Its last lines.
        tail: String,
    },
    /// There is no node with this index.
    #[error("there is no node {index}, only {nodes} nodes counted from 0")]
    NoSuchNode {
        /// The index that was asked for.
        index: usize,
        /// How many nodes there are.
        nodes: usize,
    },
}

impl CassandraError {
    /// Whether this machine lacks something (Java, Maven, the jars), so that no Cassandra can be started on it at all.
    pub fn is_unavailable(&self) -> bool {
        matches!(
            self,
            Self::Java(_) | Self::Maven { .. } | Self::Fetch { .. }
        )
    }

    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
