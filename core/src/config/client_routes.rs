//! Owns the settings of client routes: private endpoints, by connection id, through which nodes are reached.
//! Leaves out reading the routes and following them.

use std::sync::Arc;

use super::session::split;
use crate::error::session::{ClientRoutesProblem, ConfigError};

/// Says through which private endpoints the nodes of a cluster are reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientRoutes {
    /// The endpoints, at least one; one that is listed twice counts once.
    pub endpoints: Vec<ClientRouteEndpoint>,
    /// Whether the client's own port may choose the shard behind an endpoint. Default: no, because an endpoint that
    /// changes ports would lead astray. Without effect where [`ShardAwarePort::Never`] is set.
    ///
    /// [`ShardAwarePort::Never`]: super::pool::ShardAwarePort::Never
    pub shard_awareness: bool,
    /// The table that the routes are read from, for tests. Default: `system.client_routes`.
    pub table: Arc<str>,
}

/// Is one private endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClientRouteEndpoint {
    /// The connection id, compared byte for byte.
    pub connection_id: Arc<str>,
    /// The name or IP address to use instead of the ones that the server tells, without a port; unset or empty, none.
    pub address: Option<Arc<str>>,
}

impl ClientRoutes {
    /// Makes the settings for these endpoints, with the defaults for everything else.
    #[must_use]
    pub fn new(endpoints: Vec<ClientRouteEndpoint>) -> Self {
        Self {
            endpoints,
            shard_awareness: false,
            table: TABLE.into(),
        }
    }

    /// Checks the endpoints in order; what is wrong first is the error.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        self.problem()
            .map_or(Ok(()), |problem| Err(ConfigError::ClientRoutes(problem)))
    }

    fn problem(&self) -> Option<ClientRoutesProblem> {
        if self.endpoints.is_empty() {
            return Some(ClientRoutesProblem::NoEndpoint);
        }
        if self.table.trim().is_empty() {
            return Some(ClientRoutesProblem::NoTable);
        }
        let mut endpoints = self.endpoints.iter().enumerate();
        endpoints.find_map(|(index, endpoint)| {
            if endpoint.connection_id.trim().is_empty() {
                return Some(ClientRoutesProblem::NoConnectionId { index });
            }
            if let Some(address) = endpoint.address() {
                match split(address) {
                    Ok((_, None)) => (),
                    Ok((_, Some(_))) => {
                        let address = Arc::clone(address);
                        return Some(ClientRoutesProblem::Port { index, address });
                    }
                    Err(_) => {
                        let address = Arc::clone(address);
                        return Some(ClientRoutesProblem::Address { index, address });
                    }
                }
            }
            let before = self.endpoints.get(..index).unwrap_or_default();
            let differs = |other: &&ClientRouteEndpoint| {
                other.connection_id == endpoint.connection_id
                    && other.address() != endpoint.address()
            };
            before
                .iter()
                .find(differs)
                .map(|other| ClientRoutesProblem::Duplicate {
                    id: Arc::clone(&other.connection_id),
                })
        })
    }
}

impl ClientRouteEndpoint {
    /// Makes an endpoint that is reached at the addresses that the server tells.
    #[must_use]
    pub fn new(connection_id: impl Into<Arc<str>>) -> Self {
        Self {
            connection_id: connection_id.into(),
            address: None,
        }
    }

    /// Uses this name or IP address, without a port, instead of the ones that the server tells.
    #[must_use]
    pub fn at(mut self, address: impl Into<Arc<str>>) -> Self {
        self.address = Some(address.into());
        self
    }

    /// Returns the address to use instead of the ones that the server tells, if there is one.
    fn address(&self) -> Option<&Arc<str>> {
        self.address.as_ref().filter(|address| !address.is_empty())
    }
}

const TABLE: &str = "system.client_routes";

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(endpoints: &[(&str, Option<&str>)]) -> Option<ClientRoutesProblem> {
        let endpoints = endpoints.iter().map(|(id, address)| ClientRouteEndpoint {
            connection_id: (*id).into(),
            address: address.map(Into::into),
        });
        match ClientRoutes::new(endpoints.collect()).check() {
            Err(ConfigError::ClientRoutes(problem)) => Some(problem),
            Err(other) => panic!("another kind of error: {other}"),
            Ok(()) => None,
        }
    }

    #[test]
    fn routes_need_an_endpoint_and_each_endpoint_a_connection_id() {
        assert_eq!(problem(&[]), Some(ClientRoutesProblem::NoEndpoint));
        for blank in ["", "  "] {
            assert_eq!(
                problem(&[("a", None), (blank, None)]),
                Some(ClientRoutesProblem::NoConnectionId { index: 1 })
            );
        }
        assert_eq!(problem(&[(" a ", None)]), None);
        let mut routes = ClientRoutes::new(vec![ClientRouteEndpoint::new("a")]);
        routes.table = "".into();
        assert!(routes.check().is_err());
    }

    #[test]
    fn an_endpoint_has_a_name_or_an_ip_address_and_no_port() {
        for usable in [
            "ep.example",
            "192.0.2.7",
            "2001:db8::7",
            "[2001:db8::7]",
            "",
        ] {
            assert_eq!(problem(&[("a", Some(usable))]), None, "{usable}");
        }
        for ported in ["ep:9142", "ep:", "[::1]:9142", "192.0.2.7:9042"] {
            let address = ported.into();
            assert_eq!(
                problem(&[("a", Some(ported))]),
                Some(ClientRoutesProblem::Port { index: 0, address })
            );
        }
        let long = "a".repeat(254);
        for neither in [
            " ",
            "a b",
            "a/b",
            "user@host",
            "[ep]",
            "1.2.3",
            "192.0.2.256",
            &long,
        ] {
            let address = neither.into();
            assert_eq!(
                problem(&[("a", Some(neither))]),
                Some(ClientRoutesProblem::Address { index: 0, address })
            );
        }
    }

    #[test]
    fn a_connection_id_may_be_repeated_only_with_the_same_address() {
        assert_eq!(problem(&[("a", None), ("a", Some(""))]), None);
        assert_eq!(
            problem(&[("a", Some("x")), ("b", None), ("a", Some("x"))]),
            None
        );
        assert_eq!(
            problem(&[("a", Some("x")), ("a", Some("y"))]),
            Some(ClientRoutesProblem::Duplicate { id: "a".into() })
        );
    }
}
