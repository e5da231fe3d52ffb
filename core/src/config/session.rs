//! Owns the settings of a whole session, and contact points.
//! Settings of connections, pools, limits and requests are in their own modules.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::client_routes::ClientRoutes;
use super::connection::ConnectionConfig;
use super::encryption::Encryption;
pub use super::identity::{ApplicationInfo, DriverInfo};
use super::limits::Limits;
use super::pool::PoolConfig;
use super::profile::ExecutionProfile;
use crate::error::session::{ConfigError, ContactPointProblem};
use crate::exec::preparing::PrepareOn;
use crate::policy::address::AddressTranslator;
use crate::policy::auth::Credentials;
use crate::policy::host_filter::HostFilter;
use crate::policy::reconnect::ReconnectPolicy;
use crate::seed::Random;

/// The settings of a session.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// Where the cluster is looked for: at start, and again when no known host answers any more.
    pub contact_points: Vec<ContactPoint>,
    /// The datacenter to prefer; unset, that of the first contact point that answers, unless [`Inference::datacenter`]
    /// is off: then all are alike.
    pub local_datacenter: Option<Arc<str>>,
    /// The rack to prefer inside of the local datacenter; unset, none unless [`Inference::rack`] asks for one.
    pub local_rack: Option<Arc<str>>,
    /// What of both is taken from the cluster where it is not configured.
    pub inference: Inference,
    /// The login, read once for each connection.
    pub credentials: Option<Arc<dyn Credentials>>,
    /// The server-side authenticator classes that may see the login; unset, any.
    pub authenticators_allowed: Option<Vec<String>>,
    /// The keyspace of unqualified names, in exact case.
    pub keyspace: Option<Arc<str>>,
    /// The identity that every connection of this session tells the server.
    pub session_id: Uuid,
    /// What the application tells of itself.
    pub application: ApplicationInfo,
    /// What the driver tells of itself.
    pub driver: DriverInfo,
    /// Whether the control connection shows the server how the driver is configured; see
    /// [`driver_config`](crate::report::driver_config). Default: yes.
    pub driver_config_reporting: bool,
    /// The settings of each connection.
    pub connection: ConnectionConfig,
    /// Whether connections are encrypted, and how.
    pub encryption: Encryption,
    /// The bounds on memory and work.
    pub limits: Limits,
    /// The settings of the pools.
    pub pool: PoolConfig,
    /// The delays between attempts to connect to a host.
    pub reconnect: ReconnectPolicy,
    /// The defaults of requests.
    pub profile: ExecutionProfile,
    /// Which hosts may be connected to; unset, all.
    pub host_filter: Option<Arc<dyn HostFilter>>,
    /// How the hosts' own addresses are turned into those to dial; unset, they are dialled as they are.
    pub address_translator: Option<Arc<dyn AddressTranslator>>,
    /// On which nodes a statement is prepared before it is used. Default: on all.
    pub prepare_on: PrepareOn,
    /// How many statements a session remembers by their text; zero remembers none. Default: 1,000.
    pub statements_cached_max: usize,
    /// The routes that lead to nodes behind private endpoints. They are checked and reported, and not followed yet.
    pub client_routes: Option<ClientRoutes>,
    /// How long a statement that changes the schema waits until all nodes have followed; zero does not wait. Default:
    /// 60 s, long enough for a large cluster that is busy.
    pub agreement_timeout: Duration,
    /// How long a read of the system tables may take; unset, as long as the connection lives.
    pub metadata_timeout: Option<Duration>,
    /// How long changes are collected before the system tables are read again.
    pub refresh: RefreshConfig,
    /// What must be connected before the session counts as ready.
    pub ready: ReadinessRule,
    /// How long the session may take to become ready.
    pub readiness_timeout: Duration,
}

impl SessionConfig {
    /// Makes the default settings with a session id of its own.
    #[must_use]
    pub fn new(random: &mut Random) -> Self {
        Self {
            session_id: random.uuid(),
            ..Self::default()
        }
    }

