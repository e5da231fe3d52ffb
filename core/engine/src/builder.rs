//! Collects the settings of a session and starts its tasks.

use std::sync::atomic::{AtomicI64, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use messina_core::cluster::ControlPlane;
use messina_core::config::pool::PoolSize;
use messina_core::config::profile::ExecutionProfile;
use messina_core::config::session::{ContactPoint, ReadinessRule, SessionConfig};
#[cfg(feature = "rustls-023")]
use messina_core::conn::tls::TlsPlan;
use messina_core::error::session::{ConfigError, SessionError, SessionErrorKind};
use messina_core::exec::cache::StatementCache;
use messina_core::exec::preparing::PrepareOn;
use messina_core::policy::address::AddressTranslator;
use messina_core::policy::auth::{Credentials, PlainCredentials};
use messina_core::policy::host_filter::HostFilter;
use messina_core::policy::load_balancing::LoadBalancingPolicy;
use messina_core::wire::{Compression, ProtocolVersion};

use crate::conn_task::Settings;
use crate::control_task::ControlTask;
use crate::mailbox::Mailbox;
use crate::metrics::Counters;
use crate::notes::Notes;
use crate::published::Published;
use crate::runtime::Runtime;
use crate::session::{Session, Shared};
use crate::wall_clock::WallClock;

/// Collects the settings of a session.
///
/// What is not set keeps its default; everything that has no method here is reached by [`config`](Self::config).
#[derive(Debug)]
#[must_use = "a session starts with `build`"]
pub struct SessionBuilder<R: Runtime> {
    runtime: Option<R>,
    config: SessionConfig,
    coalesce: bool,
    /// The first setting that could not be read.
    error: Option<ConfigError>,
}

impl<R: Runtime> SessionBuilder<R> {
    pub(crate) fn new(runtime: Option<R>) -> Self {
        Self {
            runtime,
            config: SessionConfig::default(),
            coalesce: true,
            error: None,
        }
    }

    /// Adds a place to look for the cluster: `host`, `host:port` or `[v6]:port`. The default port is 9042.
    pub fn contact_point(mut self, address: impl AsRef<str>) -> Self {
        match address.as_ref().parse::<ContactPoint>() {
            Ok(point) => self.config.contact_points.push(point),
            Err(error) => self.error = self.error.or(Some(error)),
        }
        self
    }

    /// Adds several places to look for the cluster.
    pub fn contact_points<I>(self, addresses: I) -> Self
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        addresses
            .into_iter()
            .fold(self, |builder, address| builder.contact_point(address))
    }

    /// Prefers the nodes of this datacenter; otherwise that of the first node that answers.
    pub fn local_datacenter(mut self, name: impl Into<Arc<str>>) -> Self {
        self.config.local_datacenter = Some(name.into());
        self
    }

    /// Prefers the nodes of this rack among those of the local datacenter. By default all racks are alike; a rack is
    /// taken from the cluster with [`Inference::rack`](messina_core::config::session::Inference::rack).
    pub fn local_rack(mut self, name: impl Into<Arc<str>>) -> Self {
        self.config.local_rack = Some(name.into());
        self
    }

    /// Logs in with this name and password.
    pub fn credentials(self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.credentials_from(Arc::new(PlainCredentials::new(user, password)))
    }

    /// Logs in with what `source` gives, asked once for each connection.
    pub fn credentials_from(mut self, source: Arc<dyn Credentials>) -> Self {
        self.config.credentials = Some(source);
        self
    }

    /// Uses this keyspace for unqualified names; given by its exact name, without quotes.
    pub fn keyspace(mut self, name: impl Into<Arc<str>>) -> Self {
        self.config.keyspace = Some(name.into());
        self
    }

    /// Tells the server the name and the version of the application; what is empty is not told. Each may have 65,535
    /// bytes.
    pub fn application(mut self, name: impl Into<String>, version: impl Into<String>) -> Self {
        self.config.application.name = Some(name.into());
        self.config.application.version = Some(version.into());
        self
    }

    /// Tells the server which instance of the application this is, in at most 65,535 bytes.
    pub fn client_id(mut self, id: impl Into<String>) -> Self {
        self.config.application.client_id = Some(id.into());
        self
    }

    /// Says whether the control connection shows the server how the session is configured. Default: yes. Secrets and
    /// names of users, hosts and keyspaces are never shown; see [`Session::driver_config`].
    pub fn driver_config_reporting(mut self, report: bool) -> Self {
        self.config.driver_config_reporting = report;
        self
    }

    /// Encrypts all connections as planned; see [`tls::plan`](crate::tls::plan) for making a plan.
    #[cfg(feature = "rustls-023")]
    pub fn tls(mut self, plan: TlsPlan) -> Self {
        self.config.encryption = plan.into();
        self
    }

    /// Compresses what is worth it, in both directions, with servers that offer it; off by default.
    pub fn compression(mut self, compression: Compression) -> Self {
        self.config.connection.compression = Some(compression);
        self
    }

    /// Speaks this version of the protocol with all servers. By default the newest that the first one knows is found.
    pub fn protocol_version(mut self, version: ProtocolVersion) -> Self {
        self.config.connection.version = Some(version);
        self
    }

    /// Chooses the nodes for requests with this policy, and opens connections to those that it reaches.
    pub fn load_balancing(mut self, policy: impl LoadBalancingPolicy + 'static) -> Self {
        self.config.profile.load_balancing = Arc::new(policy);
        self
    }

    /// Connects only to the nodes that this filter allows; the others stay members of the cluster.
    pub fn host_filter(mut self, filter: impl HostFilter + 'static) -> Self {
        self.config.host_filter = Some(Arc::new(filter));
        self
    }

    /// Dials what this translator makes of the address that a node gives to clients. Contact points are dialled as
    /// they are.
    pub fn address_translator(mut self, translator: impl AddressTranslator + 'static) -> Self {
        self.config.address_translator = Some(Arc::new(translator));
        self
    }

    /// Sets the defaults of all requests.
    pub fn profile(mut self, profile: impl Into<Arc<ExecutionProfile>>) -> Self {
        self.config.profile = Arc::unwrap_or_clone(profile.into());
        self
    }

    /// Says on which nodes a statement is prepared before it is used. Default: on all.
    pub fn prepare_on(mut self, on: PrepareOn) -> Self {
        self.config.prepare_on = on;
        self
    }

    /// Remembers up to so many statements for [`Session::prepare_cached`]; zero remembers none. Default: 1,000.
    pub fn statements_cached(mut self, statements_max: usize) -> Self {
        self.config.statements_cached_max = statements_max;
        self
    }

    /// Says what must be connected before `build` returns.
    pub fn ready(mut self, rule: ReadinessRule) -> Self {
        self.config.ready = rule;
        self
    }

    /// Limits how long `build` may take.
    pub fn readiness_timeout(mut self, timeout: Duration) -> Self {
        self.config.readiness_timeout = timeout;
        self
    }

    /// Limits how long a statement that changes the schema waits until all nodes have followed; zero does not wait.
    /// Default: 60 s.
    pub fn agreement_timeout(mut self, timeout: Duration) -> Self {
        self.config.agreement_timeout = timeout;
        self
    }

    /// Says whether a small batch of requests waits one poll of its connection's task for company. Default: yes.
    pub fn coalesce(mut self, coalesce: bool) -> Self {
        self.coalesce = coalesce;
        self
    }

    /// Changes any other setting.
    pub fn config(mut self, change: impl FnOnce(&mut SessionConfig)) -> Self {
        change(&mut self.config);
        self
    }

    /// Connects to the cluster.
    ///
    /// Dropping the returned future before it is done closes what was opened.
    ///
    /// # Errors
    /// A setting cannot be used, there is no runtime or it lacks what a session needs, or the cluster cannot be reached in time.
    pub async fn build(self) -> Result<Session<R>, SessionError> {
        if let Some(error) = self.error {
            return Err(error.into());
        }
        self.config.check()?;
        let no_runtime = |error: std::io::Error| {
            SessionError::new(SessionErrorKind::Runtime(error.into()), Vec::new())
        };
        let runtime = self
            .runtime
            .map_or_else(R::current, Ok)
            .and_then(|runtime| runtime.check().map(|()| runtime))
            .map_err(no_runtime)?;
        let mut random = runtime.entropy().random();
        let mut config = self.config;
        if config.session_id.is_nil() {
            config.session_id = random.uuid();
        }
        let profile = Arc::new(config.profile.clone());
        let config = Arc::new(config);
        let counters = Arc::new(Counters::default());
        let (published, notes, mailbox) = (
            Arc::new(Published::new()),
            Arc::new(Notes::new(Arc::clone(&counters))),
            Arc::new(Mailbox::new(matches!(
                config.pool.size,
                PoolSize::OnDemand { .. }
            ))),
        );
        let plane = ControlPlane::new(runtime.now(), Arc::clone(&config), random.seed());
        let streams_max = u32::from(config.limits.in_flight_effective());
        let settings = Settings {
            coalesce: self.coalesce,
            streams_max,
            in_flight_max: config.limits.requests_effective(),
        };
        let task = ControlTask::new(
            runtime.clone(),
            plane,
            Arc::clone(&mailbox),
            Arc::clone(&published),
            Arc::clone(&notes),
            Arc::clone(&counters),
            settings,
        );
        let statements = StatementCache::new(config.statements_cached_max);
        runtime.spawn(task);
        let session = Session::of(Shared {
            clock: WallClock::new(&runtime),
            runtime,
            config,
            profile,
            published,
            mailbox,
            notes,
            counters,
            statements: Mutex::new(statements),
            drift: Mutex::default(),
            seed: random.next_u64(),
            requests: AtomicU64::new(0),
            last_timestamp: AtomicI64::new(0),
        });
        session.ready().await?;
        Ok(session)
    }
}
