//! Opens sessions of different configurations on a simulated cluster and prints what each of them told of itself, one
//! JSON text a line: the document as the server got it. Judging the documents is left to a program that shares no code
//! with this project. With a number as its argument it prints the documents of so many settings that chance makes,
//! without a session.

mod chance;

use std::error::Error;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::{Duration, Instant};

use messina_testkit::SimulatedCluster;
use messina_testkit::serve::Tls;
use messina_tokio::core::config::pool::{PoolSize, ShardAwarePort};
use messina_tokio::core::policy::host_filter::{AllowList, DatacenterFilter};
use messina_tokio::core::policy::load_balancing::{
    ClusterView, DefaultLoadBalancing, LoadBalancingPolicy, PlanRequest, Planned, Targets,
};
use messina_tokio::core::policy::reconnect::{ReconnectDelays, ReconnectPolicy};
use messina_tokio::core::policy::retry::{DowngradingRetry, FallthroughRetry, LimitedRetry};
use messina_tokio::core::policy::speculative::SpeculativePolicy;
use messina_tokio::tls::{self, TlsPlan};
use messina_tokio::{Compression, Consistency, Inference, Session, SessionConfig};

/// Changes the settings of one session.
type Change = fn(&mut SessionConfig);

/// The configurations beside that of the defaults.
const CHANGES: &[Change] = &[
    |config| {
        config.local_datacenter = Some("dc1".into());
        config.local_rack = Some("rack1".into());
        config.credentials = None;
        config.application.name = Some("shop".into());
    },
    |config| {
        config.inference = Inference {
            datacenter: false,
            rack: false,
        };
        config.profile.retry = Arc::new(FallthroughRetry);
        config.reconnect = ReconnectPolicy::Constant {
            delay: Duration::from_millis(250),
        };
    },
    |config| {
        config.inference.rack = true;
        config.profile.retry = Arc::new(DowngradingRetry);
        config.profile.speculative = SpeculativePolicy::percentile(99.0, 2);
        config.pool.size = PoolSize::PerHost(NonZeroU16::MIN);
    },
    |config| {
        config.profile.retry = Arc::new(LimitedRetry { retries_max: 3 });
        config.profile.speculative = SpeculativePolicy::Constant {
            delay: Duration::from_millis(40),
            copies_max: 1,
        };
        config.pool.size = PoolSize::OnDemand {
            idle: Duration::from_secs(60),
        };
        config.pool.shard_aware_port = ShardAwarePort::Never;
    },
    |config| {
        config.pool.shard_awareness = false;
        config.profile.page_size = None;
        config.profile.request_timeout = None;
        config.profile.serial_consistency = None;
        config.profile.client_timestamps = false;
        config.profile.idempotent = true;
        config.profile.consistency = Consistency::EachQuorum;
        config.connection.keepalive_interval = None;
        config.metadata_timeout = None;
    },
    |config| {
        config.host_filter = Some(Arc::new(DatacenterFilter {
            datacenters: ["dc1".into()].into(),
        }));
        let mut policy = DefaultLoadBalancing::default();
        policy.datacenter_failover = true;
        config.profile.load_balancing = Arc::new(policy);
        config.connection.compression = Some(Compression::Lz4);
    },
    |config| {
        config.host_filter = Some(Arc::new(AllowList::new().ip([127, 0, 0, 1].into())));
        config.connection.socket.keepalive = Some(Duration::from_secs(30));
        config.connection.socket.recv_buffer = Some(1 << 20);
        config.connection.socket.nodelay = false;
        config.connection.connect_timeout = Duration::from_secs(86_400 * 365);
    },
    |config| {
        config.profile.load_balancing = Arc::new(Own);
        config.reconnect = ReconnectPolicy::Custom(Arc::new(Own));
        config.limits.in_flight_max = 7;
        config.limits.waiting_max = Some(0);
    },
];

/// A policy of the application's own, with a name that means harm.
#[derive(Debug)]
struct Own;

impl LoadBalancingPolicy for Own {
    fn first(&self, request: &PlanRequest, cluster: &dyn ClusterView) -> Option<Planned> {
        DefaultLoadBalancing::default().first(request, cluster)
    }

    fn rest(&self, request: &PlanRequest, cluster: &dyn ClusterView, targets: &mut Targets) {
        DefaultLoadBalancing::default().rest(request, cluster, targets);
    }
}

impl ReconnectDelays for Own {
    fn delay(&self, _: u32, _: u32) -> Duration {
        Duration::from_secs(1)
    }

    fn name(&self) -> &str {
        "/home/\"me\"/\u{0}\u{202e}.rs"
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    if let Some(count) = std::env::args().nth(1) {
        return chance::print(count.parse()?);
    }
    let open = SimulatedCluster::builder().nodes(2).shards(2).start()?;
    print(&open, None, |_| ()).await?;
    for change in CHANGES {
        print(&open, None, change).await?;
    }
    let encrypted = SimulatedCluster::builder()
        .nodes(1)
        .shards(2)
        .tls(Tls::Server)
        .start()?;
    let authority = encrypted.authority().ok_or("no authority")?;
    let plan = tls::plan().roots_pem(authority.pem().as_bytes()).build()?;
    print(&encrypted, Some(plan), |_| ()).await
}

/// Opens a session, prints what it showed, and closes it.
async fn print(
    cluster: &SimulatedCluster,
    tls: Option<TlsPlan>,
    change: impl FnOnce(&mut SessionConfig),
) -> Result<(), Box<dyn Error>> {
    let mut builder = Session::builder()
        .contact_points(cluster.contact_points())
        .config(change);
    if let Some(plan) = tls {
        builder = builder.tls(plan);
    }
    let session = builder.build().await?;
    let until = Instant::now() + Duration::from_secs(10);
    // The control connection may move to another node right after the start: then both sides change.
    let document = loop {
        let document = session.driver_config().ok_or("no document was sent")?;
        let clients = cluster.clients();
        let mut options = clients.iter().flat_map(|client| &client.options);
        if options.any(|(key, value)| key == "DRIVER_CONFIG" && *value == *document) {
            break document;
        }
        if until < Instant::now() {
            return Err("the server got another document than the session tells of".into());
        }
        tokio::task::yield_now().await;
    };
    println!("{document}");
    session.close(Duration::from_secs(5)).await;
    Ok(())
}
