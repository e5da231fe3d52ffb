//! What a connection tells the server of its session, and servers that will not hear it.

use super::*;
use crate::notify::Note;
#[cfg(feature = "v5")]
use crate::wire::ProtocolVersion;

#[test]
fn a_control_connection_tells_what_it_showed_of_the_configuration_before_it_is_usable() {
    let mut plan = plan(|_| ());
    plan.role = Role::Control;
    let mut bench = Bench::new(plan);
    bench.written();
    bench.peer(&supported(1, &[]));
    let outputs = bench.outputs();
    let [ConnectionOutput::Reported(document)] = &outputs[..] else {
        panic!("{outputs:?}");
    };
    let seen = bench.requests();
    assert_eq!((seen.len(), seen[0].opcode), (1, 0x01));
    let body = String::from_utf8_lossy(&seen[0].body);
    assert!(body.contains("DRIVER_CONFIG") && body.contains(&**document));
    bench.peer(&error(1, 0x1001, "later"));
    assert!(matches!(
        connect_error(&bench.outputs()),
        (ConnectPhase::Startup, ConnectCause::Server(_))
    ));
}

#[test]
fn a_server_that_refuses_what_it_need_not_know_is_told_less_once() {
    let mut plan = plan(|session| session.application.name = Some("app".into()));
    plan.role = Role::Control;
    let mut bench = Bench::new(plan);
    bench.written();
    bench.peer(&supported(1, &[]));
    bench.outputs();
    bench.written();
    bench.peer(&error(1, 0x000a, "unknown option SESSION_ID"));
    let outputs = bench.outputs();
    assert!(
        matches!(
            &outputs[..],
            [ConnectionOutput::Note(Note::StartupShortened { answer, .. })]
                if answer.contains("SESSION_ID")
        ),
        "{outputs:?}"
    );
    let seen = bench.requests();
    assert_eq!((seen[0].opcode, &seen[0].body), (0x01, &bare()));
    bench.peer(&error(1, 0x000a, "no"));
    assert!(matches!(
        connect_error(&bench.outputs()),
        (ConnectPhase::Startup, ConnectCause::Server(_))
    ));
}

/// Is the body of a first message that tells what it has to.
fn bare() -> Vec<u8> {
    [vec![0, 1], string("CQL_VERSION"), string("3.0.0")].concat()
}

#[cfg(feature = "v5")]
#[test]
fn segments_begin_after_the_first_message_was_accepted_and_not_when_it_was_refused() {
    let mut plan = plan(|_| ());
    plan.version = ProtocolVersion::V5;
    let of_version_5 = |mut frame: Vec<u8>| {
        frame[0] = 0x85;
        frame
    };
    let mut bench = Bench::new(plan);
    bench.peer(&of_version_5(supported(1, &[])));
    bench.written();
    bench.peer(&of_version_5(error(1, 0x2200, "unknown option SESSION_ID")));
    let written = bench.written();
    assert_eq!(
        (&written[..5], &written[9..]),
        (&hex("0500000101")[..], &bare()[..])
    );
    bench.outputs();
    bench.peer(&of_version_5(ready(1)));
    assert_eq!(bench.told(), ["ready"]);
}

#[test]
fn limits_that_never_pass_are_limits_all_the_same() {
    let mut bench = Bench::new(plan(|session| {
        session.connection.handshake_timeout = Duration::MAX;
        session.connection.keepalive_interval = Some(Duration::MAX);
        session.connection.keepalive_timeout = Duration::MAX;
        session.connection.connect_timeout = Duration::MAX;
    }));
    bench.peer(&supported(1, &[]));
    bench.peer(&ready(1));
    assert_eq!(bench.told(), ["ready"]);
    bench.pass(Duration::from_secs(1));
    assert!(bench.conn.is_open());
}
