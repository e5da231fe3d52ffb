//! Conversations between a connection and a scripted peer, delivered cut at every byte and ended at every byte: the
//! cut must never change what the connection says and tells.

mod conversations;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::IoSlice;
use std::ops::Range;
use std::time::{Duration, Instant};

use messina_core::conn::{Connection, ConnectionOutput, ConnectionPlan, Ticket};
use messina_core::wire::server_error::code;
use messina_core::wire::{
    Compression, ParamsRef, RequestOptionsRef, RequestRef, Response, ServerErrorDetail,
};

use self::conversations::{
    answered, control_connection, data_connection, error, in_segments, plan, refused, rows, say,
};

/// One conversation: what is planned, and what happens in turns.
struct Conversation {
    plan: ConnectionPlan,
    turns: Vec<Turn>,
}

enum Turn {
    /// The application submits so many requests.
    Submit(u64),
    /// The connection writes what it has, then the peer says this.
    Peer(Vec<u8>),
}

/// What came out of a conversation: outputs in words, bytes written.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    told: Vec<String>,
    written: Vec<u8>,
}

impl Conversation {
    fn len(&self) -> usize {
        let said = |turn: &Turn| match turn {
            Turn::Peer(bytes) => bytes.len(),
            Turn::Submit(_) => 0,
        };
        self.turns.iter().map(said).sum()
    }

    /// Plays it, with a new read wherever `is_cut` says so; stops at `end`, and ends the input there.
    fn play(&self, end: usize, is_cut: impl Fn(usize) -> bool) -> Outcome {
        let now = Instant::now();
        let mut conn = Connection::new(now, self.plan.clone());
        let mut outcome = Outcome {
            told: Vec::new(),
            written: Vec::new(),
        };
        let mut at = 0;
        let mut tickets = 0..;
        for turn in &self.turns {
            match turn {
                Turn::Submit(count) => {
                    for ticket in tickets
                        .by_ref()
                        .take(usize::try_from(*count).expect("a few"))
                    {
                        submit(&mut conn, now, ticket);
                    }
                }
                Turn::Peer(bytes) => {
                    write(&mut conn, now, &mut outcome.written);
                    let stop = bytes.len().min(end - at);
                    let mut start = 0;
                    for next in 1..=stop {
                        if next == stop || is_cut(at + next) {
                            receive(&mut conn, now, &bytes[start..next]);
                            tell(&mut conn, &mut outcome.told);
                            start = next;
                        }
                    }
                    at += stop;
                    if stop < bytes.len() {
                        break;
                    }
                }
            }
        }
        write(&mut conn, now, &mut outcome.written);
        conn.handle_eof(now);
        tell(&mut conn, &mut outcome.told);
        outcome
    }

    fn whole(&self) -> Outcome {
        self.play(self.len(), |_| false)
    }

    /// Cuts it once at each of these places, then everywhere.
    fn check_cuts(&self, places: impl IntoIterator<Item = usize>) -> usize {
        let whole = self.whole();
        let mut cuts = 0;
        for place in places {
            let cut = self.play(self.len(), |at| at == place);
            assert_same(&cut, &whole, place);
            cuts += 1;
        }
        for step in [1, 2, 3, 7, 64, 1_000] {
            let cut = self.play(self.len(), |at| at % step == 0);
            assert_same(&cut, &whole, step);
        }
        cuts
    }

    /// Ends it at each of these places: there is one end, and one reply for each request.
    fn check_ends(&self, places: impl IntoIterator<Item = usize>) {
        let whole = self.whole();
        for place in places {
            let ended = self.play(place, |_| false);
            let closed = |told: &&String| told.starts_with("closed");
            assert_eq!(
                ended.told.iter().filter(closed).count(),
                1,
                "ended at {place}"
            );
            assert!(
                ended
                    .told
                    .last()
                    .is_some_and(|told| told.starts_with("closed"))
            );
            let answered: Vec<&String> = ended
                .told
                .iter()
                .filter(|told| told.starts_with("answered"))
                .collect();
            let in_order = whole
                .told
                .iter()
                .filter(|told| told.starts_with("answered"));
            assert!(
                in_order
                    .zip(&answered)
                    .all(|(whole, ended)| whole == *ended)
            );
            let mut tickets: Vec<&str> = ended
                .told
                .iter()
                .filter_map(|told| {
                    told.split(' ')
                        .nth(1)
                        .filter(|_| told.starts_with("answered") || told.starts_with("failed"))
                })
                .collect();
            let replies = tickets.len();
            tickets.sort_unstable();
            tickets.dedup();
            assert_eq!(tickets.len(), replies, "two replies, ended at {place}");
        }
    }
}

