//! Owns how notes and events read to a person, one sentence each, and how urgent a note is.

use std::error::Error;
use std::fmt;
use std::num::NonZeroU16;
use std::sync::Arc;

use super::{ClusterEvent, Note, Severity};
use crate::error::connect::ConnectionError;
use crate::wire::{SchemaChange, SchemaChangeKind, SchemaTarget};

impl Note {
    /// Says how urgent the note is.
    #[must_use]
    pub fn severity(&self) -> Severity {
        match self {
            Self::EventUnknown { .. } => Severity::Debug,
            // What the driver ends itself is no trouble.
            Self::Draining { error, .. } | Self::ConnectionLost { error, .. }
                if matches!(error, ConnectionError::Closed(_)) =>
            {
                Severity::Debug
            }
            Self::EventNotOffered { .. } | Self::Resharded { .. } => Severity::Info,
            Self::EventUnreadable { .. }
            | Self::LoginNotAsked { .. }
            | Self::CompressionNotOffered { .. }
            | Self::OrphanLimitLowered { .. }
            | Self::StartupOptionLeftOut { .. }
            | Self::DriverConfigLeftOut(_)
            | Self::StartupShortened { .. }
            | Self::ServerWarning { .. }
            | Self::Draining { .. }
            | Self::ConnectFailed(_)
            | Self::HostUnreachable(_)
            | Self::ConnectionLost { .. }
            | Self::RowSkipped { .. }
            | Self::NameUnresolved { .. }
            | Self::ReadFailed { .. }
            | Self::LocalDatacenterMissing { .. }
            | Self::RemoteDatacenterMissing { .. }
            | Self::LocalRackMissing { .. }
            | Self::ShardsUnreadable { .. }
            | Self::ColumnsContradicted { .. }
            | Self::TimestampsAhead { .. }
            | Self::SourcePortIgnored { .. }
            | Self::ShardsNotReached { .. } => Severity::Warning,
            Self::NoControlConnection { .. }
            | Self::OtherCluster { .. }
            | Self::HostsRefused { .. } => Severity::Error,
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EventUnreadable { address, error } => {
                write!(out, "an event from {address} was skipped: {error}")
            }
            Self::EventUnknown { address, kind } => {
                write!(
                    out,
                    "an event of unknown kind {kind:?} from {address} was skipped"
                )
            }
            Self::EventNotOffered { address, kind } => {
                write!(out, "{address} knows no events of kind {}", kind.name())
            }
            Self::LoginNotAsked { address } => {
                write!(out, "{address} did not ask for the configured login")
            }
            Self::CompressionNotOffered {
                address,
                compression,
            } => write!(
                out,
                "{address} does not offer {} compression; the connection goes on without",
                compression.name()
            ),
            Self::OrphanLimitLowered {
                configured,
                effective,
            } => write!(
                out,
                "the limit of {configured} orphans could never be reached; {effective} holds"
            ),
            Self::StartupOptionLeftOut { key, len, len_max } => write!(
                out,
                "option {key} with a value of {len} bytes was left out of the handshake: {len_max} bytes are the most"
            ),
            Self::DriverConfigLeftOut(why) => {
                write!(
                    out,
                    "the server is not shown the driver's configuration: {why}"
                )
            }
            Self::StartupShortened { address, answer } => write!(
                out,
                "{address} refused to be told about application, session and configuration: {answer:?}"
            ),
            Self::ServerWarning { address, text } => write!(out, "{address} warns: {text}"),
            Self::Draining { address, error } => {
                write!(
                    out,
                    "the connection to {address} takes no more requests: {}",
                    Chain(error)
                )
            }
            Self::ConnectFailed(error) => Chain(&**error).fmt(out),
            Self::HostUnreachable(failure) => write!(out, "no connection to {failure}"),
            Self::ConnectionLost { address, error } => {
                write!(out, "the connection to {address} ended: {}", Chain(error))
            }
            Self::RowSkipped { table, why } => write!(out, "a row of {table} was skipped: {why}"),
            Self::NameUnresolved { name, cause } => {
                write!(out, "contact point {name}: {}", Chain(cause))
            }
            Self::ReadFailed {
                address,
                cause,
                retry_in,
            } => write!(
                out,
                "{address} is of no use for the control connection: {}; next try after {retry_in:?}",
                Chain(cause)
            ),
            Self::NoControlConnection { failures, retry_in } => {
                write!(out, "no control connection, next try after {retry_in:?}")?;
                failures.iter().enumerate().try_for_each(|(at, failure)| {
                    write!(out, "{}{failure}", if at == 0 { ": " } else { "; " })
                })
            }
            Self::LocalDatacenterMissing { name, known }
            | Self::RemoteDatacenterMissing { name, known } => {
                write!(
                    out,
                    "no host is in datacenter {name:?}; there are {}",
                    List(known)
                )
            }
            Self::LocalRackMissing { name, known } => {
                write!(
                    out,
                    "no host is in rack {name:?}; there are {}",
                    List(known)
                )
            }
            Self::OtherCluster {
                address,
                name,
                expected,
            } => write!(
                out,
                "{address} belongs to cluster {name:?} and is not used: the session's is {expected:?}"
            ),
            Self::ShardsUnreadable { address } => write!(
                out,
                "{address} describes its shards in an unknown way and is used without them"
            ),
            Self::SourcePortIgnored {
                address,
                wanted,
                reached,
                pause,
            } => write!(
                out,
                "a source port for shard {} of {address} led to shard {}, as behind a translation of addresses (NAT); \
                 source ports are left alone for {pause:?}, and `pool.shard_aware_port` switches them off for good",
                wanted.0, reached.0
            ),
            Self::ShardsNotReached {
                address,
                missing,
                shards,
                retry_in,
            } => write!(
                out,
                "{missing} of {shards} shards of {address} have no connection; next try after {retry_in:?}"
            ),
            Self::Resharded {
                address,
                before,
                now,
            } => {
                write!(
                    out,
                    "{address} has {} shards now, {} before",
                    Count(*now),
                    Count(*before)
                )
            }
            Self::ColumnsContradicted { text } => write!(
                out,
                "a server announced new columns for the statement {text:?} and sent none; its answers cannot be read"
            ),
            Self::TimestampsAhead { ahead } => write!(
                out,
                "the timestamps of writes run {ahead:?} ahead of the clock; it was set back, or more than a million \
                 requests a second ask for timestamps"
            ),
            Self::HostsRefused { count } => {
                write!(
                    out,
                    "the cluster has {count} hosts more than a session can hold"
                )
            }
        }
    }
}

