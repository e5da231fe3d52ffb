//! One connection against the scripted peer: both sides of the wire format meet here.

use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use messina_core::config::session::SessionConfig;
use messina_core::conn::{Connection, ConnectionOutput, ConnectionPlan, Role, StreamKey, Ticket};
use messina_core::error::connect::{ConnectCause, ConnectPhase, ConnectionError};
use messina_core::policy::auth::PlainCredentials;
use messina_core::seed::{Random, Seed};
use messina_core::wire::{
    EventKind, ParamsRef, Request, RequestOptionsRef, RequestRef, Response, ResultBody,
    ServerErrorDetail, ServerEvent,
};
use messina_testkit::peer::{Reply, ScriptedPeer, refusal};

/// What does not come to rest within so many steps is caught in a loop.
pub(crate) const STEPS_MAX: usize = 100_000;

/// A connection and its peer, joined by a cable that a test can cut into pieces.
pub(crate) struct Cable {
    pub(crate) conn: Connection,
    pub(crate) peer: ScriptedPeer,
    pub(crate) now: Instant,
    outputs: Vec<ConnectionOutput>,
}

impl Cable {
    pub(crate) fn new(plan: ConnectionPlan, peer: ScriptedPeer) -> Self {
        let now = Instant::now();
        Self {
            conn: Connection::new(now, plan),
            peer,
            now,
            outputs: Vec::new(),
        }
    }

    /// Carries bytes both ways until nothing moves, in pieces of random lengths up to `piece`.
    pub(crate) fn run(&mut self, random: &mut Random, piece: usize) {
        for _ in 0..STEPS_MAX {
            let mut slices = [IoSlice::new(&[]); 4];
            let count = self.conn.poll_transmit(&mut slices);
            let mut sent: Vec<u8> = slices[..count].concat_slices();
            sent.truncate(1 + random.index(piece));
            if !sent.is_empty() {
                self.conn.handle_transmitted(self.now, sent.len());
                self.peer.receive(&sent);
            }
            let answer = self.peer.take();
            let mut rest = &answer[..];
            while !rest.is_empty() {
                let window = self.conn.recv_buffer();
                if window.is_empty() {
                    break;
                }
                let len = rest.len().min(window.len()).min(1 + random.index(piece));
                window[..len].copy_from_slice(&rest[..len]);
                self.conn.handle_received(self.now, len);
                rest = &rest[len..];
            }
            if self.peer.is_closed() {
                self.conn.handle_eof(self.now);
            }
            self.outputs
                .extend(std::iter::from_fn(|| self.conn.poll_output()));
            if sent.is_empty() && answer.is_empty() {
                return;
            }
        }
        panic!("the cable does not come to rest");
    }

    pub(crate) fn settle(&mut self) -> Vec<ConnectionOutput> {
        self.run(&mut Seed::from_u64(0).random(), usize::MAX - 1);
        std::mem::take(&mut self.outputs)
    }

    fn query(&mut self, ticket: u64, text: &str) -> StreamKey {
        let request = RequestRef::Query {
            text,
            params: ParamsRef::default(),
        };
        self.conn
            .submit(
                self.now,
                Ticket(ticket),
                request,
                &RequestOptionsRef::default(),
                None,
            )
            .expect("an open connection takes requests")
    }
}

trait ConcatSlices {
    fn concat_slices(&self) -> Vec<u8>;
}

impl ConcatSlices for [IoSlice<'_>] {
    fn concat_slices(&self) -> Vec<u8> {
        self.iter()
            .flat_map(|slice| slice.iter().copied())
            .collect()
    }
}

pub(crate) fn plan(change: impl FnOnce(&mut SessionConfig)) -> ConnectionPlan {
    let mut session = SessionConfig::new(&mut Seed::from_u64(1).random());
    change(&mut session);
    let address: SocketAddr = ([192, 0, 2, 1], 9042).into();
    ConnectionPlan::new(address, Arc::new(session), Seed::from_u64(2))
}

fn is_query(wanted: &'static str) -> impl Fn(&Request) -> bool + Send {
    move |request| matches!(request, Request::Query { text, .. } if text == wanted)
}

fn void() -> Reply {
    Reply::Answer(Response::Result(ResultBody::Void))
}

