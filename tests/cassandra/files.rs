//! Owns what lies on disk for a cluster: where its run lives, and the configuration files of each node.
//! It starts nothing.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::CassandraError;

/// Where nodes listen for CQL clients.
pub(super) const CQL_PORT: u16 = 9042;

/// Where nodes listen for each other.
pub(super) const STORAGE_PORT: u16 = 7000;

/// What the configuration of one node depends on.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    pub(super) folder: PathBuf,
    pub(super) address: Ipv4Addr,
    pub(super) seed: Ipv4Addr,
    pub(super) datacenter: String,
    pub(super) rack: String,
    pub(super) passwords: bool,
    pub(super) settings: Arc<[(String, String)]>,
    pub(super) heap_mib: usize,
    pub(super) encryption: Option<NodeEncryption>,
}

/// How a node encrypts what it says to clients.
#[derive(Debug, Clone)]
pub(super) struct NodeEncryption {
    /// The node's key and certificate.
    pub(super) identity_pem: String,
    /// Whose certificates clients may show.
    pub(super) authority_pem: String,
    /// Whether clients may also speak without encryption.
    pub(super) optional: bool,
    /// Whether clients must show a certificate.
    pub(super) mutual: bool,
}

impl NodeEncryption {
    /// The value of `client_encryption_options` for files in this folder.
    fn yaml(&self, folder: &Path) -> String {
        let under = |name: &str| format!("\"{}\"", folder.join(name).display());
        let (optional, mutual) = (self.optional, self.mutual);
        let (keystore, truststore) = (under(IDENTITY), under(AUTHORITY));
        format!(
            "{{ enabled: true, optional: {optional}, require_client_auth: {mutual}, \
             ssl_context_factory: {{ class_name: {SSL_FACTORY} }}, \
             keystore: {keystore}, truststore: {truststore} }}"
        )
    }
}

impl Layout {
    /// The output of the node. It lies beside the folder, so that it stays when the folder goes.
    pub(super) fn log(&self) -> PathBuf {
        self.folder.with_extension("log")
    }

    /// Empties the node's folder and writes its configuration.
    pub(super) fn write(&self) -> Result<(), CassandraError> {
        let written = || -> io::Result<()> {
            remove_folder(&self.folder)?;
            fs::create_dir_all(&self.folder)?;
            fs::write(self.folder.join("cassandra.yaml"), self.yaml())?;
            fs::write(
                self.folder.join("cassandra-rackdc.properties"),
                self.rackdc(),
            )?;
            if let Some(encryption) = &self.encryption {
                fs::write(self.folder.join(IDENTITY), &encryption.identity_pem)?;
                fs::write(self.folder.join(AUTHORITY), &encryption.authority_pem)?;
            }
            fs::write(self.folder.join("logback.xml"), LOGBACK)
        };
        written().map_err(CassandraError::io(format!(
            "could not write the files of a node in {}",
            self.folder.display()
        )))
    }

    fn rackdc(&self) -> String {
        format!("dc={}\nrack={}\n", self.datacenter, self.rack)
    }

    fn yaml(&self) -> String {
        let Self {
            address,
            seed,
            folder,
            ..
        } = self;
        let under = |name: &str| format!("\"{}\"", folder.join(name).display());
        let seeds = format!(
            "[{{ class_name: {SEED_PROVIDER}, parameters: [{{ seeds: \"{seed}:{STORAGE_PORT}\" }}] }}]"
        );
        let mut keys = vec![
            ("cluster_name", "messina".to_owned()),
            ("num_tokens", "16".to_owned()),
            (
                "partitioner",
                "org.apache.cassandra.dht.Murmur3Partitioner".to_owned(),
            ),
            ("endpoint_snitch", "GossipingPropertyFileSnitch".to_owned()),
            ("seed_provider", seeds),
            ("listen_address", address.to_string()),
            ("storage_port", STORAGE_PORT.to_string()),
            ("rpc_address", address.to_string()),
            ("start_native_transport", "true".to_owned()),
            ("native_transport_port", CQL_PORT.to_string()),
            ("data_file_directories", format!("[{}]", under("data"))),
            ("commitlog_directory", under("commitlog")),
            ("saved_caches_directory", under("saved_caches")),
            ("hints_directory", under("hints")),
            ("cdc_raw_directory", under("cdc")),
            ("commitlog_sync", "periodic".to_owned()),
            ("commitlog_sync_period", "10000ms".to_owned()),
            ("memtable_allocation_type", "heap_buffers".to_owned()),
            ("materialized_views_enabled", "true".to_owned()),
            ("user_defined_functions_enabled", "true".to_owned()),
        ];
        if self.passwords {
            keys.push(("authenticator", "PasswordAuthenticator".to_owned()));
            keys.push(("authorizer", "CassandraAuthorizer".to_owned()));
            keys.push(("role_manager", "CassandraRoleManager".to_owned()));
        }
        if let Some(encryption) = &self.encryption {
            keys.push(("client_encryption_options", encryption.yaml(folder)));
        }
        keys.retain(|(key, _)| !self.settings.iter().any(|(set, _)| set == key));
        let settings = self
            .settings
            .iter()
            .map(|(key, value)| (key.as_str(), value.clone()));
        keys.into_iter()
            .chain(settings)
            .map(|(key, value)| format!("{key}: {value}\n"))
            .collect()
    }
}