impl fmt::Display for ClusterEvent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HostAdded { host_id, address } => {
                write!(out, "host {host_id} at {address} joined the cluster")
            }
            Self::HostRemoved { host_id, address } => {
                write!(out, "host {host_id} at {address} left the cluster")
            }
            Self::HostUp { host_id, address } => {
                write!(out, "host {host_id} at {address} is connected")
            }
            Self::HostDown { host_id, address } => {
                write!(
                    out,
                    "host {host_id} at {address} has no connection any more"
                )
            }
            Self::SchemaChanged(change) => schema_changed(change, out),
            Self::Resynced => {
                out.write_str("events may have been missed, and everything was read again")
            }
        }
    }
}

fn schema_changed(change: &SchemaChange, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let keyspace = &change.keyspace;
    let verb = match change.change {
        SchemaChangeKind::Created => "created",
        SchemaChangeKind::Updated => "changed",
        SchemaChangeKind::Dropped => "dropped",
    };
    let what = match &change.target {
        SchemaTarget::Keyspace => return write!(out, "keyspace {keyspace} was {verb}"),
        SchemaTarget::Table { name } => ("table", name),
        SchemaTarget::Type { name } => ("type", name),
        SchemaTarget::Function { name, .. } => ("function", name),
        SchemaTarget::Aggregate { name, .. } => ("aggregate", name),
    };
    write!(out, "{} {keyspace}.{} was {verb}", what.0, what.1)
}