#[test]
fn a_whole_control_connection_is_set_up_by_the_script() {
    let mut plan = plan(|session| {
        session.credentials = Some(Arc::new(PlainCredentials::new("ada", "secret")));
        session.keyspace = Some("ks".into());
    });
    plan.role = Role::Control;
    plan.events = vec![EventKind::StatusChange, EventKind::SchemaChange];
    let class = "org.apache.cassandra.auth.PasswordAuthenticator";
    let peer = ScriptedPeer::new()
        .expect("OPTIONS", |request| matches!(request, Request::Options))
        .reply(Reply::Answer(Response::Supported(Default::default())))
        .expect("STARTUP", |request| {
            matches!(request, Request::Startup(options) if options.iter().any(|(key, _)| key == "SESSION_ID"))
        })
        .reply(Reply::Answer(Response::Authenticate(class.into())))
        .expect("the login", |request| {
            matches!(request, Request::AuthResponse(Some(token)) if &token[..] == b"\0ada\0secret")
        })
        .reply(Reply::Answer(Response::AuthSuccess(None)))
        .expect("REGISTER", |request| {
            matches!(request, Request::Register(kinds) if kinds[..] == [EventKind::StatusChange, EventKind::SchemaChange])
        })
        .reply(Reply::Answer(Response::Ready))
        .expect("USE", is_query("USE \"ks\""))
        .reply(Reply::Answer(Response::Result(ResultBody::SetKeyspace("ks".into()))));
    let mut cable = Cable::new(plan, peer);
    assert!(matches!(
        cable.settle()[..],
        [ConnectionOutput::Reported(_), ConnectionOutput::Ready(_)]
    ));
    cable.peer.finish().unwrap();
    let address: SocketAddr = ([192, 0, 2, 7], 9042).into();
    let event = ServerEvent::Status { up: false, address };
    cable.peer.event(event.clone());
    assert!(matches!(&cable.settle()[..], [ConnectionOutput::Event(got)] if *got == event));
}

#[test]
fn a_refused_login_ends_the_attempt_with_the_servers_error() {
    let plan =
        plan(|session| session.credentials = Some(Arc::new(PlainCredentials::new("ada", "wrong"))));
    let peer = ScriptedPeer::new()
        .expect("OPTIONS", |request| matches!(request, Request::Options))
        .reply(Reply::Answer(Response::Supported(Default::default())))
        .expect("STARTUP", |request| matches!(request, Request::Startup(_)))
        .reply(Reply::Answer(Response::Authenticate("any".into())))
        .expect("the login", |request| {
            matches!(request, Request::AuthResponse(_))
        })
        .reply(Reply::Answer(refusal(
            0x0100,
            "no such user",
            ServerErrorDetail::AuthenticationFailed,
        )));
    let mut cable = Cable::new(plan, peer);
    let outputs = cable.settle();
    let [ConnectionOutput::Closed(ConnectionError::Connect(error))] = &outputs[..] else {
        panic!("{outputs:?}")
    };
    assert_eq!(error.phase, ConnectPhase::Auth);
    assert!(matches!(&error.cause, ConnectCause::Server(error) if error.message == "no such user"));
}

#[test]
fn a_peer_that_hangs_up_in_the_middle_leaves_no_request_without_a_reply() {
    let peer = ScriptedPeer::new()
        .handshake()
        .expect("the first", is_query("one"))
        .reply(void())
        .expect("the second", is_query("two"))
        .reply(Reply::Close);
    let mut cable = Cable::new(plan(|_| ()), peer);
    cable.settle();
    (1..=3)
        .zip(["one", "two", "three"])
        .for_each(|(ticket, text)| drop_key(cable.query(ticket, text)));
    let outputs = cable.settle();
    let replies = outputs
        .iter()
        .filter(|output| matches!(output, ConnectionOutput::Reply { .. }))
        .count();
    assert_eq!(replies, 3);
    assert!(matches!(
        outputs.last(),
        Some(ConnectionOutput::Closed(ConnectionError::Eof))
    ));
}

