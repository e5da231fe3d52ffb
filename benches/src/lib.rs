//! Benches and budgets of Messina: the floor, the free peer, instruction counts. Holds what the programs share: the
//! peer's process and the CPU time of this one.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// The process of a peer, ended with this value.
#[derive(Debug)]
pub struct Peer {
    child: Child,
    /// Where it listens.
    pub address: String,
}

impl Peer {
    /// Starts the program `free_peer`, which lies beside this one.
    ///
    /// # Errors
    ///
    /// When the program is not there or does not say where it listens.
    pub fn start() -> io::Result<Self> {
        let program = std::env::current_exe()?.with_file_name("free_peer");
        let mut child = Command::new(program).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        let address = line
            .trim()
            .strip_prefix("listening ")
            .unwrap_or_default()
            .to_owned();
        match address.is_empty() {
            true => Err(io::Error::other("the peer does not listen")),
            false => Ok(Self { child, address }),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Nothing to do about a peer that is gone already.
        let _gone = self.child.kill();
        let _status = self.child.wait();
    }
}

/// The CPU time of all threads of this process in nanoseconds; zero where the system does not tell.
pub fn cpu_nanos() -> u64 {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else {
        return 0;
    };
    let of_thread = |path: std::path::PathBuf| {
        let text = fs::read_to_string(path.join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    };
    tasks
        .flatten()
        .filter_map(|task| of_thread(task.path()))
        .sum()
}