    /// Checks what can be checked before anything is dialled.
    ///
    /// # Errors
    /// There is no contact point, or a setting makes no sense.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.contact_points.is_empty() {
            return Err(ConfigError::NoContactPoint);
        }
        if let Some(point) = self.contact_points.iter().find(|point| point.port == 0) {
            return Err(ConfigError::ContactPoint {
                text: point.to_string(),
                problem: ContactPointProblem::Port,
            });
        }
        if let Some(name) = &self.keyspace {
            check_keyspace(name)?;
        }
        let has_datacenter = self.local_datacenter.is_some() || self.inference.datacenter;
        if !has_datacenter && (self.local_rack.is_some() || self.inference.rack) {
            return Err(ConfigError::RackWithoutDatacenter);
        }
        self.application.check()?;
        self.driver.check()?;
        self.connection.check()?;
        self.limits.check()?;
        self.pool.check()?;
        self.reconnect.check()?;
        self.profile.check()?;
        if let Some(routes) = &self.client_routes {
            if self.address_translator.is_some() {
                return Err(ConfigError::TranslatorAndRoutes);
            }
            routes.check()?;
        }
        ConfigError::if_zero(self.readiness_timeout.is_zero(), "readiness_timeout")?;
        let is_zero = self.metadata_timeout == Some(Duration::ZERO);
        ConfigError::if_zero(is_zero, "metadata_timeout")
    }
}

impl SessionConfig {
    /// Says whether connections are meant to use the port where the client's own port chooses the shard, whatever the
    /// servers offer. Behind client routes they do only if the routes say so.
    #[must_use]
    pub fn uses_shard_aware_port(&self) -> bool {
        let routed = self.client_routes.as_ref();
        self.pool.uses_shard_aware_port() && routed.is_none_or(|routes| routes.shard_awareness)
    }

    /// Says whether connections are encrypted, and so which of a server's ports can be dialled.
    #[must_use]
    pub const fn uses_tls(&self) -> bool {
        self.encryption.is_on()
    }
}

/// Checks the name of a keyspace as the servers do: 1 to 48 letters, digits and underscores.
///
/// # Errors
/// The name is empty, too long or has another character.
pub fn check_keyspace(name: &str) -> Result<(), ConfigError> {
    let fits = !name.is_empty() && name.len() <= KEYSPACE_LEN_MAX;
    if fits
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    {
        return Ok(());
    }
    Err(ConfigError::Keyspace { name: name.into() })
}

impl Default for SessionConfig {
    /// The defaults, with a session id of zeros: give it one with [`SessionConfig::new`].
    fn default() -> Self {
        Self {
            contact_points: Vec::new(),
            local_datacenter: None,
            local_rack: None,
            inference: Inference::default(),
            credentials: None,
            authenticators_allowed: None,
            keyspace: None,
            session_id: Uuid::nil(),
            application: ApplicationInfo::default(),
            driver: DriverInfo::default(),
            driver_config_reporting: true,
            connection: ConnectionConfig::default(),
            encryption: Encryption::none(),
            limits: Limits::default(),
            pool: PoolConfig::default(),
            reconnect: ReconnectPolicy::default(),
            profile: ExecutionProfile::default(),
            host_filter: None,
            address_translator: None,
            prepare_on: PrepareOn::default(),
            statements_cached_max: STATEMENTS_CACHED,
            client_routes: None,
            agreement_timeout: AGREEMENT_TIMEOUT,
            metadata_timeout: Some(METADATA_TIMEOUT),
            refresh: RefreshConfig::default(),
            ready: ReadinessRule::default(),
            readiness_timeout: READINESS_TIMEOUT,
        }
    }
}

/// What of the place to prefer is taken from the cluster, where it is not configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Inference {
    /// Takes the datacenter of the first contact point that answers. Default: yes.
    pub datacenter: bool,
    /// Takes the rack of the first node of the local datacenter that the control connection leads to. Default: no,
    /// because every application that names the same contact point first would load the same rack.
    pub rack: bool,
}

