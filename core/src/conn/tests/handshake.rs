//! From an open socket to a usable connection, and every way of not getting there.

use super::*;
use crate::notify::Note;
use crate::policy::auth::{Credentials, Login, LoginError};
use crate::wire::{ServerErrorDetail, TopologyChange};

fn with_login(session: &mut SessionConfig) {
    session.credentials = Some(Arc::new(PlainCredentials::new("cassandra", "cassandra")));
}

fn authenticate(class: &str) -> Vec<u8> {
    frame(1, 0x03, &string(class))
}

const PASSWORD_CLASS: &str = "org.apache.cassandra.auth.PasswordAuthenticator";

#[test]
fn a_server_without_logins_is_ready_after_options_and_startup() {
    let mut bench = Bench::new(plan(|_| ()));
    assert_eq!(bench.written(), hex("040000010500000000"));
    bench.peer(&supported(
        1,
        &[("CQL_VERSION", "3.3.1"), ("SCYLLA_USE_METADATA_ID", "")],
    ));
    let startup = bench.requests();
    assert_eq!(startup.len(), 1);
    assert_eq!((startup[0].stream, startup[0].opcode), (1, 0x01));
    let text = String::from_utf8_lossy(&startup[0].body).into_owned();
    for key in [
        "CQL_VERSION",
        "DRIVER_NAME",
        "DRIVER_VERSION",
        "SESSION_ID",
        "SCYLLA_USE_METADATA_ID",
    ] {
        assert!(text.contains(key), "{key} in {text}");
    }
    assert!(!bench.conn.is_open());
    bench.peer(&ready(1));
    let outputs = bench.outputs();
    let [ConnectionOutput::Ready(info)] = &outputs[..] else {
        panic!("{outputs:?}")
    };
    assert!(info.features.metadata_id && info.shard.is_none());
    assert_eq!(bench.conn.info(), Some(info));
    assert!(bench.conn.is_open());
    assert_eq!(bench.written(), [0_u8; 0]);
}

#[test]
fn shard_port_and_host_come_from_what_the_server_supports() {
    let mut bench = Bench::new(plan(|_| ()));
    bench.peer(&supported(
        1,
        &[
            ("SCYLLA_HOST_ID", "11111111-1111-1111-1111-111111111111"),
            ("SCYLLA_NR_SHARDS", "8"),
            ("SCYLLA_SHARD", "3"),
            ("SCYLLA_SHARDING_ALGORITHM", "biased-token-round-robin"),
            ("SCYLLA_SHARDING_IGNORE_MSB", "12"),
            ("SCYLLA_SHARD_AWARE_PORT", "19042"),
        ],
    ));
    bench.peer(&ready(1));
    let info = bench.conn.info().unwrap();
    let shard = info.shard.unwrap();
    assert_eq!(
        (shard.shard.0, shard.shards.get(), shard.port),
        (3, 8, Some(19042))
    );
    assert_eq!(info.host_id.unwrap().as_u128() >> 96, 0x1111_1111);
}

#[test]
fn an_auth_response_is_a_plain_token_with_a_four_byte_length() {
    let mut bench = Bench::new(plan(with_login));
    bench.peer(&supported(1, &[]));
    bench.written();
    bench.peer(&authenticate(PASSWORD_CLASS));
    assert_eq!(
        bench.written(),
        hex("040000010f00000018000000140063617373616e6472610063617373616e647261")
    );
    bench.peer(&frame(1, 0x10, &[0, 0, 0, 0]));
    assert_eq!(bench.told(), ["ready"]);
}

#[test]
fn any_authenticator_gets_the_login_unless_a_list_says_otherwise() {
    for class in [
        "com.example.CustomAuthenticator",
        "com.scylladb.auth.TransitionalAuthenticator",
        "",
    ] {
        let mut bench = Bench::new(plan(with_login));
        bench.peer(&supported(1, &[]));
        bench.peer(&authenticate(class));
        // The server's last word may have no token at all.
        bench.peer(&frame(1, 0x10, &[0xff; 4]));
        assert_eq!(bench.told(), ["ready"]);
    }
    let mut bench = Bench::new(plan(|session| {
        with_login(session);
        session.authenticators_allowed = Some(vec![PASSWORD_CLASS.into()]);
    }));
    bench.peer(&supported(1, &[]));
    bench.written();
    bench.peer(&authenticate("com.example.CustomAuthenticator"));
    assert_eq!(bench.written(), [0_u8; 0], "the login must not leave");
    let outputs = bench.outputs();
    assert!(matches!(
        connect_error(&outputs),
        (ConnectPhase::Auth, ConnectCause::AuthenticatorRefused { authenticator }) if authenticator.contains("Custom")
    ));
}

