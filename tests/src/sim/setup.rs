//! What a seed decides before a run begins: the cluster, the settings of the session, the size of the workload.
//! What goes wrong during the run is the matter of `faults`.

use std::num::NonZeroU16;
use std::time::Duration;

use messina_core::config::pool::{PoolConfig, PoolSize, ShardAwarePort};
use messina_core::config::profile::ExecutionProfile;
use messina_core::config::session::{ContactPoint, ReadinessRule, SessionConfig};
use messina_core::policy::reconnect::ReconnectPolicy;
use messina_core::policy::speculative::SpeculativePolicy;
use messina_core::seed::Random;
use messina_core::wire::Compression;

use super::checks::Bounds;
use super::faults::Shape;
use crate::ClusterConfig;

/// Everything that is decided before the start.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) cluster: ClusterConfig,
    pub(super) session: SessionConfig,
    pub(super) profile: ExecutionProfile,
    pub(super) agreement: Duration,
    pub(super) coalesce: bool,
    pub(super) shape: Shape,
    pub(super) bounds: Bounds,
    pub(super) workers: u64,
    pub(super) pause_ms: u64,
    pub(super) shuffled: bool,
    /// Whether the network translates source ports from start to end.
    pub(super) translated: bool,
    /// How many of a hundred source ports other programs hold from start to end.
    pub(super) busy_percent: u64,
    pub(super) void_swallows: bool,
    /// Whether faults begin before the session does.
    pub(super) early_faults: bool,
    /// Whether the session is dropped instead of closed.
    pub(super) dropped: bool,
    pub(super) replication: usize,
    /// Whether the contact point is the cluster's name.
    pub(super) known_by_name: bool,
}

/// The name that stands for the whole cluster.
pub(super) const CLUSTER_NAME: &str = "cluster.sim";

impl Setup {
    pub(super) fn draw(random: &mut Random, faults: bool) -> Self {
        let nodes = 1 + random.index(5);
        let shards = u16::try_from(random.below(5)).unwrap_or(1);
        let cluster = ClusterConfig {
            datacenters: vec![("dc1".to_owned(), nodes)],
            racks: 1 + random.index(3),
            shards,
            tokens_per_node: 1 + random.index(6),
            shard_aware_port: (random.below(3) != 0).then_some(19_042),
            credentials: one_in(random, 5).then(|| ("sim".to_owned(), "secret".to_owned())),
            seed: random.next_u64(),
            ..ClusterConfig::default()
        };
        let session = session(random, &cluster);
        let bounds = Bounds {
            opening_max: session.pool.opening_max,
            opening_per_host_max: session.pool.opening_per_host_max,
            control_max: 2 + usize::try_from(session.connection.connect_timeout.as_secs())
                .unwrap_or(usize::MAX),
            per_shard: match session.pool.size {
                PoolSize::PerShard(count) | PoolSize::PerHost(count) => usize::from(count.get()),
                _ => 1,
            },
        };
        let known_by_name = session
            .contact_points
            .iter()
            .any(|point| &*point.host == CLUSTER_NAME);
        Self {
            session,
            profile: profile(random),
            agreement: Duration::from_secs(5 + random.below(10)),
            coalesce: !one_in(random, 4),
            shape: Shape {
                nodes,
                shards,
                chaos: Duration::from_millis(8_000 + random.below(12_000)),
            },
            bounds,
            workers: 2 + random.below(5),
            pause_ms: 50 + random.below(200),
            shuffled: !one_in(random, 4),
            translated: one_in(random, 6),
            busy_percent: match random.below(3) {
                0 => random.below(60),
                _ => 0,
            },
            void_swallows: one_in(random, 2),
            early_faults: faults && one_in(random, 5),
            dropped: one_in(random, 5),
            replication: nodes.min(3),
            known_by_name,
            cluster,
        }
    }
}

impl Setup {
    /// Whether each connection can choose its shard from the start.
    pub(super) fn chooses_shards(&self) -> bool {
        let chosen = self.session.pool.uses_shard_aware_port();
        let offered = self.cluster.shard_aware_port.is_some() && 0 < self.cluster.shards;
        chosen && offered && !self.translated
    }
}

fn one_in(random: &mut Random, chances: u64) -> bool {
    random.below(chances) == 0
}