impl Default for Inference {
    fn default() -> Self {
        Self {
            datacenter: true,
            rack: false,
        }
    }
}

/// How long changes that servers tell of are collected before the smallest read that covers them.
///
/// [`Duration::MAX`] leaves such news alone: nothing is read because of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefreshConfig {
    /// The longest wait after a change of the members.
    pub topology_delay_max: Duration,
    /// The longest wait after a change of a host's health.
    pub status_delay_max: Duration,
    /// The longest wait after a change of the schema.
    pub schema_delay_max: Duration,
}

impl Default for RefreshConfig {
    /// One second each: a new node's row may come a little late, and a cluster's sessions should not ask in step.
    fn default() -> Self {
        let second = Duration::from_secs(1);
        Self {
            topology_delay_max: second,
            status_delay_max: second,
            schema_delay_max: second,
        }
    }
}

/// What must be connected before a session counts as ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReadinessRule {
    /// The control connection alone.
    ControlConnection,
    /// One connection for requests.
    #[default]
    OneHost,
    /// A connection to more than half of the preferred hosts.
    Quorum,
    /// Each preferred host connected or tried and failed.
    AllTried,
    /// Each shard of each preferred host connected, hosts that were tried and failed aside.
    EveryShard,
}

/// A place to look for the cluster: a host name or an IP address, with a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ContactPoint {
    /// A host name or an IP address without brackets.
    pub host: Arc<str>,
    /// The port.
    pub port: u16,
}

/// How many statements are remembered: more than most programs have, at a few kilobytes each.
const STATEMENTS_CACHED: usize = 1_000;

/// The port that the CQL protocol is assigned.
pub const DEFAULT_PORT: u16 = 9042;

impl fmt::Display for ContactPoint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(out, "[{}]:{}", self.host, self.port)
        } else {
            write!(out, "{}:{}", self.host, self.port)
        }
    }
}

impl FromStr for ContactPoint {
    type Err = ConfigError;

    /// Reads `host`, `host:port`, `[v6]`, `[v6]:port`, or a bare IPv6 address, which never carries a port.
    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let refuse = |problem| ConfigError::ContactPoint {
            text: text.into(),
            problem,
        };
        let (host, port) = split(text).map_err(refuse)?;
        let port = match port {
            None => DEFAULT_PORT,
            Some(digits) => port_of(digits).ok_or_else(|| refuse(ContactPointProblem::Port))?,
        };
        Ok(Self {
            host: host.into(),
            port,
        })
    }
}

impl From<std::net::SocketAddr> for ContactPoint {
    fn from(address: std::net::SocketAddr) -> Self {
        Self {
            host: address.ip().to_string().into(),
            port: address.port(),
        }
    }
}

/// Splits the host, a name or an address, from a port if there is one; the host is checked, the port is not.
pub(super) fn split(text: &str) -> Result<(&str, Option<&str>), ContactPointProblem> {
    if let Some(bracketed) = text.strip_prefix('[') {
        let (host, rest) = bracketed
            .split_once(']')
            .ok_or(ContactPointProblem::Bracket)?;
        if !is_v6(host) {
            return Err(ContactPointProblem::Address);
        }
        return match rest.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if rest.is_empty() => Ok((host, None)),
            None => Err(ContactPointProblem::Trailing),
        };
    }
    match text.split_once(':') {
        // Whatever follows the last colon of an IPv6 address is part of it, so it has the default port.
        Some((_, rest)) if rest.contains(':') => match is_v6(text) {
            true => Ok((text, None)),
            false => Err(ContactPointProblem::Address),
        },
        Some((host, port)) => check_name(host).map(|()| (host, Some(port))),
        None => check_name(text).map(|()| (text, None)),
    }
}

/// Says whether the text is an IPv6 address, with or without a zone.
fn is_v6(text: &str) -> bool {
    let (address, zone) = text
        .split_once('%')
        .map_or((text, None), |(address, zone)| (address, Some(zone)));
    let plain = |zone: &str| {
        !zone.is_empty()
            && zone
                .chars()
                .all(|c| c.is_ascii_graphic() && !"%/[]:".contains(c))
    };
    address.parse::<Ipv6Addr>().is_ok() && zone.is_none_or(plain)
}

