//! Settings that chance makes, hostile names and secrets among them, and the documents that tell of them.
//! Leaves out the sessions: these settings need not lead anywhere.

use std::error::Error;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use messina_tokio::core::config::client_routes::{ClientRouteEndpoint, ClientRoutes};
use messina_tokio::core::config::pool::{PoolSize, ShardAwarePort};
use messina_tokio::core::policy::auth::PlainCredentials;
use messina_tokio::core::policy::host_filter::DatacenterFilter;
use messina_tokio::core::policy::load_balancing::DefaultLoadBalancing;
use messina_tokio::core::policy::reconnect::{ReconnectDelays, ReconnectPolicy};
use messina_tokio::core::policy::retry::{
    BackoffRetry, DefaultRetry, DowngradingRetry, FallthroughRetry, LimitedRetry, RetryPolicy,
};
use messina_tokio::core::policy::speculative::SpeculativePolicy;
use messina_tokio::core::report::driver_config::{
    DRIVER_CONFIG_LEN_MAX, DriverConfigFacts, NotReported, driver_config,
};
use messina_tokio::core::seed::{Random, Seed};
use messina_tokio::{Consistency, Inference, PageSize, SerialConsistency, SessionConfig};

/// What must be in no document.
const SECRET: &str = "hunter2-never-told";

/// Names that are meant to break something.
const NAMES: &[&str] = &[
    "dc1",
    "",
    "\"}],",
    "\u{0}\u{1b}[31m",
    "\u{202e}\u{feff}é𝄞",
    "../../etc/passwd",
    "{{7*7}}${x}",
];

/// A policy with a name that chance has chosen.
#[derive(Debug)]
struct Named(String);

impl ReconnectDelays for Named {
    fn delay(&self, _: u32, _: u32) -> Duration {
        Duration::from_secs(1)
    }

    fn name(&self) -> &str {
        &self.0
    }
}

/// Prints the documents of so many settings.
pub(crate) fn print(count: u64) -> Result<(), Box<dyn Error>> {
    for seed in 0..count {
        let document = |random: &mut Random| {
            let config = settings(random);
            let (datacenter, rack) = (name(random), name(random));
            driver_config(&DriverConfigFacts {
                session: &config,
                scylla: random.below(2) == 0,
                datacenter: (random.below(2) == 0).then_some(&*datacenter),
                rack: (random.below(2) == 0).then_some(&*rack),
            })
        };
        let made = document(&mut Seed::from_u64(seed).random());
        if made != document(&mut Seed::from_u64(seed).random()) {
            return Err(format!("seed {seed}: the same settings have two documents").into());
        }
        match made {
            Ok(text) if DRIVER_CONFIG_LEN_MAX < text.len() || text.contains(SECRET) => {
                return Err(format!("seed {seed}: too long, or a secret is told: {text}").into());
            }
            Ok(text) => println!("{text}"),
            Err(NotReported::TooLong { .. }) => (),
            Err(error) => return Err(format!("seed {seed}: {error}").into()),
        }
    }
    Ok(())
}

fn name(random: &mut Random) -> String {
    let name = random.choose(NAMES).copied().unwrap_or_default();
    name.repeat(1 + random.index(3) * random.index(2000))
}

fn duration(random: &mut Random) -> Duration {
    let few = Duration::from_millis(random.below(100_000));
    let all = [Duration::ZERO, Duration::from_nanos(1), few, Duration::MAX];
    random.choose(&all).copied().unwrap_or_default()
}

fn maybe<T>(random: &mut Random, make: impl FnOnce(&mut Random) -> T) -> Option<T> {
    (random.below(2) == 0).then(|| make(random))
}

fn settings(random: &mut Random) -> SessionConfig {
    let mut config = SessionConfig {
        credentials: Some(Arc::new(PlainCredentials::new(SECRET, SECRET))),
        ..SessionConfig::default()
    };
    config.application.name = maybe(random, name);
    config.inference = Inference {
        datacenter: random.below(2) == 0,
        rack: random.below(2) == 0,
    };
    config.local_datacenter = maybe(random, |random| name(random).into());
    config.local_rack = maybe(random, |random| name(random).into());
    config.host_filter = maybe(random, |random| {
        let datacenters = (0..random.below(3)).map(|_| name(random).into()).collect();
        Arc::new(DatacenterFilter { datacenters }) as _
    });
    config.reconnect = match random.below(3) {
        0 => ReconnectPolicy::Constant {
            delay: duration(random),
        },
        1 => ReconnectPolicy::Exponential {
            base: duration(random),
            max: duration(random),
        },
        _ => ReconnectPolicy::Custom(Arc::new(Named(name(random)))),
    };
    config.client_routes = maybe(random, |random| {
        ClientRoutes::new(vec![
            ClientRouteEndpoint::new(name(random)).at(name(random)),
        ])
    });
    config.metadata_timeout = maybe(random, duration);
    config.agreement_timeout = duration(random);
    pool(&mut config, random);
    connection(&mut config, random);
    profile(&mut config, random);
    config
}