#[test]
fn wrong_credentials_end_the_attempt_with_the_servers_words_and_without_the_password() {
    let mut bench = Bench::new(plan(|session| {
        session.credentials = Some(Arc::new(PlainCredentials::new("ada", "hunter2")));
    }));
    bench.peer(&supported(1, &[]));
    bench.peer(&authenticate(PASSWORD_CLASS));
    bench.peer(&hex(
        "84000001000000001200000100000c6e6f20737563682075736572",
    ));
    let outputs = bench.outputs();
    let (phase, cause) = connect_error(&outputs);
    assert_eq!(phase, ConnectPhase::Auth);
    let ConnectCause::Server(error) = cause else {
        panic!("{cause:?}")
    };
    assert_eq!(error.message, "no such user");
    assert_eq!(error.detail, ServerErrorDetail::AuthenticationFailed);
    assert!(!format!("{outputs:?} {:?}", bench.conn).contains("hunter2"));
}

#[test]
fn a_server_that_wants_a_login_where_none_is_configured_is_named_clearly() {
    let mut bench = Bench::new(plan(|_| ()));
    bench.peer(&supported(1, &[]));
    bench.peer(&authenticate(PASSWORD_CLASS));
    let outputs = bench.outputs();
    let (phase, cause) = connect_error(&outputs);
    assert_eq!(phase, ConnectPhase::Auth);
    assert!(
        cause.to_string().contains("no credentials are configured"),
        "{cause}"
    );
}

#[test]
fn a_provider_without_a_login_ends_the_attempt() {
    #[derive(Debug)]
    struct Empty;
    impl Credentials for Empty {
        fn login(&self, _: &Address, _: &str) -> Result<Login, LoginError> {
            Err(LoginError::Provider("the vault is sealed".into()))
        }
    }
    let mut bench = Bench::new(plan(|session| session.credentials = Some(Arc::new(Empty))));
    bench.peer(&supported(1, &[]));
    bench.peer(&authenticate(PASSWORD_CLASS));
    let outputs = bench.outputs();
    assert!(matches!(
        connect_error(&outputs),
        (ConnectPhase::Auth, ConnectCause::Login(_))
    ));
}

#[test]
fn a_server_that_does_not_ask_for_the_login_is_used_with_a_note() {
    let mut bench = Bench::new(plan(with_login));
    bench.peer(&supported(1, &[]));
    bench.peer(&ready(1));
    let outputs = bench.outputs();
    assert!(matches!(
        outputs[..],
        [
            ConnectionOutput::Note(Note::LoginNotAsked { .. }),
            ConnectionOutput::Ready(_)
        ]
    ));
}

#[test]
fn another_round_of_authentication_is_a_clear_error() {
    let mut bench = Bench::new(plan(with_login));
    bench.peer(&supported(1, &[]));
    bench.peer(&authenticate(PASSWORD_CLASS));
    bench.peer(&frame(1, 0x0e, &[0, 0, 0, 1, 7]));
    let outputs = bench.outputs();
    assert!(matches!(
        connect_error(&outputs),
        (ConnectPhase::Auth, ConnectCause::UnexpectedChallenge)
    ));
}

/// Plans a connection that shows nothing of its configuration.
fn silent_plan(change: impl FnOnce(&mut SessionConfig)) -> ConnectionPlan {
    plan(|session| {
        session.driver_config_reporting = false;
        change(session);
    })
}

