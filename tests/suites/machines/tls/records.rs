//! What goes through an encrypted connection: records of every size, cut anywhere, and the ends of both sides.

use messina_core::conn::CloseReason;
use messina_core::error::connect::{AttemptErrorKind, Fate};
use std::io::ErrorKind;

use super::*;

/// A RESULT with this much in it.
fn large_result(len: usize) -> Reply {
    let mut bytes = vec![0x84, 0, 0, 0, 8];
    bytes.extend(u32::try_from(len).unwrap().to_be_bytes());
    bytes.extend((0..251_u8).cycle().take(len));
    Reply::Bytes(bytes)
}

#[test]
fn a_batch_of_requests_is_one_write() {
    let tls = trusting().build().unwrap();
    for version in BOTH {
        let mut tunnel = Tunnel::open(&tls, server(version));
        tunnel.writes = 0;
        (1..=100).for_each(|ticket| tunnel.submit(ticket, "SELECT"));
        tunnel.run();
        assert_eq!((tunnel.writes, tunnel.answers()), (1, 100));
    }
}

#[test]
fn requests_and_answers_survive_any_cut() {
    let tls = trusting().build().unwrap();
    for version in BOTH {
        let mut tunnel = Tunnel::open(&tls, server(version));
        for size in [1, 2, 3, 5, 6, 21, 22, 23, 100] {
            (1..=20).for_each(|ticket| tunnel.submit(ticket, "SELECT"));
            tunnel.run_in_pieces(size);
            assert_eq!(tunnel.answers(), 20, "in pieces of {size}");
        }
    }
}

#[test]
fn huge_requests_and_answers_go_through_in_many_records() {
    let tls = trusting().build().unwrap();
    for version in BOTH {
        let peer = ScriptedPeer::new()
            .handshake()
            .otherwise(large_result(1_000_000));
        let mut tunnel = Tunnel::with(plan(&tls), server(version), peer);
        tunnel.run();
        tunnel.outputs.clear();
        let text = "x".repeat(700_000);
        tunnel.submit(1, &text);
        tunnel.submit(2, "SELECT");
        tunnel.run_in_pieces(10_007);
        for output in tunnel.outputs.drain(..) {
            let ConnectionOutput::Reply {
                reply: Ok(frame), ..
            } = output
            else {
                panic!("{output:?}")
            };
            assert_eq!(frame.body.len(), 1_000_000);
            assert!(
                frame
                    .body
                    .iter()
                    .copied()
                    .eq((0..251_u8).cycle().take(1_000_000))
            );
        }
        let asked = tunnel
            .peer
            .seen()
            .iter()
            .rev()
            .nth(1)
            .expect("two requests");
        assert!(format!("{:?}", asked.request).contains(&text));
    }
}

#[test]
fn many_answers_around_the_size_of_a_chunk_arrive_whole() {
    let tls = trusting().build().unwrap();
    for len in [15_000, 16_384, 40_000, 65_000, 65_527, 65_536, 70_000] {
        let peer = ScriptedPeer::new().handshake().otherwise(large_result(len));
        let mut tunnel = Tunnel::with(plan(&tls), server(&TLS13), peer);
        tunnel.run();
        tunnel.outputs.clear();
        (1..=10).for_each(|ticket| tunnel.submit(ticket, "SELECT"));
        tunnel.run();
        assert_eq!(tunnel.answers(), 10, "of {len} bytes");
    }
}

#[test]
fn a_damaged_record_ends_the_connection_and_what_is_pending() {
    let tls = trusting().build().unwrap();
    for version in BOTH {
        let mut tunnel = Tunnel::open(&tls, server(version));
        tunnel.submit(1, "SELECT");
        let sent = tunnel.client_says();
        tunnel.hear(&sent);
        let mut said = tunnel.server_says();
        *said.last_mut().unwrap() ^= 1;
        tunnel.feed(&said);
        assert_eq!(tunnel.outputs.len(), 2);
        let ConnectionError::Tls(error) = tunnel.end() else {
            panic!("{:?}", tunnel.end())
        };
        assert_eq!(error.kind(), TlsErrorKind::PeerMisbehaved);
        let farewell = tunnel.client_says();
        tunnel.hear(&farewell);
        let expected = rustls::AlertDescription::BadRecordMac;
        assert_eq!(
            tunnel.complaint,
            Some(rustls::Error::AlertReceived(expected))
        );
    }
}

#[test]
fn closing_says_so_to_the_server() {
    let tls = trusting().build().unwrap();
    for version in BOTH {
        let mut tunnel = Tunnel::open(&tls, server(version));
        tunnel.conn.close(tunnel.now, CloseReason::SessionClosed);
        tunnel.collect();
        assert!(matches!(tunnel.end(), ConnectionError::Closed(_)));
        tunnel.run();
        assert!(tunnel.heard_goodbye && tunnel.complaint.is_none());
        assert_eq!(tunnel.client_says(), [0_u8; 0]);
    }
}