fn check_name(name: &str) -> Result<(), ContactPointProblem> {
    if name.is_empty() {
        return Err(ContactPointProblem::Empty);
    }
    if name.len() <= HOST_LEN_MAX
        && name
            .chars()
            .all(|c| c.is_alphanumeric() || "-._".contains(c))
    {
        // A name of digits and dots is a mistyped address, not a name to ask the resolver for.
        let numeric = name.chars().all(|c| c.is_ascii_digit() || c == '.');
        return if numeric && name.parse::<IpAddr>().is_err() {
            Err(ContactPointProblem::Address)
        } else {
            Ok(())
        };
    }
    Err(ContactPointProblem::Address)
}

fn port_of(digits: &str) -> Option<u16> {
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain
        .then(|| digits.parse().ok())
        .flatten()
        .filter(|port| *port != 0)
}

/// The longest name that DNS allows.
const HOST_LEN_MAX: usize = 253;
/// The longest keyspace name that servers accept.
const KEYSPACE_LEN_MAX: usize = 48;
/// A read of the system tables is small; one that takes longer than this is stuck.
const METADATA_TIMEOUT: Duration = Duration::from_secs(10);
/// Large enough for a large cluster that is busy.
const AGREEMENT_TIMEOUT: Duration = Duration::from_secs(60);
/// Long enough for a few addresses that do not answer, short enough for a program's start to fail visibly.
const READINESS_TIMEOUT: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<(String, u16), ContactPointProblem> {
        match text.parse::<ContactPoint>() {
            Ok(point) => Ok((point.host.to_string(), point.port)),
            Err(ConfigError::ContactPoint { problem, .. }) => Err(problem),
            Err(other) => panic!("another kind of error: {other}"),
        }
    }

    #[test]
    fn names_and_addresses_are_read_with_and_without_a_port() {
        for (text, host, port) in [
            ("node1.example", "node1.example", 9042),
            ("node1.example:9142", "node1.example", 9142),
            ("my_node-1", "my_node-1", 9042),
            ("192.0.2.1", "192.0.2.1", 9042),
            ("192.0.2.1:9142", "192.0.2.1", 9142),
            ("[::1]", "::1", 9042),
            ("[2001:db8::1]:9142", "2001:db8::1", 9142),
            ("fe80::1%eth0", "fe80::1%eth0", 9042),
            ("[fe80::1%eth0]:9142", "fe80::1%eth0", 9142),
        ] {
            assert_eq!(parse(text), Ok((host.into(), port)), "{text}");
        }
    }

    #[test]
    fn a_bare_v6_address_never_carries_a_port() {
        assert_eq!(parse("2001:db8::1"), Ok(("2001:db8::1".into(), 9042)));
        assert_eq!(
            parse("2001:db8::1:9142"),
            Ok(("2001:db8::1:9142".into(), 9042))
        );
    }

    #[test]
    fn malformed_contact_points_are_refused_with_their_reason() {
        for (text, problem) in [
            ("", ContactPointProblem::Empty),
            (":9042", ContactPointProblem::Empty),
            ("[2001:db8::1", ContactPointProblem::Bracket),
            ("[node1]:9042", ContactPointProblem::Address),
            ("[]", ContactPointProblem::Address),
            ("[::1]9042", ContactPointProblem::Trailing),
            ("host:", ContactPointProblem::Port),
            ("host:0", ContactPointProblem::Port),
            ("host:65536", ContactPointProblem::Port),
            ("host:+9042", ContactPointProblem::Port),
            ("host:90 42", ContactPointProblem::Port),
            ("host:90:42", ContactPointProblem::Address),
            ("ho st", ContactPointProblem::Address),
            ("cql://host", ContactPointProblem::Port),
            ("host/path", ContactPointProblem::Address),
            ("192.0.2.256", ContactPointProblem::Address),
            ("fe80::1%", ContactPointProblem::Address),
        ] {
            assert_eq!(parse(text), Err(problem), "{text}");
        }
    }

    #[test]
    fn a_contact_point_reads_back_what_it_shows() {
        for text in [
            "node1.example:9142",
            "[2001:db8::1]:9042",
            "[fe80::1%eth0]:1",
        ] {
            let point: ContactPoint = text.parse().expect("well formed");
            assert_eq!(point.to_string(), text);
        }
    }

    #[test]
    fn settings_without_a_contact_point_are_refused() {
        assert!(matches!(
            SessionConfig::default().check(),
            Err(ConfigError::NoContactPoint)
        ));
    }

    #[test]
    fn settings_that_would_make_everything_fail_are_refused_by_name() {
        use crate::policy::reconnect::ReconnectPolicy;

        type Change = fn(&mut SessionConfig);
        const ZERO: Duration = Duration::ZERO;
        const SECOND: Duration = Duration::from_secs(1);
        let refused = |change: Change| {
            let mut config = SessionConfig {
                contact_points: vec!["node1.example".parse().expect("a contact point")],
                ..SessionConfig::default()
            };
            config.check().expect("the defaults are fine");
            change(&mut config);
            config.check().expect_err("it is refused").to_string()
        };
        let changes: [(&str, Change); 13] = [
            ("connection.connect_timeout", |config| {
                config.connection.connect_timeout = ZERO
            }),
            ("connection.handshake_timeout", |config| {
                config.connection.handshake_timeout = ZERO
            }),
            ("connection.keepalive_timeout", |config| {
                config.connection.keepalive_timeout = ZERO
            }),
            ("limits.frame_bytes_max", |config| {
                config.limits.frame_bytes_max = 0
            }),
            ("limits.in_flight_max", |config| {
                config.limits.in_flight_max = 0
            }),
            ("metadata_timeout", |config| {
                config.metadata_timeout = Some(ZERO)
            }),
            ("readiness_timeout", |config| {
                config.readiness_timeout = ZERO
            }),
            ("profile.request_timeout", |config| {
                config.profile.request_timeout = Some(ZERO)
            }),
            ("profile.attempt_timeout", |config| {
                config.profile.attempt_timeout = Some(ZERO)
            }),
            ("reconnect.base", |config| {
                config.reconnect = ReconnectPolicy::Exponential {
                    base: ZERO,
                    max: SECOND,
                };
            }),
            ("reconnect.base must not be above reconnect.max", |config| {
                config.reconnect = ReconnectPolicy::Exponential {
                    base: Duration::from_secs(2),
                    max: SECOND,
                };
            }),
            ("reconnect.delay", |config| {
                config.reconnect = ReconnectPolicy::Constant { delay: ZERO };
            }),
            ("node1.example:0", |config| {
                config.contact_points[0].port = 0
            }),
        ];
        for (name, change) in changes {
            let text = refused(change);
            assert!(text.contains(name), "{name}: {text}");
        }
    }

    #[test]
    fn a_keyspace_name_that_no_server_accepts_is_refused() {
        assert!(check_keyspace("MyKs_1").is_ok());
        for name in ["", "a\"b", "a b", "k;", &"k".repeat(49)] {
            assert!(
                matches!(check_keyspace(name), Err(ConfigError::Keyspace { .. })),
                "{name}"
            );
        }
    }

    #[cfg(feature = "ring")]
    #[test]
    fn a_plan_for_encryption_chooses_the_encrypted_ports() {
        use crate::conn::tls::TlsPlan;

        let time = Arc::new(rustls::time_provider::DefaultTimeProvider);
        let plan = TlsPlan::builder(time)
            .dangerous_accept_any_certificate()
            .build()
            .expect("a provider is built in");
        let mut config = SessionConfig::default();
        assert!(!config.uses_tls());
        config.encryption = plan.into();
        assert!(config.uses_tls());
    }
}