/// Shows an error with what caused it.
struct Chain<'a>(&'a dyn Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(out, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

/// Shows names.
struct List<'a>(&'a [Arc<str>]);

impl fmt::Display for List<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .enumerate()
            .try_for_each(|(at, name)| write!(out, "{}{name:?}", if at == 0 { "" } else { ", " }))
    }
}

/// Shows how many shards there are.
struct Count(Option<NonZeroU16>);

impl fmt::Display for Count {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(count) => count.fmt(out),
            None => out.write_str("no"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::conn::{Address, CloseReason};
    use crate::error::connect::{ConnectCause, ConnectError, ConnectPhase};
    use crate::error::session::{NodeCause, NodeFailure, NodeName};
    use crate::routing::Shard;

    fn address() -> Address {
        std::net::SocketAddr::from(([192, 0, 2, 1], 9042)).into()
    }

    #[test]
    fn a_note_is_one_sentence_that_names_the_server_and_every_cause() {
        let error = ConnectError {
            address: address(),
            phase: ConnectPhase::Auth,
            cause: ConnectCause::NoCredentials {
                authenticator: "PasswordAuthenticator".into(),
            },
        };
        let text = Note::ConnectFailed(Arc::new(error.clone())).to_string();
        assert!(
            text.contains("192.0.2.1:9042") && text.contains("PasswordAuthenticator"),
            "{text}"
        );
        let failure = NodeFailure {
            node: NodeName::ContactPoint("node1.example".into()),
            cause: NodeCause::Connect(error),
            retry_in: None,
        };
        let text = Note::NoControlConnection {
            failures: vec![failure.clone(), failure],
            retry_in: Duration::from_secs(2),
        }
        .to_string();
        assert_eq!(text.matches("PasswordAuthenticator").count(), 2, "{text}");
        assert!(text.contains("2s") && !text.ends_with('.'), "{text}");
        let text = Note::LocalDatacenterMissing {
            name: "dc9".into(),
            known: vec!["dc1".into(), "dc2".into()],
        }
        .to_string();
        assert_eq!(
            text,
            r#"no host is in datacenter "dc9"; there are "dc1", "dc2""#
        );
    }

    #[test]
    fn what_the_driver_ends_itself_is_less_urgent_than_what_breaks() {
        let ended = |error| {
            let address = address();
            Note::ConnectionLost { address, error }.severity()
        };
        assert_eq!(
            ended(ConnectionError::Closed(CloseReason::Aged)),
            Severity::Debug
        );
        assert_eq!(ended(ConnectionError::Eof), Severity::Warning);
        let nobody = Note::NoControlConnection {
            failures: Vec::new(),
            retry_in: Duration::ZERO,
        };
        assert_eq!(nobody.severity(), Severity::Error);
        assert!(Severity::Debug < Severity::Info && Severity::Warning < Severity::Error);
    }

    #[test]
    fn a_note_on_translated_ports_names_the_setting_that_ends_it() {
        let text = Note::SourcePortIgnored {
            address: address(),
            wanted: Shard(1),
            reached: Shard(3),
            pause: Duration::from_secs(300),
        }
        .to_string();
        assert!(
            text.contains("NAT") && text.contains("pool.shard_aware_port"),
            "{text}"
        );
    }

    #[test]
    fn an_event_reads_as_what_happened() {
        let change = SchemaChange {
            change: SchemaChangeKind::Updated,
            target: SchemaTarget::Table { name: "t".into() },
            keyspace: "ks".into(),
        };
        assert_eq!(
            ClusterEvent::SchemaChanged(change).to_string(),
            "table ks.t was changed"
        );
    }
}