#[test]
fn draining_says_so_after_the_last_answer() {
    let tls = trusting().build().unwrap();
    let mut tunnel = Tunnel::open(&tls, server(&TLS13));
    tunnel.submit(1, "SELECT");
    let sent = tunnel.client_says();
    tunnel.conn.drain(tunnel.now, CloseReason::Surplus);
    tunnel.hear(&sent);
    assert!(!tunnel.heard_goodbye);
    tunnel.run();
    assert!(tunnel.heard_goodbye && tunnel.complaint.is_none());
    assert!(matches!(tunnel.end(), ConnectionError::Closed(_)));
}

#[test]
fn a_goodbye_of_the_server_is_an_end_of_stream_and_is_returned() {
    let tls = trusting().build().unwrap();
    for version in BOTH {
        let mut tunnel = Tunnel::open(&tls, server(version));
        tunnel.submit(1, "SELECT");
        tunnel.submit(2, "SELECT");
        let sent = tunnel.client_says();
        tunnel.hear(&sent);
        let answers = tunnel.server_says();
        tunnel.submit(3, "SELECT");
        tunnel.server.send_close_notify();
        let goodbye = tunnel.server_says();
        tunnel.feed(&[answers, goodbye].concat());
        let replies = tunnel.outputs.iter();
        let answered =
            replies.filter(|output| matches!(output, ConnectionOutput::Reply { reply: Ok(_), .. }));
        assert_eq!(answered.count(), 2, "what came before counts");
        assert!(matches!(tunnel.end(), ConnectionError::Eof));
        tunnel.run();
        assert!(tunnel.heard_goodbye);
    }
}

#[test]
fn an_end_of_stream_without_a_goodbye_is_an_ordinary_one() {
    let tls = trusting().build().unwrap();
    let mut tunnel = Tunnel::open(&tls, server(&TLS13));
    tunnel.submit(1, "SELECT");
    tunnel.client_says();
    tunnel.conn.handle_eof(tunnel.now);
    tunnel.collect();
    assert!(matches!(tunnel.end(), ConnectionError::Eof));
}

#[test]
fn the_fate_of_a_request_turns_with_the_first_byte_of_its_record() {
    let tls = trusting().build().unwrap();
    for (written, expected) in [
        (0, Fate::NotSent),
        (1, Fate::MaybeApplied),
        (60, Fate::MaybeApplied),
    ] {
        let mut tunnel = Tunnel::open(&tls, server(&TLS13));
        tunnel.submit(1, "SELECT");
        tunnel.submit(2, "SELECT");
        let mut slices = [IoSlice::new(&[]); 4];
        assert_eq!(tunnel.conn.poll_transmit(&mut slices), 1);
        if 0 < written {
            tunnel.conn.handle_transmitted(tunnel.now, written);
        }
        tunnel.submit(3, "SELECT");
        tunnel.conn.close(tunnel.now, CloseReason::Surplus);
        tunnel.collect();
        let fates: Vec<_> = tunnel
            .outputs
            .iter()
            .filter_map(|output| match output {
                ConnectionOutput::Reply {
                    reply: Err(error), ..
                } => {
                    assert!(matches!(error.kind, AttemptErrorKind::Connection(_)));
                    Some(error.fate)
                }
                _ => None,
            })
            .collect();
        assert_eq!(fates, [expected, expected, Fate::NotSent]);
        assert_eq!(
            tunnel.client_says(),
            [0_u8; 0],
            "nothing of what failed follows"
        );
    }
}

#[test]
fn answers_are_still_read_after_writing_failed() {
    let tls = trusting().build().unwrap();
    let mut tunnel = Tunnel::open(&tls, server(&TLS13));
    tunnel.submit(1, "SELECT");
    let sent = tunnel.client_says();
    tunnel.hear(&sent);
    tunnel.submit(2, "SELECT");
    tunnel
        .conn
        .handle_write_error(tunnel.now, ErrorKind::BrokenPipe);
    let said = tunnel.server_says();
    tunnel.feed(&said);
    let first_two: Vec<_> = tunnel
        .outputs
        .iter()
        .filter_map(|output| match output {
            ConnectionOutput::Reply { ticket, reply } => Some((ticket.0, reply.is_ok())),
            _ => None,
        })
        .collect();
    assert_eq!(first_two, [(2, false), (1, true)]);
    assert_eq!(tunnel.client_says(), [0_u8; 0]);
}

#[test]
fn a_key_update_of_the_server_is_followed() {
    let tls = trusting().build().unwrap();
    let mut tunnel = Tunnel::open(&tls, server(&TLS13));
    for ticket in 1..=3 {
        tunnel.server.refresh_traffic_keys().unwrap();
        tunnel.submit(ticket, "SELECT");
        tunnel.run();
        assert_eq!(tunnel.answers(), 1);
    }
}

#[test]
fn plain_bytes_after_the_handshake_end_the_connection() {
    let tls = trusting().build().unwrap();
    let mut tunnel = Tunnel::open(&tls, server(&TLS13));
    tunnel.submit(1, "SELECT");
    tunnel.client_says();
    tunnel.feed(&hex_void());
    assert!(matches!(tunnel.end(), ConnectionError::Tls(_)));
}
