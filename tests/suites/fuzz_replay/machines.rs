//! Mutated frames and scripts through the machines: connections, handshakes, the control plane.

use std::collections::BTreeMap;

use messina_core::wire::{Compression, Flags};
use messina_fuzz::samples::{corpus, responses};
use messina_fuzz::{
    Milestones, play_control_plane, play_frame_stream, play_handshake, play_segmented_stream,
};

use crate::mutate::{Dice, Seed, mutate};
use crate::runner::{Cap, Runner};

const STREAMS: usize = 14_000;
const SEGMENTED: usize = 10_000;
const HANDSHAKES: usize = 14_000;
const FRAMES_IN_SCRIPT: usize = 4;
const MUTATED_SCRIPTS: usize = 6_000;
const CONTROL_SCRIPTS: usize = 6_000;

/// How many mutated frames the scripts below hold.
pub(crate) const FRAMES: usize = STREAMS * FRAMES_IN_SCRIPT;

/// Builds scripts of the two connection targets.
struct Scripts {
    seeds: Vec<Seed>,
    dice: Dice,
}

impl Scripts {
    fn new(layout: &str) -> Self {
        // The features come first, which a connection agrees on by itself.
        let samples = responses()
            .into_iter()
            .filter(|sample| sample.name.starts_with(layout));
        Self {
            seeds: samples.map(|sample| Seed::new(&sample, 10)).collect(),
            dice: Dice::new(0x0068_6f73_7469_6c65),
        }
    }

    /// A mutated frame on a stream of a choice; its length is mended most of the time.
    fn frame(&mut self, streams: &[i16]) -> Vec<u8> {
        let seed = &self.seeds[self.dice.below(self.seeds.len())];
        let other = &self.seeds[self.dice.below(self.seeds.len())];
        let mut bytes = mutate(seed, other, 10, &mut self.dice).split_off(1);
        let stream = self.dice.choose(streams).to_be_bytes();
        // Events have a stream of their own.
        let stream = if bytes[4] == 0x0c { [0xff; 2] } else { stream };
        bytes[2..4].copy_from_slice(&stream);
        if !self.dice.one_in(20) {
            let length = u32::try_from(bytes.len() - 9).unwrap_or(u32::MAX);
            bytes[5..9].copy_from_slice(&length.to_be_bytes());
        }
        bytes
    }

    /// The same frame compressed, sometimes damaged after that.
    fn packed(&mut self, frame: &[u8]) -> Vec<u8> {
        let (head, body) = frame.split_at(9);
        let mut packed = head.to_vec();
        Compression::Lz4.compress(body, &mut packed);
        if self.dice.one_in(3) {
            let at = 9 + self.dice.below(packed.len() - 9);
            packed[at] ^= self.dice.byte();
        }
        packed[1] |= Flags::COMPRESSION.bits();
        let length = u32::try_from(packed.len() - 9).unwrap_or(u32::MAX);
        packed[5..9].copy_from_slice(&length.to_be_bytes());
        packed
    }

    /// Has the frame arrive, whole or in pieces.
    fn deliver(&mut self, frame: &[u8], script: &mut Vec<u8>) {
        let pieces = if self.dice.one_in(3) {
            1 + self.dice.below(40)
        } else {
            frame.len()
        };
        for piece in frame.chunks(pieces.max(1)) {
            script.push(4);
            script.extend(u16::try_from(piece.len()).unwrap_or(0).to_be_bytes());
            script.extend_from_slice(piece);
        }
    }

    fn noise(&mut self, script: &mut Vec<u8>) {
        for _ in 0..self.dice.below(5) {
            // Steps that do not begin with bytes of a frame, each with an argument.
            let step = *self.dice.choose(&[
                6, 10, 13, 13, 14, 16, 17, 18, 19, 21, 22, 23, 25, 27, 28, 29, 31,
            ]);
            script.extend([step, self.dice.byte(), self.dice.byte()]);
        }
    }