/// Makes the folder of a new run under the cache, and removes what runs before the last ones left behind.
pub(super) fn new_run_folder(cache: &Path) -> Result<PathBuf, CassandraError> {
    let runs = cache.join("runs");
    let made = || -> io::Result<PathBuf> {
        fs::create_dir_all(&runs)?;
        prune(&runs)?;
        create_unique(&runs, "run")
    };
    made().map_err(CassandraError::io(format!(
        "could not make a folder for this run in {}",
        runs.display()
    )))
}

/// Makes a folder that no other process has made.
pub(super) fn create_unique(parent: &Path, prefix: &str) -> io::Result<PathBuf> {
    let process = std::process::id();
    for count in 0_u32.. {
        let folder = parent.join(format!("{prefix}-{process}-{count}"));
        match fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => (),
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::from(io::ErrorKind::AlreadyExists))
}

/// Removes a folder and what is in it; one that is not there is fine.
pub(super) fn remove_folder(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Removes all but the newest finished runs. A run is finished when only files, the logs, are left in its folder.
fn prune(runs: &Path) -> io::Result<()> {
    let mut finished = Vec::new();
    for run in fs::read_dir(runs)?.flatten() {
        let Ok(entries) = fs::read_dir(run.path()) else {
            continue;
        };
        let entries: Vec<_> = entries.flatten().collect();
        let is_file = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_file());
        // An empty folder may belong to somebody who has just made it.
        if !entries.is_empty() && entries.iter().all(is_file) {
            finished.push((run.metadata()?.modified()?, run.path()));
        }
    }
    finished.sort();
    let surplus = finished.len().saturating_sub(RUNS_KEPT);
    for (_, folder) in finished.into_iter().take(surplus) {
        // Another starter may remove the same folder at the same time.
        let _ = remove_folder(&folder);
    }
    Ok(())
}

/// A log is about 100 KB: enough of them to look back at a day's failures, little enough to forget them.
const RUNS_KEPT: usize = 20;

const SEED_PROVIDER: &str = "org.apache.cassandra.locator.SimpleSeedProvider";

/// Reads keys and certificates as PEM, so that no keystore has to be made.
const SSL_FACTORY: &str = "org.apache.cassandra.security.PEMBasedSslContextFactory";

/// The file with a node's key and certificate.
const IDENTITY: &str = "identity.pem";

/// The file with the certificate that clients' certificates are signed by.
const AUTHORITY: &str = "authority.pem";

const LOGBACK: &str = r#"<configuration>
  <appender name="STDOUT" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%-5level %date{HH:mm:ss,SSS} %logger{0} - %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="STDOUT"/></root>
</configuration>
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_takes_the_place_of_the_value_that_the_key_would_have() {
        let settings = [
            ("num_tokens".to_owned(), "1".to_owned()),
            ("cdc_enabled".to_owned(), "true".to_owned()),
        ];

        let yaml = layout(&settings).yaml();

        let lines: Vec<&str> = yaml
            .lines()
            .filter(|line| line.starts_with("num_tokens") || line.starts_with("cdc_e"))
            .collect();
        assert_eq!(lines, ["num_tokens: 1", "cdc_enabled: true"]);
    }

    #[test]
    fn a_node_listens_for_clients_and_for_its_peers_on_its_own_address_only() {
        let yaml = layout(&[]).yaml();

        assert!(yaml.contains("\nrpc_address: 127.0.3.2\n"), "{yaml}");
        assert!(yaml.contains("\nlisten_address: 127.0.3.2\n"), "{yaml}");
        assert!(yaml.contains("seeds: \"127.0.3.1:7000\""), "{yaml}");
        assert!(!yaml.contains("authenticator"), "{yaml}");
    }

    #[test]
    fn only_finished_runs_beyond_the_newest_ones_are_removed() {
        let runs = create_unique(&std::env::temp_dir(), "messina-prune").unwrap();
        let alive = create_unique(&runs, "run").unwrap();
        fs::create_dir(alive.join("node1")).unwrap();
        for _ in 0..RUNS_KEPT + 3 {
            let finished = create_unique(&runs, "run").unwrap();
            fs::write(finished.join("node1.log"), "").unwrap();
        }

        prune(&runs).unwrap();

        let left = fs::read_dir(&runs).unwrap().count();
        let is_alive = alive.join("node1").exists();
        remove_folder(&runs).unwrap();
        assert_eq!((left, is_alive), (RUNS_KEPT + 1, true));
    }

    fn layout(settings: &[(String, String)]) -> Layout {
        Layout {
            folder: PathBuf::from("/runs/run-1/node2"),
            address: Ipv4Addr::new(127, 0, 3, 2),
            seed: Ipv4Addr::new(127, 0, 3, 1),
            datacenter: "dc1".to_owned(),
            rack: "rack1".to_owned(),
            passwords: false,
            settings: Arc::from(settings),
            heap_mib: 512,
            encryption: None,
        }
    }
}
