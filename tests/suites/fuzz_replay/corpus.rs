//! The seed corpus: it is what the samples say, small, and every input in it passes.

use std::fs;
use std::path::{Path, PathBuf};

use messina_fuzz::TARGETS;
use messina_fuzz::samples::corpus;

use crate::machines::{CONNECTION, CONTROL};
use crate::mutations::{BLOCK, DECODER, SEGMENT};
use crate::runner::{Cap, Runner};

fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../core/fuzz/corpus")
        .join(target)
}

fn files(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(folder(target)).expect("every target has a folder");
    let mut files: Vec<(PathBuf, Vec<u8>)> = entries
        .map(|entry| entry.expect("the folder can be read").path())
        .map(|path| (path.clone(), fs::read(path).expect("a file can be read")))
        .collect();
    files.sort();
    files
}

fn cap(target: &str) -> Cap {
    match target {
        "frame_stream" | "handshake" | "segmented_stream" => CONNECTION,
        "control_plane" => CONTROL,
        "compression" => BLOCK,
        "segment_stream" => SEGMENT,
        _ => DECODER,
    }
}

#[test]
fn every_input_of_the_corpus_passes() {
    for (target, entry) in TARGETS {
        let mut runner = Runner::new(target, cap(target));
        for (_, input) in files(target) {
            runner.run(&input, entry);
        }
        assert!(0 < runner.inputs(), "{target} has no corpus");
    }
}

#[test]
fn the_corpus_holds_the_samples_of_every_target() {
    for (target, _) in TARGETS {
        for sample in corpus(target) {
            let stored = fs::read(folder(target).join(&sample.name)).ok();
            let name = &sample.name;
            assert!(
                stored == Some(sample.bytes),
                "{target}/{name} is out of date: cargo run -p messina-fuzz --example write_corpus"
            );
        }
    }
}

#[test]
fn the_corpus_stays_small() {
    let total: usize = TARGETS
        .iter()
        .flat_map(|(target, _)| files(target))
        .map(|(_, input)| input.len())
        .sum();
    println!("the corpus has {total} bytes");
    assert!(total < 100_000, "{total} bytes");
}

#[test]
fn every_target_has_a_wrapper_for_coverage_guided_runs() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/fuzz/Cargo.toml");
    let manifest = fs::read_to_string(manifest).expect("the manifest can be read");
    for (target, _) in TARGETS {
        assert!(
            manifest.contains(&format!("name = \"{target}\"")),
            "{target} has no program"
        );
        let wrapper = folder(target).join(format!("../../fuzz_targets/{target}.rs"));
        let wrapper = fs::read_to_string(wrapper).expect("the wrapper can be read");
        assert!(
            wrapper.contains(&format!("messina_fuzz::{target}(data)")),
            "{target}"
        );
    }
}
