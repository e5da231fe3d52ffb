//! Owns one node's process: its command line, its start, its end. It knows nothing of the other nodes.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::error::CassandraError;
use super::files::{CQL_PORT, Layout, remove_folder};
use super::java::{AGENT_JAR, Parts, tail};
use super::lease::wait_until_free;

/// One node, running or not.
#[derive(Debug)]
pub(super) struct Node {
    layout: Layout,
    process: Option<Child>,
}

impl Node {
    pub(super) fn new(layout: Layout) -> Self {
        Self {
            layout,
            process: None,
        }
    }

    pub(super) fn address(&self) -> Ipv4Addr {
        self.layout.address
    }

    pub(super) fn is_running(&mut self) -> bool {
        self.process
            .as_mut()
            .is_some_and(|process| matches!(process.try_wait(), Ok(None)))
    }

    /// Starts the node on an emptied folder. A failed start leaves no process.
    pub(super) fn start_fresh(
        &mut self,
        parts: &Parts,
        timeout: Duration,
    ) -> Result<(), CassandraError> {
        self.kill();
        self.layout.write()?;
        let mut lines = vec![READY_LINE];
        // The first role is made after the node listens, by the first node that has none.
        if self.layout.passwords && self.layout.address == self.layout.seed {
            lines.push(ROLE_LINE);
        }
        self.launch(parts, timeout, &lines)
    }

    /// Starts the node on what its folder holds. A failed start leaves no process.
    pub(super) fn start(&mut self, parts: &Parts, timeout: Duration) -> Result<(), CassandraError> {
        self.kill();
        self.launch(parts, timeout, &[READY_LINE])
    }

    /// Asks the process to end, and kills it when it does not.
    pub(super) fn stop(&mut self) {
        let Some(process) = &mut self.process else {
            return;
        };
        let asked = process
            .stdin
            .as_mut()
            .is_some_and(|guard| guard.write_all(b"stop\n").is_ok());
        let until = Instant::now() + STOP_TIMEOUT;
        while asked && matches!(process.try_wait(), Ok(None)) && Instant::now() < until {
            thread::sleep(POLL);
        }
        self.kill();
    }

    /// Kills the process, if there is one, and waits for its end.
    pub(super) fn kill(&mut self) {
        let Some(mut process) = self.process.take() else {
            return;
        };
        // Each of these fails only for what has ended already, which is what is wanted. The guard hears of it before the
        // pipe closes: the folder stays.
        let _ = process.kill();
        if let Some(mut guard) = process.stdin.take() {
            let _ = guard.write_all(b"done\n");
        }
        let _ = process.wait();
    }

    /// Kills the process and removes the node's data; the log stays.
    pub(super) fn discard(&mut self) {
        self.kill();
        // What stays of the data is only in the way of disk space.
        let _ = remove_folder(&self.layout.folder);
    }

    fn launch(
        &mut self,
        parts: &Parts,
        timeout: Duration,
        lines: &[&str],
    ) -> Result<(), CassandraError> {
        let address = self.layout.address;
        let until = Instant::now() + timeout;
        let path = self.layout.log();
        // A port that stays taken is the node's own to report: its log says which.
        wait_until_free(address, POLL, Instant::now() + RELEASE_TIMEOUT);
        let opened = || -> io::Result<(File, u64)> {
            let log = OpenOptions::new().create(true).append(true).open(&path)?;
            let len = log.metadata()?.len();
            Ok((log, len))
        };
        let (log, mut read) = opened().map_err(CassandraError::io(format!(
            "could not open {}",
            path.display()
        )))?;
        let spawned = self
            .command(parts, log)
            .and_then(|mut command| command.spawn());
        let process = self
            .process
            .insert(spawned.map_err(CassandraError::io("could not start a process for a node"))?);
        let mut missing = lines.to_vec();
        let failure = loop {
            // The status is read before the log, so that the log of an ended process is complete.
            let status = process.try_wait();
            let text = read_from(&path, &mut read);
            missing.retain(|line| !text.contains(line));
            match status {
                // The node says that it listens a moment before it does.
                Ok(None) if missing.is_empty() && listens(address) => return Ok(()),
                Ok(None) if Instant::now() < until => thread::sleep(POLL),
                Ok(None) => {
                    let (seconds, tail) = (timeout.as_secs(), tail(&path));
                    break CassandraError::TimedOut {
                        address,
                        seconds,
                        log: path,
                        tail,
                    };
                }
                Ok(Some(status)) => {
                    let tail = tail(&path);
                    break CassandraError::Ended {
                        address,
                        status,
                        log: path,
                        tail,
                    };
                }
                Err(source) => {
                    break CassandraError::io("could not look after the process of a node")(source);
                }
            }
        };
        self.kill();
        Err(failure)
    }