    fn stream(&mut self) -> Vec<u8> {
        let mut script = vec![self.dice.byte(), 13, 5, 13, 2, 13, 1, 13, 0x25, 25];
        for _ in 0..FRAMES_IN_SCRIPT {
            let mut frame = self.frame(&[1, 1, 2, 2, 3, 4, 0, -1, 5, 32_767]);
            if self.dice.one_in(5) {
                frame = self.packed(&frame);
            }
            self.deliver(&frame, &mut script);
            self.noise(&mut script);
        }
        script
    }

    /// Frames in segments with the right checksums: together, in pieces, or at wrong places.
    fn segmented(&mut self) -> Vec<u8> {
        let mut script = vec![self.dice.byte(), 13, 5, 13, 2, 13, 1, 13, 0x25, 25];
        for _ in 0..FRAMES_IN_SCRIPT {
            let mut payload = self.frame(&[1, 1, 2, 2, 3, 4, 0, -1, 5, 32_767]);
            if self.dice.one_in(3) {
                payload.extend(self.frame(&[1, 2, 3]));
            }
            match self.dice.below(8) {
                0 => {
                    let piece = 1 + self.dice.below(200);
                    for piece in payload.chunks(piece) {
                        script.extend([3, u8::try_from(piece.len()).unwrap_or(0)]);
                        script.extend_from_slice(piece);
                    }
                }
                1 => self.deliver(&payload, &mut script),
                _ => {
                    script.push(5);
                    script.extend(u16::try_from(payload.len()).unwrap_or(0).to_be_bytes());
                    script.extend(payload);
                }
            }
            self.noise(&mut script);
        }
        script
    }

    fn handshake(&mut self) -> Vec<u8> {
        let mut script = vec![self.dice.byte(), self.dice.byte()];
        for _ in 0..FRAMES_IN_SCRIPT {
            for _ in 0..self.dice.below(4) {
                let other_way = u8::from(self.dice.one_in(3));
                script.extend([6, 0, self.dice.byte() & 0xf0 | other_way]);
            }
            if self.dice.one_in(8) {
                script.extend([19, 6]);
            }
            if self.dice.one_in(2) {
                continue;
            }
            let mut frame = self.frame(&[1, 1, 1, 1, 1, 1, 0, -1, 2]);
            if self.dice.one_in(6) {
                // A warning comes first.
                frame[1] |= Flags::WARNING.bits();
                frame.splice(9..9, [0, 1, 0, 1, b'w']);
                let length = u32::try_from(frame.len() - 9).unwrap_or(u32::MAX);
                frame[5..9].copy_from_slice(&length.to_be_bytes());
            }
            if self.dice.one_in(8) {
                frame[0] = *self.dice.choose(&[0x83, 0x85, 0x80, 0x04]);
            }
            self.deliver(&frame, &mut script);
        }
        self.noise(&mut script);
        script
    }
}

/// What a connection may hold: its buffers, and a few frames of up to the limit that the target sets.
pub(crate) const CONNECTION: Cap = Cap {
    base: 2 * 1024 * 1024,
    per_byte: 128,
};

/// What a control plane may hold: a handful of nodes and tables, and notes that nobody took yet.
pub(crate) const CONTROL: Cap = Cap {
    base: 512 * 1024,
    per_byte: 128,
};

/// Counts in how many runs something happened.
type Reached = BTreeMap<&'static str, usize>;

fn count(reached: &mut Reached, seen: Milestones) {
    seen.into_iter()
        .for_each(|what| *reached.entry(what).or_insert(0) += 1);
}

fn check_reached(reached: &Reached, milestones: &[&str], at_least: usize) {
    for milestone in milestones {
        let count = reached.get(milestone).copied().unwrap_or(0);
        println!("  {milestone}: {count}");
        assert!(at_least <= count, "only {count} runs reach: {milestone}");
    }
}

#[test]
fn mutated_frames_leave_every_request_with_one_reply() {
    let mut scripts = Scripts::new("v4-");
    let mut runner = Runner::new("frame_stream", CONNECTION);
    let mut reached = Reached::new();
    for _ in 0..STREAMS {
        let script = scripts.stream();
        count(&mut reached, runner.run(&script, play_frame_stream));
    }
    check_reached(&reached, CONNECTION_MILESTONES, 100);
}

