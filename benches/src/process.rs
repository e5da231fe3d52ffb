//! Other processes of this program: the peer that a client talks to, and contenders that report in JSON.

use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::BenchError;

/// The process of a peer, ended with this value.
#[derive(Debug)]
pub struct Peer {
    child: Child,
    /// Where it listens.
    pub address: String,
    /// The file with the certificate that it shows, when it encrypts.
    pub ca_file: Option<PathBuf>,
}

impl Peer {
    /// Starts the peer of this program with these arguments, on this core if one is named.
    ///
    /// # Errors
    ///
    /// When it cannot be started or does not say where it listens.
    pub fn start(arguments: &[String], tls: bool, core: Option<usize>) -> Result<Self, BenchError> {
        let mut command = this_program(core)?;
        command.arg("peer").args(arguments);
        let ca_file = tls.then(|| {
            std::env::temp_dir().join(format!("messina-bench-{}.pem", std::process::id()))
        });
        if let Some(file) = &ca_file {
            command.arg("--ca-file").arg(file);
        }
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        let address = line.trim().strip_prefix("listening ");
        let address = address.unwrap_or_default().to_owned();
        let peer = Self {
            child,
            address,
            ca_file,
        };
        match peer.address.is_empty() {
            true => Err("the peer does not listen".into()),
            false => Ok(peer),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Nothing to do about a peer that is gone already.
        let _gone = self.child.kill();
        let _status = self.child.wait();
        if let Some(file) = &self.ca_file {
            let _gone = std::fs::remove_file(file);
        }
    }
}

/// This program, to be started once more, on one core if one is named.
///
/// # Errors
///
/// When the system does not say which program this is.
pub fn this_program(core: Option<usize>) -> io::Result<Command> {
    let program = std::env::current_exe()?;
    Ok(match core {
        None => Command::new(program),
        Some(core) => {
            let mut command = Command::new("taskset");
            command.arg("-c").arg(core.to_string()).arg(program);
            command
        }
    })
}
