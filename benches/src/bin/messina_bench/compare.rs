//! All contenders in alternating rounds against one peer, best against best: a shared machine only makes runs slower.

use clap::Args;
use messina_benches::BenchError;
use messina_benches::process::{Peer, this_program};
use messina_benches::workload::Workload;
use serde_json::{Value, json};

use crate::contender::Contender;

#[derive(Args, Clone, Debug)]
pub(crate) struct CompareArgs {
    #[arg(long, value_enum, default_values = ["insert"], value_delimiter = ',')]
    workload: Vec<Workload>,
    /// Requests in flight; 64 for small requests and 2 for large ones, unless given.
    #[arg(long)]
    conc: Option<u64>,
    /// Rounds; in each, every contender runs once.
    #[arg(long, default_value_t = 4)]
    rounds: u32,
    /// Length of a run.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Length of what comes before it.
    #[arg(long, default_value_t = 0.5)]
    warmup_seconds: f64,
    /// Who takes part; everybody, unless given.
    #[arg(long, value_enum, value_delimiter = ',')]
    contender: Vec<Contender>,
    /// Worker threads, where the runtime has a choice.
    #[arg(long, default_value_t = 1)]
    workers: usize,
    /// Opens the loop: so many requests fall due each second, and the median latency is compared.
    #[arg(long)]
    rate: Option<u64>,
    /// How many nodes the peer pretends.
    #[arg(long, default_value_t = 1)]
    nodes: u16,
    /// How many shards each of them has.
    #[arg(long, default_value_t = 0)]
    shards: u16,
    /// Pins the peer to core 1 and the contenders to core 0.
    #[arg(long)]
    pin: bool,
}

/// The runs of one contender.
struct Runs {
    contender: Contender,
    lines: Vec<Value>,
}

impl Runs {
    fn sorted(&self, field: &str) -> Vec<f64> {
        let mut all: Vec<f64> = self
            .lines
            .iter()
            .filter_map(|line| line[field].as_f64())
            .collect();
        all.sort_by(f64::total_cmp);
        all
    }

    fn least(&self, field: &str) -> f64 {
        self.sorted(field).first().copied().unwrap_or(f64::NAN)
    }

    fn most(&self, field: &str) -> f64 {
        self.sorted(field).last().copied().unwrap_or(f64::NAN)
    }

    fn median(&self, field: &str) -> f64 {
        let all = self.sorted(field);
        all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

pub(crate) fn run(args: &CompareArgs) -> Result<(), BenchError> {
    let [nodes, shards] = [args.nodes, args.shards].map(|n| n.to_string());
    let [a, b] = ["--nodes", "--shards"].map(str::to_owned);
    let peer = Peer::start(&[a, nodes, b, shards], false, args.pin.then_some(1))?;
    let contenders = match args.contender.is_empty() {
        true => Contender::all(),
        false => args.contender.clone(),
    };
    for workload in &args.workload {
        let mut runs: Vec<Runs> = contenders
            .iter()
            .map(|contender| Runs {
                contender: *contender,
                lines: Vec::new(),
            })
            .collect();
        for round in 0..args.rounds.max(1) {
            for runs in &mut runs {
                let mut line = one(args, *workload, runs.contender, &peer.address)?;
                line["round"] = round.into();
                println!("{line}");
                runs.lines.push(line);
            }
        }
        report(args, *workload, &runs);
    }
    Ok(())
}

fn one(
    args: &CompareArgs,
    workload: Workload,
    contender: Contender,
    peer: &str,
) -> Result<Value, BenchError> {
    let mut command = this_program(args.pin.then_some(0))?;
    command
        .args(contender.arguments())
        .args(["--peer", peer, "--workload", workload.name()])
        .args(["--workers", &args.workers.to_string()])
        .args(["--seconds", &args.seconds.to_string()])
        .args(["--warmup-seconds", &args.warmup_seconds.to_string()]);
    if let Some(conc) = args.conc {
        command.args(["--conc", &conc.to_string()]);
    }
    if let Some(rate) = args.rate {
        command.args(["--rate", &rate.to_string()]);
    }
    let output = command.output()?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{contender} failed: {}", why.trim()).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Prints the CPU time (or in an open loop the median latency) of each contender as a multiple of the floor's and of the
/// reference's.
fn report(args: &CompareArgs, workload: Workload, all: &[Runs]) {
    let of = |wanted| all.iter().find(|runs| runs.contender == wanted);
    let (cpu, what) = match args.rate {
        None => ("cpu_ns_per_request", "CPU per request"),
        Some(_) => ("p50_us", "median latency"),
    };
    let floor = of(Contender::Floor).map_or(f64::NAN, |runs| runs.least(cpu));
    let reference = of(Contender::Reference).map_or(f64::NAN, |runs| runs.least(cpu));
    println!("# {}: {what}, best of the rounds", workload.name());
    println!(
        "# {:<14}{:>10}{:>10}{:>12}{:>14}{:>14}",
        "", "floors", "median", "references", "requests/s", "allocations"
    );
    let floor_median = of(Contender::Floor).map_or(f64::NAN, |runs| runs.median(cpu));
    for runs in all {
        println!(
            "# {:<14}{:>10}{:>10}{:>12}{:>14.0}{:>14.3}",
            runs.contender,
            ratio_text(runs.least(cpu) / floor),
            ratio_text(runs.median(cpu) / floor_median),
            ratio_text(runs.least(cpu) / reference),
            runs.most("rate"),
            runs.least("allocations_per_request"),
        );
        let ratio = |value: f64| (value * 1000.0).round() / 1000.0;
        println!(
            "{}",
            json!({
                "summary": workload.name(),
                "contender": runs.contender.to_string(),
                "floors": ratio(runs.least(cpu) / floor),
                "references": ratio(runs.least(cpu) / reference),
                "rate_best": runs.most("rate"),
                "allocations_per_request": runs.least("allocations_per_request"),
            })
        );
    }
}

/// A ratio to somebody who took part, or a dash.
fn ratio_text(ratio: f64) -> String {
    match ratio.is_nan() {
        true => "-".to_owned(),
        false => format!("{ratio:.2}"),
    }
}
