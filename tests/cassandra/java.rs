//! Owns the parts that a node runs from: a Java of the right version, and the jars of Cassandra in the cache.
//! It starts no node.

use std::env;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::Cassandra;
use super::error::CassandraError;
use super::files::{create_unique, remove_folder};

/// Everything that a node runs from.
#[derive(Debug, Clone)]
pub(super) struct Parts {
    pub(super) java: PathBuf,
    /// The folder of this release, with the jars in `lib`.
    pub(super) cache: PathBuf,
}

impl Parts {
    /// Finds Java and the jars, and fetches the jars when they are not there yet.
    pub(super) fn obtain() -> Result<Self, CassandraError> {
        let java = find_java()?;
        let cache = cache_folder();
        if !is_complete(&cache.join("lib")) {
            fetch(&cache)?;
        }
        Ok(Self { java, cache })
    }

    pub(super) fn lib(&self) -> PathBuf {
        self.cache.join("lib")
    }
}

/// The Java agent that Cassandra measures objects with.
pub(super) const AGENT_JAR: &str = "jamm-0.4.0.jar";

/// The first Java of the right version: the one of `JAVA_HOME`, the one on the `PATH`, then those of the system.
fn find_java() -> Result<PathBuf, CassandraError> {
    let home = env::var_os("JAVA_HOME").map(|home| Path::new(&home).join("bin/java"));
    let system = fs::read_dir(SYSTEM_JAVAS)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join("bin/java"));
    let mut unfit = Vec::new();
    for java in home
        .into_iter()
        .chain([PathBuf::from("java")])
        .chain(system)
    {
        // A Java that does not run is no candidate: neither variable nor folder promises one.
        let Ok(output) = Command::new(&java)
            .arg("-version")
            .stdin(Stdio::null())
            .output()
        else {
            continue;
        };
        match judge(&String::from_utf8_lossy(&output.stderr)) {
            Ok(()) => return Ok(java),
            Err(reason) => unfit.push(format!("{} {reason}", java.display())),
        }
    }
    let found = match unfit.is_empty() {
        true => "none was found by JAVA_HOME or on the PATH".to_owned(),
        false => unfit.join("; "),
    };
    Err(CassandraError::Java(format!(
        "Cassandra {} runs on Java 17; {found}",
        Cassandra::VERSION
    )))
}

/// Whether the Java that says this about its version can run Cassandra, or why not.
fn judge(version_text: &str) -> Result<(), String> {
    let version = version_text.split('"').nth(1).unwrap_or_default();
    let major = version
        .split(['.', '-', '+'])
        .next()
        .and_then(|number| number.parse::<u32>().ok());
    match major {
        Some(17) => Ok(()),
        Some(18..) => Err(format!(
            "is version {version}: since Java 18 Cassandra may not set its security manager"
        )),
        Some(_) => Err(format!("is version {version}, which is too old")),
        None => Err("does not say its version".to_owned()),
    }
}

/// The folder for this release: under `MESSINA_CASSANDRA_CACHE`, else under cargo's target folder.
fn cache_folder() -> PathBuf {
    let named = env::var_os("MESSINA_CASSANDRA_CACHE").map(PathBuf::from);
    let root = named
        .or_else(target_folder)
        .unwrap_or_else(|| env::temp_dir().join("messina"));
    // The nodes run in other folders, so a relative path would mean something else to them.
    let root = std::path::absolute(&root).unwrap_or(root);
    root.join(format!("cassandra-{}", Cassandra::VERSION))
}

/// Cargo's target folder: the one that this very program was built into, as cargo tags it.
fn target_folder() -> Option<PathBuf> {
    let program = env::current_exe().ok()?;
    let target = program
        .ancestors()
        .find(|folder| folder.join("CACHEDIR.TAG").is_file());
    target
        .map(Path::to_owned)
        .or_else(|| env::var_os("CARGO_TARGET_DIR").map(PathBuf::from))
}

fn is_complete(lib: &Path) -> bool {
    let release = format!("cassandra-all-{}.jar", Cassandra::VERSION);
    [release.as_str(), AGENT_JAR]
        .iter()
        .all(|jar| lib.join(jar).is_file())
}

