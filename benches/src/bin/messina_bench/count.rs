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
use crate::part::Part;

#[derive(Args, Clone, Debug)]
pub(crate) struct CountArgs {
    #[command(flatten)]
    load: LoadArgs,
    /// Who is counted; tokio and the floor, unless given.
    #[arg(long, value_enum, value_delimiter = ',')]
    contender: Vec<Contender>,
    /// Counts these parts of the core instead.
    #[arg(long, value_enum, value_delimiter = ',')]
    part: Vec<Part>,
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
    if !args.part.is_empty() {
        return args
            .part
            .iter()
            .try_for_each(|part| count_part(args, *part));
    }
    let contenders = match args.contender.is_empty() {
        true => vec![Contender::Floor, Contender::Tokio],
        false => args.contender.clone(),
    };
    let peer = Peer::start(&args.load.peer_arguments(), args.tls, None)?;
    let (few, many) = args.load.workload.counted();
    for contender in contenders {
        let less = count_run(args, contender, few, &peer)?;
        let more = count_run(args, contender, many, &peer)?;
        let mut line = args.load.line(&contender.to_string(), None);
        line["nodes"] = args.load.nodes.into();
        line["shards"] = args.load.shards.into();
        line["protocol"] = if args.v5 { 5 } else { 4 }.into();
        line["tls"] = args.tls.into();
        line["instructions_per_request"] = (more.saturating_sub(less) / (many - few)).into();
        println!("{line}");
    }
    Ok(())
}

fn count_part(args: &CountArgs, part: Part) -> Result<(), BenchError> {
    let (few, many) = part.counted();
    let name = part.name();
    let count = |turns: u64| {
        let mut command = under_valgrind(args, &format!("{name}.{turns}"))?;
        command.args(["part", "--part", &name, "--turns", &turns.to_string()]);
        collected(command)
    };
    let (less, more) = (count(few)?, count(many)?);
    let instructions = more.saturating_sub(less) / ((many - few) * part.times());
    println!("{}", json!({ "part": name, "instructions": instructions }));
    Ok(())
}

/// Counts the instructions of a whole run.
fn count_run(
    args: &CountArgs,
    contender: Contender,
    requests: u64,
    peer: &Peer,
) -> Result<u64, BenchError> {
    let mut command = under_valgrind(args, &format!("{contender}.{requests}"))?;
    command
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
    collected(command)
}

/// This program under callgrind, whose file is kept under a name where that is wanted.
fn under_valgrind(args: &CountArgs, name: &str) -> Result<Command, BenchError> {
    let file = match &args.keep {
        Some(folder) => folder.join(format!("{name}.callgrind")),
        None => PathBuf::from("/dev/null"),
    };
    let mut command = Command::new("valgrind");
    command
        .arg("--tool=callgrind")
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(std::env::current_exe()?);
    Ok(command)
}

fn collected(mut command: Command) -> Result<u64, BenchError> {
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("the run under valgrind failed: {}", said.trim()).into());
    }
    let count = said
        .lines()
        .find_map(|line| line.split_once("Collected :"))
        .and_then(|(_, count)| count.trim().parse().ok());
    count.ok_or_else(|| "callgrind did not say what it collected".into())
}