#[test]
fn a_thousand_requests_find_their_answers_over_a_cable_cut_anywhere() {
    for seed in 0..10 {
        let mut random = Seed::from_u64(seed).random();
        let peer = ScriptedPeer::new().handshake().otherwise(Reply::Silence);
        let mut cable = Cable::new(
            plan(|session| {
                session.limits.in_flight_max = 50;
                session.limits.orphans_max = 20;
            }),
            peer,
        );
        cable.settle();
        let mut asked = 0;
        let mut answered = vec![false; 1_000];
        let mut done = 2;
        let mut rounds = 0;
        while answered.iter().any(|answered| !answered) {
            rounds += 1;
            let missing = answered.iter().filter(|answered| !**answered).count();
            assert!(rounds < 10_000, "{missing} requests are never answered");
            for _ in 0..random.index(80) {
                if asked < 1_000 {
                    cable.query(asked, &format!("ask {asked}"));
                    asked += 1;
                }
            }
            cable.run(&mut random, 300);
            // Answer what came, in any order, each with the text of its question.
            let mut open: Vec<(i16, String)> = cable.peer.seen()[done..]
                .iter()
                .filter_map(|seen| match &seen.request {
                    Request::Query { text, .. } => Some((seen.stream, text.clone())),
                    _ => None,
                })
                .collect();
            done = cable.peer.seen().len();
            random.shuffle(&mut open);
            for (stream, text) in open {
                cable
                    .peer
                    .answer(stream, Response::Result(ResultBody::SetKeyspace(text)));
            }
            cable.run(&mut random, 300);
            for output in std::mem::take(&mut cable.outputs) {
                let ConnectionOutput::Reply {
                    ticket,
                    reply: Ok(frame),
                } = output
                else {
                    panic!("{output:?}")
                };
                let envelope = frame.parse(&Default::default()).unwrap();
                let Response::Result(ResultBody::SetKeyspace(text)) = envelope.response else {
                    panic!("{envelope:?}")
                };
                assert_eq!(text, format!("ask {}", ticket.0));
                let index = usize::try_from(ticket.0).unwrap();
                assert!(
                    !std::mem::replace(&mut answered[index], true),
                    "two answers for {}",
                    ticket.0
                );
            }
        }
    }
}

#[test]
fn random_commands_give_every_request_exactly_one_reply() {
    for seed in 0..200 {
        let mut random = Seed::from_u64(seed).random();
        let peer = ScriptedPeer::new().handshake().otherwise(Reply::Silence);
        let mut cable = Cable::new(
            plan(|session| {
                session.limits.in_flight_max = 8;
                session.limits.orphans_max = 4;
            }),
            peer,
        );
        cable.settle();
        let mut keys: Vec<(u64, StreamKey)> = Vec::new();
        let mut expected = std::collections::BTreeSet::new();
        let mut open: Vec<i16> = Vec::new();
        let mut done = cable.peer.seen().len();
        for ticket in 0..150 {
            let request = RequestRef::Query {
                text: "Q",
                params: ParamsRef::default(),
            };
            let deadline = (random.below(2) == 0)
                .then(|| cable.now + Duration::from_millis(random.below(400)));
            let options = RequestOptionsRef::default();
            if let Ok(key) =
                cable
                    .conn
                    .submit(cable.now, Ticket(ticket), request, &options, deadline)
            {
                keys.push((ticket, key));
                expected.insert(ticket);
            }
            match random.below(6) {
                0 => {
                    let (ticket, key) = keys[random.index(keys.len())];
                    cable
                        .outputs
                        .extend(std::iter::from_fn(|| cable.conn.poll_output()));
                    let replied = cable.outputs.iter().any(
                        |output| matches!(output, ConnectionOutput::Reply { ticket: got, .. } if got.0 == ticket),
                    );
                    cable.conn.abandon(cable.now, key);
                    if !replied {
                        expected.remove(&ticket);
                    }
                }
                1 => cable.run(&mut random, 20),
                2 => {
                    cable.now += Duration::from_millis(random.below(100));
                    cable.conn.handle_timeout(cable.now);
                }
                3 if !open.is_empty() => {
                    let stream = open.swap_remove(random.index(open.len()));
                    cable
                        .peer
                        .answer(stream, Response::Result(ResultBody::Void));
                }
                _ => (),
            }
            // Keep what was asked and not answered.
            open.extend(cable.peer.seen()[done..].iter().map(|seen| seen.stream));
            open.retain(|stream| *stream != i16::MAX);
            done = cable.peer.seen().len();
        }
        if cable.conn.is_open() {
            cable
                .conn
                .close(cable.now, messina_core::conn::CloseReason::SessionClosed);
        }
        cable.run(&mut random, 1_000);
        cable.conn.handle_eof(cable.now);
        cable.run(&mut random, 1_000);
        let mut got: Vec<u64> = cable
            .outputs
            .iter()
            .filter_map(|output| match output {
                ConnectionOutput::Reply { ticket, .. } => Some(ticket.0),
                _ => None,
            })
            .collect();
        got.sort_unstable();
        assert_eq!(got, expected.into_iter().collect::<Vec<_>>(), "seed {seed}");
        assert!(
            matches!(cable.outputs.last(), Some(ConnectionOutput::Closed(_))),
            "seed {seed}"
        );
    }
}

fn drop_key(_: StreamKey) {}
