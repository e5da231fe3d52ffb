//! Runs a simulated cluster on loopback addresses until it is told to end, for programs in any language.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
#[cfg(feature = "tls")]
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use clap::Parser;
use messina_testkit::SimulatedCluster;
#[cfg(feature = "tls")]
use messina_testkit::serve::Tls;

/// Runs a simulated ScyllaDB cluster on 127.0.0.1, 127.0.0.2 and so on.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Arguments {
    /// How many nodes the first datacenter has.
    #[arg(long, default_value_t = 3)]
    nodes: usize,
    /// How many shards each node has; 0 hides them.
    #[arg(long, default_value_t = 2)]
    shards: u16,
    /// The port of every node; 0 takes a free one.
    #[arg(long, default_value_t = 9042)]
    port: u16,
    /// Opens a second port where the source port chooses the shard.
    #[arg(long)]
    shard_aware_port: bool,
    /// Opens ports where connections begin with a PROXY header (version 2), and prints their numbers in a second line.
    #[arg(long)]
    proxied_ports: bool,
    /// The name of the first datacenter.
    #[arg(long, default_value = "dc1")]
    dc: String,
    /// Another datacenter as NAME:NODES; may be given several times.
    #[arg(long = "another-dc", value_parser = parse_datacenter)]
    another_dc: Vec<(String, usize)>,
    /// The name of the rack, or of the first one.
    #[arg(long, default_value = "rack1")]
    rack: String,
    /// How many racks each datacenter has.
    #[arg(long, default_value_t = 1)]
    racks: usize,
    /// How many tokens each node owns.
    #[arg(long, default_value_t = 16)]
    tokens: usize,
    /// The role and password that clients must give, as ROLE:PASSWORD.
    #[arg(long, value_parser = parse_credentials)]
    credentials: Option<(String, String)>,
    /// Encrypts all connections with a certificate made on the spot.
    #[cfg(feature = "tls")]
    #[arg(long)]
    tls: bool,
    /// Encrypts all connections and lets only clients in that have a certificate of the same authority.
    #[cfg(feature = "tls")]
    #[arg(long)]
    mutual_tls: bool,
    /// Writes the certificate that clients have to trust to this file, in PEM.
    #[cfg(feature = "tls")]
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Writes a certificate for a client to this file, in PEM.
    #[cfg(feature = "tls")]
    #[arg(long, value_name = "FILE", requires = "client_key_file")]
    client_cert_file: Option<PathBuf>,
    /// Writes the key of that certificate to this file, in PEM.
    #[cfg(feature = "tls")]
    #[arg(long, value_name = "FILE", requires = "client_cert_file")]
    client_key_file: Option<PathBuf>,
    /// Prints each connection that has become usable in a line of JSON: node, address, shard and the options of its first
    /// message, as `system.clients` shows them. Those that live for less than a tenth of a second may be missed.
    #[arg(long)]
    print_clients: bool,
    /// Reads commands from standard input, one a line: `stop N` and `start N`, where the first contact point is node 0.
    #[arg(long)]
    commands: bool,
    /// A CQL statement to run before the contact points are printed; may be given several times.
    #[arg(long)]
    execute: Vec<String>,
}

fn parse_datacenter(text: &str) -> Result<(String, usize), String> {
    let (name, nodes) = text.split_once(':').ok_or("expected NAME:NODES")?;
    let nodes = nodes
        .parse()
        .map_err(|_| "the number of nodes is no number")?;
    Ok((name.to_owned(), nodes))
}

fn parse_credentials(text: &str) -> Result<(String, String), String> {
    let (role, password) = text.split_once(':').ok_or("expected ROLE:PASSWORD")?;
    Ok((role.to_owned(), password.to_owned()))
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("simulated-cluster: {error}");
            let mut source = error.source();
            while let Some(cause) = source {
                eprintln!("  because: {cause}");
                source = cause.source();
            }
            ExitCode::FAILURE
        }
    }
}

/// Gives clients what they need to be let in.
#[cfg(feature = "tls")]
fn write_certificates(
    arguments: &Arguments,
    cluster: &SimulatedCluster,
) -> Result<(), Box<dyn std::error::Error>> {
    let wanted = arguments.ca_file.is_some() || arguments.client_cert_file.is_some();
    let authority = match cluster.authority() {
        Some(authority) => authority,
        None if wanted => {
            return Err("without --tls or --mutual-tls there are no certificates".into());
        }
        None => return Ok(()),
    };
    if let Some(path) = &arguments.ca_file {
        std::fs::write(path, authority.pem())?;
    }
    if let (Some(certificate), Some(key)) =
        (&arguments.client_cert_file, &arguments.client_key_file)
    {
        let client = authority.issue(&["client"]);
        std::fs::write(certificate, client.chain_pem())?;
        std::fs::write(key, client.key_pem())?;
    }
    Ok(())
}

