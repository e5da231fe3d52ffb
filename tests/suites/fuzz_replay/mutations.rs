//! Mutated frames, values and types through the decoders: a million and more in each run, always the same ones.

use std::collections::BTreeMap;

use messina_fuzz::samples::{Sample, corpus, requests, responses, values};
use messina_fuzz::{
    Kind, REQUEST_KINDS, RESPONSE_KINDS, compression, custom_type, read_request, read_response,
    read_value, response_roundtrip, row_plan, segment_stream,
};

use crate::mutate::{Dice, Seed, mutate};
use crate::runner::{Cap, Runner};

/// What reading a frame may hold: what is decoded is a few times larger than its bytes, since the shortest items of
/// the wire have two to eight bytes where ours have a few machine words.
pub(crate) const DECODER: Cap = Cap {
    base: 16 * 1024,
    per_byte: 96,
};

/// What decompression may hold: what a block can grow to, twice, and the table of the algorithm.
pub(crate) const BLOCK: Cap = Cap {
    base: 64 * 1024,
    per_byte: 1_024,
};

/// What segments may hold: the target repeats what it seals, and keeps copies to compare.
pub(crate) const SEGMENT: Cap = Cap {
    base: 64 * 1024,
    per_byte: 80,
};

/// The features, then the header of a frame.
const FRAME_FROM: usize = 10;

const RESPONSES: usize = 510_000;
const RESPONSE_ROUNDTRIPS: usize = 200_000;
const REQUESTS: usize = 240_000;
const VALUES: usize = 120_000;
const TYPES: usize = 60_000;
const ROWS: usize = 40_000;
const BLOCKS: usize = 20_000;
const SEGMENTS: usize = 8_000;

/// Mutations of valid frames: of these two kinds alone there are not fewer than were promised, and the machines get
/// more of them.
const FRAMES: usize = RESPONSES + RESPONSE_ROUNDTRIPS + REQUESTS + crate::machines::FRAMES;
const _: () = assert!(1_000_000 <= FRAMES);

/// Runs mutations of the samples, and counts as what those that differ from their sample were read.
fn run<K: Ord + Copy>(
    runner: &mut Runner,
    samples: &[Sample],
    from: usize,
    rounds: usize,
    read: impl Fn(&[u8]) -> Option<K>,
) -> BTreeMap<K, usize> {
    let seeds: Vec<Seed> = samples
        .iter()
        .map(|sample| Seed::new(sample, from))
        .collect();
    let mut dice = Dice::new(SEED);
    let mut counts = BTreeMap::new();
    for round in 0..rounds {
        let seed = &seeds[round % seeds.len()];
        let mut input = mutate(seed, dice.choose(&seeds), from, &mut dice);
        if dice.one_in(16) && !input.is_empty() {
            // Another layout, or a header that does not fit its body.
            input[0] ^= 1 << dice.below(8);
        }
        if 1 < from && dice.one_in(16) {
            let at = 1 + dice.below(from - 1);
            input[at] ^= 1 << dice.below(8);
        }
        if let Some(kind) = runner.run(&input, &read)
            && input != seed.bytes
        {
            *counts.entry(kind).or_insert(0) += 1;
        }
    }
    counts
}

fn check_shares(counts: &BTreeMap<Kind, usize>, kinds: &[Kind], at_least: usize) {
    for (message, detail) in kinds {
        let count = counts.get(&(*message, *detail)).copied().unwrap_or(0);
        println!("  {message} {detail}: {count}");
        assert!(
            at_least <= count,
            "only {count} mutated inputs are read as {message} {detail}"
        );
    }
    let unknown: Vec<&Kind> = counts.keys().filter(|kind| !kinds.contains(kind)).collect();
    assert!(unknown.is_empty(), "kinds that are not listed: {unknown:?}");
}

#[test]
fn mutated_responses_reach_every_decoder_and_hold_little() {
    let mut runner = Runner::new("response_body", DECODER);
    let counts = run(
        &mut runner,
        &responses(),
        FRAME_FROM,
        RESPONSES,
        read_response,
    );
    check_shares(&counts, RESPONSE_KINDS, 300);
}

#[test]
fn mutated_responses_that_are_read_can_be_written_and_read_again() {
    let mut runner = Runner::new("response_roundtrip", DECODER);
    run(
        &mut runner,
        &responses(),
        FRAME_FROM,
        RESPONSE_ROUNDTRIPS,
        |input| {
            response_roundtrip(input);
            None::<()>
        },
    );
}

#[test]
fn mutated_requests_reach_every_decoder_and_come_back_as_they_were() {
    let mut runner = Runner::new("request_roundtrip", DECODER);
    let counts = run(&mut runner, &requests(), FRAME_FROM, REQUESTS, read_request);
    check_shares(&counts, REQUEST_KINDS, 500);
}

#[test]
fn mutated_values_are_refused_or_come_back_as_they_were() {
    let mut runner = Runner::new("value_decode", DECODER);
    let counts = run(&mut runner, &values(), 0, VALUES, |input| {
        Some(read_value(input))
    });
    println!("  {counts:?}");
    for read in [false, true] {
        assert!(
            20_000 < counts.get(&read).copied().unwrap_or(0),
            "{counts:?}"
        );
    }
}

/// Runs mutations of a target's corpus.
fn run_corpus(target: &'static str, cap: Cap, rounds: usize, entry: fn(&[u8])) {
    let mut runner = Runner::new(target, cap);
    run(&mut runner, &corpus(target), 0, rounds, |input| {
        entry(input);
        None::<()>
    });
    assert_eq!(runner.inputs(), rounds);
}

#[test]
fn mutated_class_names_and_type_options_hold_little() {
    run_corpus("custom_type", DECODER, TYPES, custom_type);
}

#[test]
fn mutated_rows_are_walked_to_their_end() {
    run_corpus("row_plan", DECODER, ROWS, row_plan);
}

#[test]
fn mutated_blocks_are_decompressed_within_their_limit() {
    run_corpus("compression", BLOCK, BLOCKS, compression);
}

#[test]
fn mutated_segments_are_found_out() {
    run_corpus("segment_stream", SEGMENT, SEGMENTS, segment_stream);
}

/// Any number; the same one makes the same run.
const SEED: u64 = 0x6d65_7373_696e_6121;