#[test]
fn a_control_connection_registers_and_then_enters_its_keyspace() {
    let mut plan = silent_plan(|session| session.keyspace = Some("My\"Ks".into()));
    plan.role = Role::Control;
    plan.events = vec![EventKind::TopologyChange, EventKind::StatusChange];
    let mut bench = Bench::new(plan);
    bench.peer(&supported(1, &[]));
    bench.written();
    bench.peer(&ready(1));
    let mut names = vec![0, 2];
    names.extend(string("TOPOLOGY_CHANGE"));
    names.extend(string("STATUS_CHANGE"));
    assert_eq!(
        bench.requests(),
        [Seen {
            stream: 1,
            opcode: 0x0b,
            body: names
        }]
    );
    bench.peer(&ready(1));
    let seen = bench.requests();
    assert_eq!(seen[0].opcode, 0x07);
    let text = b"\0\0\0\x0cUSE \"My\"\"Ks\"";
    assert_eq!(&seen[0].body[..text.len()], text);
    assert!(bench.outputs().is_empty());
    let mut body = vec![0, 0, 0, 3];
    body.extend(string("My\"Ks"));
    bench.peer(&frame(1, 0x08, &body));
    assert_eq!(bench.told(), ["ready"]);
}

#[test]
fn a_data_connection_registers_for_nothing() {
    let mut plan = plan(|_| ());
    plan.events = vec![EventKind::StatusChange];
    let mut bench = Bench::new(plan);
    bench.peer(&supported(1, &[]));
    bench.peer(&ready(1));
    assert_eq!(bench.told(), ["ready"]);
}

#[test]
fn an_older_server_is_used_without_the_events_it_does_not_know() {
    let mut plan = silent_plan(|_| ());
    plan.role = Role::Control;
    plan.events = vec![EventKind::StatusChange, EventKind::ClientRoutesChange];
    let mut bench = Bench::new(plan);
    bench.peer(&supported(1, &[]));
    bench.peer(&ready(1));
    bench.written();
    bench.peer(&error(
        1,
        0x000a,
        "Invalid value 'CLIENT_ROUTES_CHANGE' for Event.Type",
    ));
    let mut names = vec![0, 1];
    names.extend(string("STATUS_CHANGE"));
    assert_eq!(
        bench.requests(),
        [Seen {
            stream: 1,
            opcode: 0x0b,
            body: names
        }]
    );
    assert!(matches!(
        bench.outputs()[..],
        [ConnectionOutput::Note(Note::EventNotOffered { .. })]
    ));
    bench.peer(&error(1, 0x000a, "no"));
    let outputs = bench.outputs();
    assert!(matches!(
        connect_error(&outputs),
        (ConnectPhase::Register, ConnectCause::Server(_))
    ));
}

#[test]
fn a_keyspace_that_cannot_be_entered_ends_the_attempt() {
    let mut bench = Bench::new(plan(|session| session.keyspace = Some("ks1".into())));
    bench.peer(&supported(1, &[]));
    bench.peer(&ready(1));
    bench.peer(&error(1, 0x2200, "Keyspace 'ks1' does not exist"));
    let outputs = bench.outputs();
    assert!(matches!(
        connect_error(&outputs),
        (ConnectPhase::Keyspace, ConnectCause::Server(_))
    ));
    assert!(!bench.conn.is_open());
}

#[test]
fn an_event_between_register_and_ready_is_not_lost() {
    let mut plan = silent_plan(|session| session.keyspace = Some("ks".into()));
    plan.role = Role::Control;
    plan.events = vec![EventKind::TopologyChange];
    let mut bench = Bench::new(plan);
    bench.peer(&supported(1, &[]));
    bench.peer(&ready(1));
    bench.peer(&ready(1));
    let mut body = string("TOPOLOGY_CHANGE");
    body.extend(string("NEW_NODE"));
    body.extend([4, 192, 0, 2, 9, 0, 0, 0x23, 0x52]);
    bench.peer(&frame(-1, 0x0c, &body));
    let outputs = bench.outputs();
    assert!(matches!(
        outputs[..],
        [ConnectionOutput::Event(ServerEvent::Topology {
            change: TopologyChange::NewNode,
            ..
        })]
    ));
}