    fn command(&self, parts: &Parts, log: File) -> io::Result<Command> {
        let Layout {
            folder, heap_mib, ..
        } = &self.layout;
        let (folder, lib) = (folder.display(), parts.lib());
        let lib = lib.display();
        let mut command = Command::new("sh");
        command
            .args(["-c", GUARD, "cassandra-node"])
            .arg(&self.layout.folder)
            .arg(&parts.java);
        command.args([
            format!("-Xms{heap_mib}m"),
            format!("-Xmx{heap_mib}m"),
            "-Xss512k".to_owned(),
        ]);
        command.args(JAVA_OPTIONS);
        command.arg(format!("-javaagent:{lib}/{AGENT_JAR}"));
        command.args(
            EXPORTS
                .iter()
                .map(|package| format!("--add-exports={package}=ALL-UNNAMED")),
        );
        command.args(
            OPENS
                .iter()
                .map(|package| format!("--add-opens={package}=ALL-UNNAMED")),
        );
        command.arg(format!("-Dcassandra.config=file://{folder}/cassandra.yaml"));
        command.arg(format!(
            "-Dcassandra-rackdc.properties=file://{folder}/cassandra-rackdc.properties"
        ));
        command.arg(format!(
            "-Dlogback.configurationFile=file://{folder}/logback.xml"
        ));
        command.arg(format!("-Dcassandra.storagedir={folder}"));
        command.args([
            "-cp",
            &format!("{folder}:{lib}/*"),
            "org.apache.cassandra.service.CassandraDaemon",
        ]);
        command
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log);
        // Interrupts of the terminal are for us; the guard sees our end.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        Ok(command)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Whether somebody takes CQL clients on this address.
fn listens(address: Ipv4Addr) -> bool {
    TcpStream::connect_timeout(&SocketAddrV4::new(address, CQL_PORT).into(), POLL).is_ok()
}

/// What was appended to a file since the last call; what cannot be read counts as nothing new.
fn read_from(path: &Path, offset: &mut u64) -> String {
    let read = || -> io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(*offset))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        Ok(text)
    };
    let mut text = read().unwrap_or_default();
    // A line that is being written is read again when it is complete.
    let complete = text
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |at| at + 1);
    text.truncate(complete);
    *offset += u64::try_from(complete).unwrap_or_default();
    String::from_utf8_lossy(&text).into_owned()
}

/// Runs the node's command in its own process and leaves a guard beside it, which reads our end of a pipe: when we end
/// in whatever way, the pipe ends too, and the guard kills the node and removes its folder. The shell becomes Java by
/// `exec`, so the process that we see is Java itself, and the guard is there before it.
const GUARD: &str = r#"
folder=$1
shift
exec 3<&0
(
  while read -r word; do
    case $word in
      stop) kill -TERM "$$" ;;
      done) exit 0 ;;
    esac
  done
  kill -KILL "$$"
  tries=0
  while kill -0 "$$" && [ "$tries" -lt 50 ]; do tries=$((tries + 1)); sleep 0.1; done
  rm -rf "$folder"
) <&3 >/dev/null 2>&1 &
exec "$@" 3<&- </dev/null
"#;

/// What a node says when it takes clients.
const READY_LINE: &str = "Starting listening for CQL clients";

/// What the first node says when a client can log in.
const ROLE_LINE: &str = "Created default superuser role";

/// How often a node's state is looked at while somebody waits for it.
const POLL: Duration = Duration::from_millis(50);

/// An orderly stop takes a few seconds: clients are let go, then memtables are written.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// A node that was stopped holds its ports for about three seconds.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(20);

/// A node for tests: quick to start, and sure that it is alone. It opens no JMX port.
const JAVA_OPTIONS: &[&str] = &[
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Djdk.attach.allowAttachSelf=true",
    "-Dcassandra.ring_delay_ms=1000",
    "-Dcassandra.skip_wait_for_gossip_to_settle=0",
    "-Dcassandra.superuser_setup_delay_ms=0",
    "-Dcassandra-foreground=yes",
];

/// Packages of Java 17 that Cassandra calls into.
const EXPORTS: &[&str] = &[
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.rmi/sun.rmi.transport",
    "java.rmi/sun.rmi.transport.tcp",
    "java.sql/java.sql",
    "java.base/java.lang.ref",
    "jdk.unsupported/sun.misc",
];

/// Packages of Java 17 that Cassandra reflects on.
const OPENS: &[&str] = &[
    "java.base/java.lang.module",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.util.jar",
    "jdk.management/com.sun.management.internal",
    "java.base/sun.nio.ch",
    "java.base/java.io",
    "java.base/java.nio",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/java.util",
    "java.base/java.lang",
    "java.base/java.math",
    "java.base/java.lang.reflect",
    "java.base/java.net",
    "java.rmi/sun.rmi.transport.tcp",
];

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_log_is_read_line_by_line_and_each_line_once() {
        let path = std::env::temp_dir().join(format!("messina-log-{}", std::process::id()));
        let mut offset = 0;
        fs::write(&path, "one\ntw").unwrap();
        let first = read_from(&path, &mut offset);
        fs::write(&path, "one\ntwo\n").unwrap();
        let second = read_from(&path, &mut offset);

        fs::remove_file(&path).unwrap();
        assert_eq!((first.as_str(), second.as_str()), ("one\n", "two\n"));
    }
}
