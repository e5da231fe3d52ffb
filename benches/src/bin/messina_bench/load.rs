//! One contender in this process: its options, the peer where none is named, and the JSON line.

use std::future::Future;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use messina_benches::BenchError;
use messina_benches::client::{self, Plan};
use messina_benches::floor;
use messina_benches::open::Latencies;
use messina_benches::process::Peer;
use messina_benches::workload::{Span, Workload};
use serde_json::{Value, json};

/// What every contender can be told.
#[derive(Args, Clone, Debug)]
pub(crate) struct LoadArgs {
    #[arg(long, value_enum, default_value = "insert")]
    pub(crate) workload: Workload,
    /// Requests in flight, one task each; 64 for small requests and 2 for large ones, unless given.
    #[arg(long)]
    pub(crate) conc: Option<u64>,
    /// Requests in all.
    #[arg(long, default_value_t = 9216)]
    pub(crate) ops: u64,
    /// Runs for so many seconds instead of a number of requests.
    #[arg(long)]
    pub(crate) seconds: Option<f64>,
    /// Requests before the measured ones.
    #[arg(long, default_value_t = 0)]
    pub(crate) warmup: u64,
    /// Warms up for so many seconds instead.
    #[arg(long)]
    pub(crate) warmup_seconds: Option<f64>,
    /// Worker threads, where the runtime has a choice; one means a current-thread runtime.
    #[arg(long, default_value_t = 1)]
    pub(crate) workers: usize,
    /// Lets so many requests fall due each second, whatever the answers do, and tells latencies.
    #[arg(long)]
    pub(crate) rate: Option<u64>,
    /// The address of a peer that runs already; otherwise one is started.
    #[arg(long)]
    pub(crate) peer: Option<String>,
    /// The nodes of a peer that is started.
    #[arg(long, default_value_t = 1)]
    pub(crate) nodes: u16,
    /// The shards of each node of a peer that is started.
    #[arg(long, default_value_t = 0)]
    pub(crate) shards: u16,
    /// The tokens of each node of a peer that is started.
    #[arg(long, default_value_t = 1)]
    pub(crate) tokens: u16,
    /// The core that a peer that is started runs on.
    #[arg(long)]
    pub(crate) peer_core: Option<usize>,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct FloorArgs {
    #[command(flatten)]
    load: LoadArgs,
    /// Copies a template, the key and the stream id for each request, instead of sending the same bytes again.
    #[arg(long)]
    encode: bool,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct ClientArgs {
    #[command(flatten)]
    load: LoadArgs,
    #[arg(long, value_enum, default_value = "tokio")]
    runtime: Runtime,
    #[arg(long, value_enum, default_value = "v4")]
    protocol: Protocol,
    /// Encrypts; a peer that is named must do so too.
    #[arg(long)]
    tls: bool,
    /// The certificate of a peer that is named.
    #[arg(long, requires = "tls")]
    ca_file: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Runtime {
    Tokio,
    AsyncStd,
    Smol,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Protocol {
    V4,
    V5,
}

impl LoadArgs {
    /// What a client is to do.
    fn plan(&self, v5: bool, ca_file: Option<PathBuf>) -> Plan {
        Plan {
            workload: self.workload,
            in_flight: self.in_flight(),
            warmup: self.warmup(),
            span: self.span(),
            rate: self.rate,
            v5,
            ca_file,
        }
    }

    /// The part of the JSON line that all contenders have, with the latencies of an open loop.
    pub(crate) fn line(&self, who: &str, latencies: Option<&Latencies>) -> Value {
        let mut line = json!({
            "contender": who,
            "workload": self.workload.name(),
            "in_flight": self.in_flight(),
        });
        if let Some(latencies) = latencies {
            line["p50_us"] = latencies.micros_at(500).into();
            line["p99_us"] = latencies.micros_at(990).into();
            line["p999_us"] = latencies.micros_at(999).into();
        }
        line
    }

    fn in_flight(&self) -> u64 {
        let usual = self.workload.usual_in_flight();
        self.conc.unwrap_or(usual).max(1)
    }

    fn warmup(&self) -> Span {
        Span::of(self.warmup_seconds, self.warmup)
    }

    fn span(&self) -> Span {
        Span::of(self.seconds, self.ops)
    }

    fn peer(&self, tls: bool) -> Result<Option<Peer>, BenchError> {
        match self.peer {
            Some(_) => Ok(None),
            None => Peer::start(&self.peer_arguments(), tls, self.peer_core).map(Some),
        }
    }

    /// What a peer that is started is told.
    pub(crate) fn peer_arguments(&self) -> [String; 6] {
        let [nodes, shards, tokens] = [self.nodes, self.shards, self.tokens].map(|n| n.to_string());
        let [a, b, c] = ["--nodes", "--shards", "--tokens"].map(str::to_owned);
        [a, nodes, b, shards, c, tokens]
    }

    fn address<'a>(&'a self, started: Option<&'a Peer>) -> &'a str {
        let started = started.map(|peer| peer.address.as_str());
        self.peer.as_deref().or(started).unwrap_or_default()
    }
}

pub(crate) fn floor(args: &FloorArgs) -> Result<(), BenchError> {
    let load = &args.load;
    let peer = load.peer(false)?;
    let plan = floor::Plan {
        workload: load.workload,
        in_flight: usize::try_from(load.in_flight())?,
        encode: args.encode,
        warmup: load.warmup(),
        span: load.span(),
        rate: load.rate,
    };
    let (measured, latencies) = floor::run(load.address(peer.as_ref()), plan)?;
    let who = if args.encode { "floor-encode" } else { "floor" };
    let mut line = load.line(who, latencies.as_ref());
    line["connections"] = 1.into();
    println!("{}", measured.to_json(line));
    Ok(())
}

pub(crate) fn client(args: &ClientArgs) -> Result<(), BenchError> {
    let load = &args.load;
    let peer = load.peer(args.tls)?;
    let started = peer.as_ref().and_then(|peer| peer.ca_file.clone());
    let ca_file = args.ca_file.clone().or(started);
    let plan = load.plan(args.protocol == Protocol::V5, ca_file);
    let address = load.address(peer.as_ref());
    let (who, outcome) = match args.runtime {
        Runtime::Tokio => ("tokio", {
            let run = client::run::<messina_tokio::Tokio>(address, &plan);
            block_on_tokio(load.workers, run)?
        }),
        Runtime::AsyncStd => ("async-std", {
            async_std::task::block_on(client::run::<messina_async_std::AsyncStd>(address, &plan))
        }),
        Runtime::Smol => ("smol", {
            smol::block_on(client::run::<messina_smol::Smol>(address, &plan))
        }),
    };
    let outcome = outcome?;
    let mut line = load.line(who, outcome.latencies.as_ref());
    line["workers"] = load.workers.into();
    line["connections"] = outcome.connections.into();
    line["protocol"] = if plan.v5 { 5 } else { 4 }.into();
    line["tls"] = plan.ca_file.is_some().into();
    println!("{}", outcome.measured.to_json(line));
    Ok(())
}

#[cfg(feature = "reference")]
pub(crate) fn reference(load: &LoadArgs) -> Result<(), BenchError> {
    let peer = load.peer(false)?;
    let plan = load.plan(false, None);
    let run = messina_benches::reference::run(load.address(peer.as_ref()), &plan);
    let (measured, latencies) = block_on_tokio(load.workers, run)??;
    let mut line = load.line("reference", latencies.as_ref());
    line["workers"] = load.workers.into();
    println!("{}", measured.to_json(line));
    Ok(())
}

#[cfg(not(feature = "reference"))]
pub(crate) fn reference(_: &LoadArgs) -> Result<(), BenchError> {
    Err("this program was built without the feature `reference`".into())
}

fn block_on_tokio<T>(workers: usize, work: impl Future<Output = T>) -> Result<T, BenchError> {
    use tokio::runtime::Builder;
    let runtime = match workers {
        0 | 1 => Builder::new_current_thread().enable_all().build()?,
        _ => Builder::new_multi_thread()
            .worker_threads(workers)
            .enable_all()
            .build()?,
    };
    Ok(runtime.block_on(work))
}