fn assert_same(cut: &Outcome, whole: &Outcome, place: usize) {
    assert_eq!(cut.told, whole.told, "cut at {place}");
    assert!(
        cut.written == whole.written,
        "another thing is said when cut at {place}"
    );
}

fn submit(conn: &mut Connection, now: Instant, ticket: u64) {
    let request = RequestRef::Query {
        text: "SELECT",
        params: ParamsRef::default(),
    };
    let options = RequestOptionsRef::default();
    let deadline = Some(now + Duration::from_secs(10));
    conn.submit(now, Ticket(ticket), request, &options, deadline)
        .expect("the connection is open");
}

fn receive(conn: &mut Connection, now: Instant, bytes: &[u8]) {
    let mut rest = bytes;
    while !rest.is_empty() {
        let window = conn.recv_buffer();
        let len = window.len().min(rest.len());
        if len == 0 {
            return;
        }
        window[..len].copy_from_slice(&rest[..len]);
        conn.handle_received(now, len);
        rest = &rest[len..];
    }
}

fn write(conn: &mut Connection, now: Instant, written: &mut Vec<u8>) {
    loop {
        let mut slices = [IoSlice::new(&[]); 4];
        let count = conn.poll_transmit(&mut slices);
        let before = written.len();
        slices[..count]
            .iter()
            .for_each(|slice| written.extend_from_slice(slice));
        match written.len() - before {
            0 => return,
            len => conn.handle_transmitted(now, len),
        }
    }
}

fn tell(conn: &mut Connection, told: &mut Vec<String>) {
    while let Some(output) = conn.poll_output() {
        told.push(match output {
            ConnectionOutput::Reply {
                ticket,
                reply: Ok(frame),
            } => {
                let mut hash = DefaultHasher::new();
                frame.body.hash(&mut hash);
                format!(
                    "answered {} {:?} {:x}",
                    ticket.0,
                    frame.header,
                    hash.finish()
                )
            }
            ConnectionOutput::Reply {
                ticket,
                reply: Err(error),
            } => format!("failed {} {error}", ticket.0),
            ConnectionOutput::Closed(error) => format!("closed {error:?}"),
            other => format!("{other:?}"),
        });
    }
}

#[test]
fn a_control_connection_with_a_login_is_the_same_wherever_its_bytes_are_cut() {
    let conversation = control_connection();
    let told = conversation.whole().told;
    assert!(
        told.iter().any(|told| told.starts_with("Ready")),
        "{told:?}"
    );
    assert_eq!(
        told.iter()
            .filter(|told| told.starts_with("Event("))
            .count(),
        6,
        "{told:?}"
    );
    assert_eq!(
        told.iter()
            .filter(|told| told.starts_with("answered"))
            .count(),
        2
    );
    let cuts = conversation.check_cuts(1..conversation.len());
    conversation.check_ends(0..=conversation.len());
    println!("{cuts} cuts");
}

#[test]
fn answers_errors_and_what_is_around_them_are_the_same_wherever_they_are_cut() {
    let conversation = data_connection();
    let told = conversation.whole().told;
    assert_eq!(
        told.iter()
            .filter(|told| told.starts_with("answered"))
            .count(),
        6,
        "{told:?}"
    );
    assert_eq!(
        told.iter()
            .filter(|told| told.starts_with("failed"))
            .count(),
        1
    );
    let cuts = conversation.check_cuts(1..conversation.len());
    conversation.check_ends(0..=conversation.len());
    println!("{cuts} cuts");
}