/// Prints every client that was not there at the last look, and returns those that are there now.
fn print_clients(
    cluster: &SimulatedCluster,
    known: &BTreeSet<(usize, SocketAddr)>,
) -> BTreeSet<(usize, SocketAddr)> {
    let clients = cluster.clients().into_iter();
    let usable: Vec<_> = clients.filter(|client| client.stage == "READY").collect();
    let names = usable.iter().map(|client| (client.node, client.address));
    let now: BTreeSet<_> = names.collect();
    for client in usable {
        if !known.contains(&(client.node, client.address)) {
            let options: BTreeMap<String, String> = client.options.into_iter().collect();
            let line = serde_json::json!({
                "node": client.node,
                "address": client.address.to_string(),
                "shard": client.shard,
                "options": options,
            });
            println!("{line}");
        }
    }
    now
}

/// How long a new client may go unnoticed.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

fn run(arguments: Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let mut builder = SimulatedCluster::builder()
        .nodes(arguments.nodes)
        .shards(arguments.shards)
        .datacenter(&arguments.dc)
        .rack(&arguments.rack)
        .racks(arguments.racks)
        .tokens_per_node(arguments.tokens)
        .shard_aware_port(arguments.shard_aware_port)
        .proxied_ports(arguments.proxied_ports);
    if arguments.port != 0 {
        builder = builder.port(arguments.port);
    }
    for (name, nodes) in &arguments.another_dc {
        builder = builder.another_datacenter(name, *nodes);
    }
    if let Some((role, password)) = &arguments.credentials {
        builder = builder.credentials(role, password);
    }
    #[cfg(feature = "tls")]
    if arguments.tls || arguments.mutual_tls {
        builder = builder.tls(match arguments.mutual_tls {
            true => Tls::Mutual,
            false => Tls::Server,
        });
    }
    let mut signals = signal_hook::iterator::Signals::new(signal_hook::consts::TERM_SIGNALS)?;
    let cluster = builder.start()?;
    #[cfg(feature = "tls")]
    write_certificates(&arguments, &cluster)?;
    for statement in &arguments.execute {
        cluster.execute(statement)?;
    }
    println!("{}", cluster.contact_points().join(","));
    if arguments.proxied_ports {
        let ports = [cluster.proxied_port(), cluster.proxied_shard_aware_port()];
        let ports: Vec<String> = ports.iter().flatten().map(u16::to_string).collect();
        println!("{}", ports.join(","));
    }
    let (wishes, wished) = mpsc::channel();
    if arguments.commands {
        let wishes = wishes.clone();
        thread::spawn(move || read_commands(&wishes));
    }
    thread::spawn(move || {
        signals.forever().next();
        // Nobody to tell means that the end has come already.
        let _ = wishes.send(Wish::End);
    });
    fulfil(&cluster, &wished, arguments.print_clients);
    cluster.stop();
    Ok(())
}

/// Does what is wished until the end is.
fn fulfil(cluster: &SimulatedCluster, wished: &mpsc::Receiver<Wish>, print: bool) {
    let nodes = cluster.contact_points().len();
    let mut known = BTreeSet::new();
    loop {
        let wish = if print {
            known = print_clients(cluster, &known);
            wished.recv_timeout(LOOK_AGAIN)
        } else {
            wished.recv().map_err(Into::into)
        };
        match wish {
            Ok(Wish::Stop(node)) if node < nodes => cluster.stop_node(node),
            Ok(Wish::Start(node)) if node < nodes => cluster.start_node(node),
            Ok(Wish::Stop(node) | Wish::Start(node)) => {
                eprintln!("simulated-cluster: there is no node {node}");
            }
            Ok(Wish::End) | Err(mpsc::RecvTimeoutError::Disconnected) => return,
            Err(mpsc::RecvTimeoutError::Timeout) => (),
        }
    }
}

/// What somebody outside wants of the running cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Stop(usize),
    Start(usize),
    End,
}

fn read_commands(wishes: &mpsc::Sender<Wish>) {
    for line in std::io::stdin().lines().map_while(Result::ok) {
        match parse_command(&line) {
            Some(wish) if wishes.send(wish).is_err() => return,
            Some(_) => (),
            None => eprintln!("simulated-cluster: {line:?} is no command"),
        }
    }
}

fn parse_command(line: &str) -> Option<Wish> {
    let (verb, node) = line.trim().split_once(' ')?;
    let node = node.trim().parse().ok()?;
    match verb {
        "stop" => Some(Wish::Stop(node)),
        "start" => Some(Wish::Start(node)),
        _ => None,
    }
}