/// Lets Maven copy the jars into a folder of our own, which then becomes `lib` in one step: whoever sees `lib` sees all
/// of it, and of several starters at the same time one wins.
fn fetch(cache: &Path) -> Result<(), CassandraError> {
    let made = || -> io::Result<PathBuf> {
        fs::create_dir_all(cache)?;
        let work = create_unique(cache, "fetch")?;
        fs::write(work.join("pom.xml"), pom())?;
        Ok(work)
    };
    let work = made().map_err(CassandraError::io(format!(
        "could not make the cache {}",
        cache.display()
    )))?;
    let log = cache.join("maven.log");
    run_maven(cache, &work, &log)?;
    let lib = cache.join("lib");
    let renamed = fs::rename(work.join("lib"), &lib);
    // Only the jars are wanted; a rest that stays behind harms nobody.
    let _ = remove_folder(&work);
    match renamed {
        Err(_) if is_complete(&lib) => Ok(()),
        other => other.map_err(CassandraError::io(format!(
            "could not put the jars into {}",
            lib.display()
        ))),
    }
}

fn run_maven(cache: &Path, work: &Path, log: &Path) -> Result<(), CassandraError> {
    let failed = |problem: String| CassandraError::Fetch {
        problem,
        log: log.to_owned(),
        tail: tail(log),
    };
    let output = File::create(log).and_then(|file| Ok((file.try_clone()?, file)));
    let (stdout, stderr) = output.map_err(CassandraError::io(format!(
        "could not write {}",
        log.display()
    )))?;
    let mut maven = Command::new("mvn")
        .args(["--batch-mode", COPY_GOAL, "-DincludeScope=runtime"])
        .arg(format!("-DoutputDirectory={}", work.join("lib").display()))
        .current_dir(work)
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(stderr)
        .spawn()
        .map_err(|source| CassandraError::Maven {
            cache: cache.to_owned(),
            source,
        })?;
    let until = Instant::now() + FETCH_TIMEOUT;
    let status = loop {
        match maven.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < until => thread::sleep(FETCH_POLL),
            _ => {
                // It may have ended just now, which is as good.
                let _ = maven.kill();
                let _ = maven.wait();
                return Err(failed(format!(
                    "it did not end within {} s",
                    FETCH_TIMEOUT.as_secs()
                )));
            }
        }
    };
    match status.success() {
        true if is_complete(&work.join("lib")) => Ok(()),
        true => Err(failed("a jar is missing".to_owned())),
        false => Err(failed(status.to_string())),
    }
}

/// The last lines of a log; what cannot be read is empty.
pub(super) fn tail(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

fn pom() -> String {
    let version = Cassandra::VERSION;
    format!(
        r#"<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>messina</groupId>
  <artifactId>cassandra-jars</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.cassandra</groupId>
      <artifactId>cassandra-all</artifactId>
      <version>{version}</version>
    </dependency>
  </dependencies>
</project>
"#
    )
}

/// With its version, so that every Maven runs the same plugin.
const COPY_GOAL: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies";

/// Where Linux distributions install their Javas side by side.
const SYSTEM_JAVAS: &str = "/usr/lib/jvm";

/// A hundred jars over a slow line; a registry that hangs must not hang the tests for good.
const FETCH_TIMEOUT: Duration = Duration::from_secs(600);

/// Maven takes seconds at least, so looking more often finds nothing.
const FETCH_POLL: Duration = Duration::from_millis(100);

/// Enough for a Java stack trace with its cause.
const TAIL_LINES: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn java_17_is_taken_and_every_other_version_is_refused_with_its_reason() {
        let said = |version: &str| {
            format!("openjdk version \"{version}\" 2025-04-15\nOpenJDK Runtime Environment\n")
        };

        assert_eq!(judge(&said("17.0.15")), Ok(()));
        assert_eq!(judge(&said("17")), Ok(()));
        assert!(
            judge(&said("21.0.2"))
                .unwrap_err()
                .contains("security manager")
        );
        assert!(
            judge(&said("25-ea"))
                .unwrap_err()
                .contains("security manager")
        );
        assert!(judge(&said("1.8.0_402")).unwrap_err().contains("too old"));
        assert!(judge("no such thing").unwrap_err().contains("does not say"));
    }

    #[test]
    fn a_folder_with_only_some_of_the_jars_is_not_complete() {
        let lib = create_unique(&env::temp_dir(), "messina-jars").unwrap();
        fs::write(lib.join(AGENT_JAR), "").unwrap();
        let before = is_complete(&lib);
        fs::write(
            lib.join(format!("cassandra-all-{}.jar", Cassandra::VERSION)),
            "",
        )
        .unwrap();
        let after = is_complete(&lib);

        remove_folder(&lib).unwrap();
        assert_eq!((before, after), (false, true));
    }
}
