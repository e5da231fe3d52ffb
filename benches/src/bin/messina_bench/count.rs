//! Instructions per request: a run of N2 requests under callgrind minus one of N1, divided by the difference. The peer is
//! another process and is in no count.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use clap::Args;
use messina_benches::BenchError;
use messina_benches::process::Peer;
use serde_json::json;

use crate::contender::Contender;
use crate::load::LoadArgs;

#[derive(Args, Clone, Debug)]
pub(crate) struct CountArgs {
    #[command(flatten)]
    load: LoadArgs,
    /// Who is counted; tokio and the floor, unless given.
    #[arg(long, value_enum, value_delimiter = ',')]
    contender: Vec<Contender>,
    /// Speaks version 5.
    #[arg(long)]
    v5: bool,
    /// Encrypts.
    #[arg(long)]
    tls: bool,
    /// Keeps callgrind's files in this folder, for `callgrind_annotate --inclusive=yes`.
    #[arg(long)]
    keep: Option<PathBuf>,
}

pub(crate) fn run(args: &CountArgs) -> Result<(), BenchError> {
    let found = Command::new("valgrind")
        .arg("--version")
        .stdout(Stdio::null())
        .status();
    if !found.is_ok_and(|status| status.success()) {
        return Err("instructions are counted by valgrind, and that is not installed".into());
    }
    let contenders = match args.contender.is_empty() {
        true => vec![Contender::Floor, Contender::Tokio],
        false => args.contender.clone(),
    };
    let peer = Peer::start(&args.load.peer_arguments(), args.tls, None)?;
    let (few, many) = args.load.workload.counted();
    let usual = args.load.workload.usual_in_flight();
    for contender in contenders {
        let less = collected(args, contender, few, &peer)?;
        let more = collected(args, contender, many, &peer)?;
        println!(
            "{}",
            json!({
                "contender": contender.to_string(),
                "workload": args.load.workload.name(),
                "in_flight": args.load.conc.unwrap_or(usual),
                "nodes": args.load.nodes,
                "shards": args.load.shards,
                "protocol": if args.v5 { 5 } else { 4 },
                "tls": args.tls,
                "instructions_per_request": more.saturating_sub(less) / (many - few),
            })
        );
    }
    Ok(())
}

/// Counts the instructions of a whole run.
fn collected(
    args: &CountArgs,
    contender: Contender,
    requests: u64,
    peer: &Peer,
) -> Result<u64, BenchError> {
    let file = match &args.keep {
        Some(folder) => folder.join(format!("{contender}.{requests}.callgrind")),
        None => PathBuf::from("/dev/null"),
    };
    let mut command = Command::new("valgrind");
    command
        .arg("--tool=callgrind")
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(std::env::current_exe()?)
        .args(contender.arguments())
        .args(["--peer", &peer.address, "--ops", &requests.to_string()])
        .args(["--workload", args.load.workload.name()]);
    if let Some(conc) = args.load.conc {
        command.args(["--conc", &conc.to_string()]);
    }
    if args.v5 {
        command.args(["--protocol", "v5"]);
    }
    if let Some(file) = &peer.ca_file {
        command.arg("--tls").arg("--ca-file").arg(file);
    }
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("{contender} failed under valgrind: {}", said.trim()).into());
    }
    let count = said
        .lines()
        .find_map(|line| line.split_once("Collected :"))
        .and_then(|(_, count)| count.trim().parse().ok());
    count.ok_or_else(|| "callgrind did not say what it collected".into())
}