#[test]
fn a_server_of_another_version_tells_which_one_to_try() {
    // The answer is in the server's own version, on stream 0 whatever was asked on.
    for (version, answer) in [(0x83, Some(3)), (0x85, Some(5)), (0x82, None), (0xc2, None)] {
        let mut bench = Bench::new(plan(|_| ()));
        let mut bytes = error(0, 0x000a, "Invalid or unsupported protocol version: 4");
        bytes[0] = version;
        bench.peer(&bytes);
        let outputs = bench.outputs();
        let (phase, cause) = connect_error(&outputs);
        assert_eq!(phase, ConnectPhase::Options);
        match answer {
            Some(wanted) => {
                assert!(matches!(cause, ConnectCause::Version { server } if *server == wanted))
            }
            None => assert!(matches!(
                cause,
                ConnectCause::Protocol(ProtocolError {
                    kind: ProtocolErrorKind::UnexpectedVersion(_),
                    ..
                })
            )),
        }
    }
}

#[test]
fn a_version_refused_in_words_only_is_understood_too() {
    let mut plan = plan(|_| ());
    plan.version = crate::wire::ProtocolVersion::V5;
    let mut bench = Bench::new(plan);
    let mut bytes = error(
        1,
        0x000a,
        "Beta version of the protocol used (5/v5-beta), but USE_BETA flag is unset",
    );
    bytes[0] = 0x85;
    bench.peer(&bytes);
    let outputs = bench.outputs();
    assert!(matches!(
        connect_error(&outputs),
        (_, ConnectCause::Version { server: 4 })
    ));
}

#[test]
fn an_error_on_a_stream_of_the_servers_choice_is_an_answer() {
    let mut bench = Bench::new(plan(|_| ()));
    bench.peer(&supported(1, &[]));
    bench.peer(&error(0, 0x000a, "Initial message size too large"));
    let outputs = bench.outputs();
    assert!(matches!(
        connect_error(&outputs),
        (ConnectPhase::Startup, ConnectCause::Server(_))
    ));
}

#[test]
fn a_peer_that_speaks_something_else_is_refused_at_its_first_byte() {
    // A TLS alert is shorter than a header, and nothing follows it.
    for (bytes, expected) in [
        (hex("15030100020246"), ProtocolErrorKind::TlsAlert),
        (
            b"HTTP/1.1 400 Bad Request".to_vec(),
            ProtocolErrorKind::WrongDirection,
        ),
        (b"S".to_vec(), ProtocolErrorKind::WrongDirection),
    ] {
        let mut bench = Bench::new(plan(|_| ()));
        bench.peer(&bytes);
        let outputs = bench.outputs();
        let (phase, cause) = connect_error(&outputs);
        assert_eq!(phase, ConnectPhase::Options);
        let ConnectCause::Protocol(error) = cause else {
            panic!("{cause:?}")
        };
        assert_eq!(error.kind, expected);
    }
}

#[test]
fn a_message_out_of_turn_ends_the_attempt() {
    for bytes in [
        ready(1),
        void(1),
        frame(1, 0x10, &[0; 4]),
        supported(2, &[]),
        ready(0),
    ] {
        let mut bench = Bench::new(plan(|_| ()));
        bench.peer(&bytes);
        let outputs = bench.outputs();
        assert!(matches!(
            connect_error(&outputs),
            (ConnectPhase::Options, ConnectCause::Protocol(_))
        ));
    }
}

#[test]
fn a_handshake_that_takes_too_long_is_given_up() {
    let mut bench = Bench::new(plan(|_| ()));
    bench.peer(&supported(1, &[]));
    bench.pass(ms(4_999));
    assert!(bench.outputs().is_empty());
    bench.pass(ms(1));
    let outputs = bench.outputs();
    assert!(matches!(
        connect_error(&outputs),
        (ConnectPhase::Startup, ConnectCause::Timeout)
    ));
    assert_eq!(bench.conn.poll_timeout(), None);
}

#[test]
fn a_chatty_peer_cannot_stretch_the_handshake() {
    let mut bench = Bench::new(plan(|_| ()));
    bench.peer(&supported(1, &[]));
    for _ in 0..10 {
        bench.now += secs(1);
        bench.peer(&frame(-1, 0x0c, &string("SOMETHING")));
    }
    let outputs = bench.outputs();
    assert!(matches!(
        connect_error(&outputs),
        (_, ConnectCause::Timeout)
    ));
}