fn millis(random: &mut Random, from: u64, to: u64) -> Duration {
    Duration::from_millis(from + random.below(to - from + 1))
}

fn profile(random: &mut Random) -> ExecutionProfile {
    let mut profile = ExecutionProfile {
        request_timeout: Some(millis(random, 500, 4_000)),
        ..ExecutionProfile::default()
    };
    if one_in(random, 3) {
        profile.attempt_timeout = Some(millis(random, 100, 1_000));
    }
    if one_in(random, 3) {
        profile.speculative = SpeculativePolicy::Constant {
            delay: millis(random, 5, 300),
            copies_max: 1 + u8::try_from(random.below(3)).unwrap_or(0),
        };
    }
    profile
}

fn session(random: &mut Random, cluster: &ClusterConfig) -> SessionConfig {
    let mut config = SessionConfig::default();
    let by_name = one_in(random, 3);
    let count = cluster
        .datacenters
        .iter()
        .map(|(_, count)| count)
        .sum::<usize>();
    config.contact_points = match by_name {
        true => vec![CLUSTER_NAME],
        false => ["127.0.0.1", "127.0.0.2", "127.0.0.3"]
            .into_iter()
            .take(count)
            .collect(),
    }
    .into_iter()
    .map(|host| ContactPoint {
        host: host.into(),
        port: cluster.port,
    })
    .collect();
    if let Some((user, password)) = &cluster.credentials {
        let login = messina_core::policy::auth::PlainCredentials::new(user, password);
        config.credentials = Some(std::sync::Arc::new(login));
    }
    if one_in(random, 3) {
        config.keyspace = Some("sim".into());
    }
    config.ready = match random.below(4) {
        0 => ReadinessRule::EveryShard,
        1 => ReadinessRule::Quorum,
        2 => ReadinessRule::ControlConnection,
        _ => ReadinessRule::OneHost,
    };
    config.readiness_timeout = Duration::from_secs(10);
    config.metadata_timeout = Some(millis(random, 500, 3_000));
    config.reconnect = match random.below(3) {
        0 => ReconnectPolicy::Constant {
            delay: millis(random, 100, 2_000),
        },
        _ => ReconnectPolicy::Exponential {
            base: millis(random, 50, 1_000),
            max: millis(random, 1_000, 5_000),
        },
    };
    config.pool = pool(random);
    let connection = &mut config.connection;
    connection.connect_timeout = millis(random, 500, 3_000);
    connection.handshake_timeout = millis(random, 500, 3_000);
    connection.keepalive_interval = Some(millis(random, 1_000, 5_000));
    connection.keepalive_timeout = millis(random, 500, 3_000);
    connection.compression = match random.below(4) {
        0 => Some(Compression::Lz4),
        1 => Some(Compression::Snappy),
        _ => None,
    };
    if one_in(random, 3) {
        config.limits.in_flight_max = 2 + u16::try_from(random.below(30)).unwrap_or(0);
    }
    if one_in(random, 3) {
        config.limits.orphans_max = 1 + u16::try_from(random.below(8)).unwrap_or(0);
    }
    if one_in(random, 6) {
        config.limits.waiting_max = Some(u32::try_from(random.below(20)).unwrap_or(0));
    }
    let delay = millis(random, 10, 1_000);
    config.refresh.topology_delay_max = delay;
    config.refresh.status_delay_max = delay;
    config.refresh.schema_delay_max = delay;
    config
}

fn pool(random: &mut Random) -> PoolConfig {
    let two = NonZeroU16::MIN.saturating_add(1);
    let mut pool = PoolConfig {
        size: match random.below(8) {
            0 => PoolSize::PerShard(two),
            1 => PoolSize::PerHost(two),
            2 => PoolSize::OnDemand {
                idle: millis(random, 500, 5_000),
            },
            _ => PoolSize::default(),
        },
        shard_awareness: !one_in(random, 10),
        source_port_cooldown: millis(random, 1_000, 10_000),
        ..PoolConfig::default()
    };
    if one_in(random, 5) {
        pool.shard_aware_port = ShardAwarePort::Never;
    }
    if one_in(random, 4) {
        pool.connection_age_max = Some(millis(random, 2_000, 10_000));
    }
    if one_in(random, 3) {
        pool.opening_max = 1 + random.index(8);
        pool.opening_per_host_max = 1 + random.index(4);
    }
    pool
}