#[test]
fn a_refused_login_is_the_same_wherever_it_is_cut() {
    let bad = error(
        code::AUTHENTICATION_FAILED,
        ServerErrorDetail::AuthenticationFailed,
    );
    for last in [bad, Response::AuthChallenge(None), Response::Ready] {
        let conversation = refused(last);
        let told = conversation.whole().told;
        assert_eq!(told.len(), 1, "{told:?}");
        conversation.check_cuts(1..conversation.len());
        conversation.check_ends(0..=conversation.len());
    }
}

#[test]
fn a_server_of_another_version_is_understood_wherever_its_answer_is_cut() {
    let mut answer = say(
        0,
        error(code::PROTOCOL_ERROR, ServerErrorDetail::ProtocolError),
    );
    answer[0] = 0x83;
    let conversation = Conversation {
        plan: plan(|_| ()),
        turns: vec![Turn::Peer(answer)],
    };
    let told = conversation.whole().told;
    assert!(told[0].contains("Version { server: 3 }"), "{told:?}");
    conversation.check_cuts(1..conversation.len());
}

#[test]
fn garbage_behind_good_frames_ends_the_connection_the_same_way_wherever_it_is_cut() {
    let garbage: [&[u8]; 4] = [
        &[0x84, 0, 0, 2, 8, 0xff, 0xff, 0xff, 0xff, 1, 2, 3],
        &[0x84, 0, 0, 9, 8, 0, 0, 0, 1, 7, 0, 0],
        &[0x04, 0, 0, 2, 7, 0, 0, 0, 0],
        &[0x84, 0, 0, 2, 0x55, 0, 0, 0, 0],
    ];
    for garbage in garbage {
        let conversation = answered(&[say(1, rows(9)), garbage.to_vec()]);
        let told = conversation.whole().told;
        assert!(
            told.last().is_some_and(|told| told.contains("Protocol")),
            "{told:?}"
        );
        conversation.check_cuts(1..conversation.len());
    }
}

#[test]
fn segments_are_the_same_wherever_they_are_cut() {
    for compression in [None, Some(Compression::Lz4)] {
        let conversation = in_segments(compression, 600);
        let told = conversation.whole().told;
        assert_eq!(
            told.iter()
                .filter(|told| told.starts_with("answered"))
                .count(),
            4,
            "{told:?}"
        );
        assert_eq!(
            told.iter()
                .filter(|told| told.starts_with("failed"))
                .count(),
            1
        );
        conversation.check_cuts(1..conversation.len());
        conversation.check_ends(0..=conversation.len());
        let large = in_segments(compression, 300_000);
        let told = large.whole().told;
        assert_eq!(
            told.iter()
                .filter(|told| told.starts_with("answered"))
                .count(),
            4,
            "{told:?}"
        );
        large.check_cuts(places(large.len(), 2_003));
        large.check_ends(places(large.len(), 9_001));
    }
}

/// Places around those where chunks begin and end, and others in between.
fn places(len: usize, step: usize) -> impl Iterator<Item = usize> {
    let near = |edge: usize| -> Range<usize> { edge.saturating_sub(12)..edge + 12 };
    let edges = [
        1_024, 2_048, 4_096, 8_192, 16_384, 32_768, 65_536, 131_072, 262_144, len,
    ];
    edges
        .into_iter()
        .flat_map(near)
        .chain((1..len).step_by(step))
        .filter(move |place| (1..len).contains(place))
}

#[test]
fn frames_of_several_kilobytes_are_the_same_wherever_they_are_cut() {
    let conversation = answered(&[
        say(1, rows(700)),
        say(2, rows(3_000)),
        say(3, rows(2)),
        say(4, rows(1_100)),
    ]);
    let cuts = conversation.check_cuts(1..conversation.len());
    conversation.check_ends((0..conversation.len()).step_by(11));
    println!("{cuts} cuts");
}

#[test]
fn frames_above_a_chunk_are_the_same_wherever_they_are_cut() {
    let large = [
        say(1, rows(70_000)),
        say(2, rows(10)),
        say(4, rows(200_000)),
        say(3, rows(65_000)),
    ];
    let conversation = answered(&large);
    let cuts = conversation.check_cuts(places(conversation.len(), 1_009));
    conversation.check_ends(places(conversation.len(), 5_003));
    println!("{cuts} cuts");
}