#[test]
fn the_end_of_input_an_error_and_our_own_close_say_how_far_the_handshake_came() {
    let mut bench = Bench::new(plan(|_| ()));
    bench.conn.handle_eof(bench.now);
    assert!(matches!(
        connect_error(&bench.outputs()),
        (ConnectPhase::Options, ConnectCause::Closed)
    ));
    let mut bench = Bench::new(plan(|_| ()));
    bench.peer(&supported(1, &[]));
    bench
        .conn
        .handle_io_error(bench.now, std::io::ErrorKind::ConnectionReset);
    assert!(matches!(
        connect_error(&bench.outputs()),
        (
            ConnectPhase::Startup,
            ConnectCause::Io(error)
        ) if error.kind() == std::io::ErrorKind::ConnectionReset
    ));
    let mut bench = Bench::new(plan(|_| ()));
    bench.conn.close(bench.now, CloseReason::Surplus);
    assert!(matches!(
        connect_error(&bench.outputs()),
        (
            ConnectPhase::Options,
            ConnectCause::GivenUp(CloseReason::Surplus)
        )
    ));
}

#[test]
fn requests_are_not_taken_before_the_connection_is_ready() {
    let mut bench = Bench::new(plan(|_| ()));
    assert!(matches!(
        bench.query(1, "SELECT", None),
        Err(SubmitError::NotOpen)
    ));
    bench.conn.handle_eof(bench.now);
    assert!(matches!(
        bench.query(1, "SELECT", None),
        Err(SubmitError::Closed(_))
    ));
}

#[test]
fn every_connection_of_a_session_tells_the_same_session_id() {
    let session = Arc::new(SessionConfig::new(&mut Seed::from_u64(9).random()));
    let address: std::net::SocketAddr = ([192, 0, 2, 1], 9042).into();
    let mut startups = Vec::new();
    for role in [Role::Control, Role::Data] {
        let mut plan = ConnectionPlan::new(address, session.clone(), Seed::from_u64(1));
        plan.role = role;
        let mut bench = Bench::new(plan);
        bench.written();
        bench.peer(&supported(1, &[]));
        startups.push(String::from_utf8_lossy(&bench.written()).into_owned());
    }
    let id = session.session_id.to_string();
    assert!(
        startups.iter().all(|startup| startup.contains(&id)),
        "{startups:?}"
    );
}

#[test]
fn a_flood_of_warnings_in_the_handshake_becomes_a_few_notes() {
    let mut bench = Bench::new(plan(|_| ()));
    bench.peer(&supported(1, &[]));
    let mut body = u16::MAX.to_be_bytes().to_vec();
    body.resize(2 + 2 * usize::from(u16::MAX), 0);
    let mut answer = frame(1, 0x02, &body);
    answer[1] = 0x08;
    bench.peer(&answer);
    let outputs = bench.outputs();
    assert!(bench.conn.is_open());
    let warnings = outputs
        .iter()
        .filter(|output| matches!(output, ConnectionOutput::Note(Note::ServerWarning { .. })))
        .count();
    assert_eq!((warnings, outputs.len()), (16, 17));
}

#[test]
fn a_server_that_offers_no_extension_is_asked_for_none() {
    let mut bench = Bench::new(plan(|_| ()));
    bench.written();
    bench.peer(&supported(
        1,
        &[("COMPRESSION", "lz4"), ("CQL_VERSION", "3.4.7")],
    ));
    let startup = String::from_utf8_lossy(&bench.written()).into_owned();
    assert!(startup.contains("CQL_VERSION"), "{startup}");
    assert!(
        !startup.contains("SCYLLA") && !startup.contains("TABLETS"),
        "{startup}"
    );
    bench.peer(&ready(1));
    let info = bench.conn.info().expect("it is ready");
    assert!(info.shard.is_none() && info.host_id.is_none());
    let features = &info.features;
    assert!(!features.tablets_v1 && !features.tablets_v2 && !features.metadata_id);
    assert!(features.lwt_mark_mask.is_none() && features.rate_limit_error.is_none());
}