fn pool(config: &mut SessionConfig, random: &mut Random) {
    let connections =
        NonZeroU16::new(1 + random.next_u64() as u16 % 1000).unwrap_or(NonZeroU16::MIN);
    config.pool.size = match random.below(3) {
        0 => PoolSize::PerShard(connections),
        1 => PoolSize::PerHost(connections),
        _ => PoolSize::OnDemand {
            idle: duration(random),
        },
    };
    config.pool.shard_awareness = random.below(2) == 0;
    let ports = [
        ShardAwarePort::Auto,
        ShardAwarePort::Always,
        ShardAwarePort::Never,
    ];
    config.pool.shard_aware_port = random.choose(&ports).copied().unwrap_or_default();
    config.pool.connection_age_max = maybe(random, duration);
    config.limits.in_flight_max = random.next_u64() as u16;
    config.limits.orphans_max = random.next_u64() as u16;
    config.limits.waiting_max = maybe(random, |random| random.next_u64() as u32);
    config.limits.frame_bytes_max = random.next_u64() as u32;
}

fn connection(config: &mut SessionConfig, random: &mut Random) {
    let connection = &mut config.connection;
    connection.connect_timeout = duration(random);
    connection.handshake_timeout = duration(random);
    connection.keepalive_interval = maybe(random, duration);
    connection.keepalive_timeout = duration(random);
    connection.socket.nodelay = random.below(2) == 0;
    connection.socket.keepalive = maybe(random, duration);
    connection.socket.recv_buffer = maybe(random, |random| random.next_u64() as usize);
    connection.socket.send_buffer = maybe(random, |random| random.next_u64() as usize);
    connection.socket.linger = maybe(random, duration);
}

fn profile(config: &mut SessionConfig, random: &mut Random) {
    let profile = &mut config.profile;
    let retries: [Arc<dyn RetryPolicy>; 5] = [
        Arc::new(DefaultRetry),
        Arc::new(FallthroughRetry),
        Arc::new(DowngradingRetry),
        Arc::new(LimitedRetry {
            retries_max: random.next_u64() as u16,
        }),
        Arc::new(BackoffRetry {
            retries_max: random.next_u64() as u16,
            pause_min: duration(random),
            pause_max: duration(random),
        }),
    ];
    if let Some(retry) = random.choose(&retries) {
        profile.retry = Arc::clone(retry);
    }
    profile.speculative = match random.below(3) {
        0 => SpeculativePolicy::None,
        1 => SpeculativePolicy::Constant {
            delay: duration(random),
            copies_max: random.next_u64() as u8,
        },
        _ => SpeculativePolicy::percentile(random.below(101) as f64, random.next_u64() as u8),
    };
    let mut policy = DefaultLoadBalancing::default();
    policy.token_aware = random.below(2) == 0;
    policy.datacenter_failover = random.below(2) == 0;
    policy.remote_hosts_max = maybe(random, |_| NonZeroU16::MIN);
    policy.remote_datacenters = maybe(random, |random| [name(random).into()].into());
    profile.load_balancing = Arc::new(policy);
    let consistencies = [Consistency::Any, Consistency::LocalOne, Consistency::Serial];
    profile.consistency = random
        .choose(&consistencies)
        .copied()
        .unwrap_or(Consistency::All);
    profile.serial_consistency = maybe(random, |_| SerialConsistency::Serial);
    profile.page_size = maybe(random, |random| {
        PageSize::new(1 + random.below(1 << 20) as i32).unwrap_or(PageSize::DEFAULT)
    });
    profile.request_timeout = maybe(random, duration);
    profile.attempt_timeout = maybe(random, duration);
    profile.idempotent = random.below(2) == 0;
    profile.client_timestamps = random.below(2) == 0;
}
