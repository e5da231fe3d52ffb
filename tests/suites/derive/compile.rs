//! Runs the compiler once: on crates as users write them, and on what it must refuse with a good message.
//!
//! The crates depend on one adapter and on nothing else, so that little has to be built for them. What the compiler
//! says about the wrong ones is compared by place and message, which stay the same from one compiler to the next.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::{env, fs};

use serde_json::Value as Json;

const ADAPTER: &str = "messina-tokio = { path = \"{adapter}\", default-features = false }";
const RENAMED: &str =
    "driver = { package = \"messina-tokio\", path = \"{adapter}\", default-features = false }";
const BEHIND: &str = "facade = { path = \"../facade\" }";

/// The crates of users: their names, what they depend on, and their source.
const USERS: [(&str, &str, &str); 4] = [
    ("app", ADAPTER, include_str!("user/app.rs")),
    ("renamed", RENAMED, include_str!("user/renamed.rs")),
    ("facade", ADAPTER, include_str!("user/facade.rs")),
    ("behind", BEHIND, include_str!("user/behind.rs")),
];

/// The crate of all programs that do not compile.
const WRONG: &str = "wrong";

#[test]
fn a_crate_that_depends_on_one_adapter_only_can_use_every_derive() {
    for (name, ..) in USERS {
        assert_eq!(CHECKED.said.get(name), None, "what was said about {name}");
        assert!(
            CHECKED.compiled.iter().any(|compiled| compiled == name),
            "{name} did not compile:\n{}",
            CHECKED.stderr
        );
    }
}

#[test]
fn what_a_derive_cannot_do_is_told_where_it_was_asked() {
    let mut cases = 0;
    for case in files(&suite().join("fail"), "rs") {
        let name = stem(&case);
        let said = CHECKED.said.get(&name).map(|said| said.join(""));
        let said = said.unwrap_or_default();
        let expected = fs::read_to_string(case.with_extension("stderr")).unwrap_or_default();
        // Whoever means it so copies this file beside the case.
        let actual = workspace().join(format!("{name}.stderr"));
        write(&actual, &said);
        assert!(
            said == expected && !said.is_empty(),
            "expected\n{expected}\nbut the compiler says, as in {}\n{said}\n{}",
            actual.display(),
            CHECKED.stderr
        );
        cases += 1;
    }
    assert!(4 <= cases, "{cases} cases");
}

/// What came out of the compiler.
struct Checked {
    /// The names of the crates and programs that compiled.
    compiled: Vec<String>,
    /// What was said about each of the others: lines of place, level and message, each once.
    said: BTreeMap<String, Vec<String>>,
    /// What cargo said.
    stderr: String,
}

static CHECKED: LazyLock<Checked> = LazyLock::new(|| {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let workspace = workspace();
    write_workspace(&workspace);
    // The folder of this build: what both need is built once. Nothing is fetched, the versions are those of this build.
    let target = home
        .parent()
        .expect("cargo's folder for tests lies in the target folder");
    let output = Command::new(env::var_os("CARGO").expect("cargo runs the tests"))
        .args([
            "check",
            "--workspace",
            "--offline",
            "--keep-going",
            "--quiet",
        ])
        .args(["--message-format=json", "--color=never", "--target-dir"])
        .arg(target)
        .current_dir(&workspace)
        .output()
        .expect("cargo can be run");
    let mut checked = Checked {
        compiled: Vec::new(),
        said: BTreeMap::new(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    };
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let message: Json = serde_json::from_str(line).expect("cargo writes JSON");
        checked.take(&message);
    }
    checked
});

impl Checked {
    fn take(&mut self, message: &Json) {
        let name = message["target"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        match message["reason"].as_str() {
            Some("compiler-artifact") => self.compiled.push(name),
            Some("compiler-message") => self.take_said(name, &message["message"]),
            _ => {}
        }
    }

    fn take_said(&mut self, name: String, message: &Json) {
        let spans = message["spans"].as_array().map(Vec::as_slice);
        let mut spans = spans.unwrap_or_default().iter();
        // Sums at the end have no place.
        let Some(span) = spans.find(|span| span["is_primary"] == true) else {
            return;
        };
        let span = in_file(span, &name);
        let (line, column) = (&span["line_start"], &span["column_start"]);
        let level = message["level"].as_str().unwrap_or_default();
        let text = message["message"].as_str().unwrap_or_default();
        let said = self.said.entry(name).or_default();
        let line = format!("{line}:{column}: {level}: {text}\n");
        // How often a compiler says the same is its own affair.
        if !said.contains(&line) {
            said.push(line);
        }
    }
}

/// Follows a place inside of a macro to where the macro was called in the case's own file.
fn in_file<'s>(mut span: &'s Json, name: &str) -> &'s Json {
    let file = format!("/{name}.rs");
    let is_there = |span: &Json| {
        span["file_name"]
            .as_str()
            .is_some_and(|found| found.ends_with(&file))
    };
    while !is_there(span) && span["expansion"]["span"].is_object() {
        span = &span["expansion"]["span"];
    }
    span
}

fn write_workspace(workspace: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the testkit lies in the repository");
    let adapter = root.join("runtime-tokio");
    let adapter = adapter
        .to_str()
        .expect("the path of the repository is UTF-8");
    // Programs of earlier runs may be of cases that are gone.
    let _ = fs::remove_dir_all(workspace);
    // The profile is that of the repository, so that its builds can be used again.
    let manifest = "[workspace]\nresolver = \"3\"\nmembers = [\"*\"]\n\n[profile.dev]\ndebug = \"line-tables-only\"\n";
    write(&workspace.join("Cargo.toml"), manifest);
    let lock = fs::read_to_string(root.join("Cargo.lock")).expect("the workspace has a lock file");
    write(&workspace.join("Cargo.lock"), &lock);
    let package = |name: &str, dependencies: &str| {
        let dependencies = dependencies.replace("{adapter}", adapter);
        let manifest = format!(
            "[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\n{dependencies}\n"
        );
        write(&workspace.join(name).join("Cargo.toml"), &manifest);
    };
    for (name, dependencies, source) in USERS {
        package(name, dependencies);
        write(&workspace.join(name).join("src/lib.rs"), source);
    }
    package(WRONG, ADAPTER);
    for case in files(&suite().join("fail"), "rs") {
        let source = fs::read_to_string(&case).expect("a case can be read");
        let program = format!("{WRONG}/src/bin/{}.rs", stem(&case));
        write(&workspace.join(program), &source);
    }
}

/// Returns the folder of the users' crates.
fn workspace() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("derive-users")
}

/// Returns the folder of this suite.
fn suite() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("suites/derive")
}

/// Returns the files of a folder with this extension, in the order of their names.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .expect("the folder is there")
        .map(|entry| entry.expect("a folder can be read").path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    files.sort();
    files
}

fn stem(path: &Path) -> String {
    path.file_stem()
        .map(|stem| stem.to_string_lossy().into_owned())
        .unwrap_or_default()
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a file lies in a folder"))
        .expect("a folder can be made");
    fs::write(path, text).expect("a file can be written");
}