#[test]
fn mutated_frames_in_segments_leave_every_request_with_one_reply() {
    let mut scripts = Scripts::new("v5-");
    let mut runner = Runner::new("segmented_stream", CONNECTION);
    let mut reached = Reached::new();
    for _ in 0..SEGMENTED {
        let script = scripts.segmented();
        count(&mut reached, runner.run(&script, play_segmented_stream));
    }
    check_reached(&reached, SEGMENTED_MILESTONES, 50);
}

#[test]
fn mutated_answers_end_a_handshake_or_let_it_succeed() {
    let mut scripts = Scripts::new("v4-");
    let mut runner = Runner::new("handshake", CONNECTION);
    let mut reached = Reached::new();
    for _ in 0..HANDSHAKES {
        let script = scripts.handshake();
        count(&mut reached, runner.run(&script, play_handshake));
    }
    check_reached(&reached, HANDSHAKE_MILESTONES, 15);
}

fn run_scripts(target: &'static str, cap: Cap, play: fn(&[u8]) -> Milestones) -> Reached {
    let samples = corpus(target);
    let seeds: Vec<Seed> = samples.iter().map(|sample| Seed::new(sample, 2)).collect();
    let mut dice = Dice::new(0x0073_6372_6970_7473);
    let mut runner = Runner::new(target, cap);
    let mut reached = Reached::new();
    for round in 0..MUTATED_SCRIPTS {
        let seed = &seeds[round % seeds.len()];
        let script = mutate(seed, dice.choose(&seeds), 1, &mut dice);
        count(&mut reached, runner.run(&script, play));
    }
    reached
}

#[test]
fn mutated_scripts_break_no_promise_of_a_connection() {
    run_scripts("frame_stream", CONNECTION, play_frame_stream);
    run_scripts("segmented_stream", CONNECTION, play_segmented_stream);
    run_scripts("handshake", CONNECTION, play_handshake);
}

#[test]
fn mutated_scripts_break_no_promise_of_the_control_plane() {
    let reached = run_scripts("control_plane", CONTROL, play_control_plane);
    check_reached(&reached, &["ready", "read failed"], 500);
}

#[test]
fn scripts_by_chance_break_no_promise_of_the_control_plane() {
    let mut dice = Dice::new(0x0063_6f6e_7472_6f6c);
    let mut runner = Runner::new("control_plane", CONTROL);
    let mut reached = Reached::new();
    for _ in 0..CONTROL_SCRIPTS {
        // Most of the settings that end a session at once are left out.
        let mut script = vec![dice.byte() & 0x27, dice.byte()];
        script.extend(&[29; 3][..dice.below(4)]);
        script.extend((0..dice.below(400)).map(|_| dice.byte()));
        count(&mut reached, runner.run(&script, play_control_plane));
    }
    check_reached(&reached, CONTROL_MILESTONES, 10);
}

const CONNECTION_MILESTONES: &[&str] = &[
    "answered",
    "expired before it was sent",
    "expired",
    "lost before it was sent",
    "lost",
    "overloaded",
    "not encoded",
    "event",
    "event unknown",
    "event unreadable",
    "draining",
    "too many orphans",
    "closed: protocol",
    "closed: error of the server",
    "closed: silence",
];

const SEGMENTED_MILESTONES: &[&str] = &[
    "answered",
    "expired before it was sent",
    "expired",
    "lost before it was sent",
    "lost",
    "overloaded",
    "event",
    "event unknown",
    "event unreadable",
    "draining",
    "too many orphans",
    "closed: protocol",
    "closed: error of the server",
    "closed: silence",
];

const HANDSHAKE_MILESTONES: &[&str] = &[
    "ready",
    "warning",
    "event",
    "not opened: time-out",
    "not opened: refused",
    "not opened: protocol",
    "not opened: version",
    "not opened: no credentials",
    "not opened: authenticator",
    "not opened: challenge",
];

const CONTROL_MILESTONES: &[&str] = &[
    "ready",
    "fatal: no contact point",
    "agreed",
    "not agreed",
    "agreement unknown",
    "keyspace entered",
    "keyspace not entered",
    "host added",
    "host removed",
    "host up",
    "host down",
    "resynced",
    "schema changed",
    "tables published",
    "row skipped",
    "read failed",
    "no control connection",
    "name unresolved",
];
