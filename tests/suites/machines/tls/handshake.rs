//! From an open socket to an encrypted connection, and every way of not getting there.

use super::*;

/// Makes a connection that fails with TLS, and returns why.
fn refused(tls: &TlsPlan, server: Arc<ServerConfig>) -> (TlsErrorKind, Tunnel) {
    let mut tunnel = Tunnel::new(tls, server);
    tunnel.run();
    let (phase, error) = tunnel.tls_failure();
    assert_eq!(phase, ConnectPhase::Tls);
    assert!(!error.detail().is_empty());
    (error.kind(), tunnel)
}

#[test]
fn both_versions_of_tls_lead_to_a_usable_connection() {
    let tls = trusting().build().unwrap();
    for version in BOTH {
        let mut tunnel = Tunnel::open(&tls, server(version));
        tunnel.submit(1, "SELECT");
        tunnel.run();
        assert_eq!(tunnel.answers(), 1);
        let spoken = tunnel.server.protocol_version();
        assert_eq!(spoken, Some(version.version));
    }
}

#[test]
fn a_handshake_may_be_cut_anywhere() {
    let tls = trusting().sessions_max(0).build().unwrap();
    for version in BOTH {
        for size in [1, 2, 3, 5, 7, 100, 1_000] {
            let mut tunnel = Tunnel::new(&tls, server(version));
            tunnel.run_in_pieces(size);
            assert!(tunnel.conn.is_open(), "in pieces of {size}");
        }
    }
}

#[test]
fn the_first_flight_of_the_server_may_be_cut_at_every_byte() {
    let tls = trusting().sessions_max(0).build().unwrap();
    for version in BOTH {
        let mut cut = 0;
        loop {
            let mut tunnel = Tunnel::new(&tls, server(version));
            let hello = tunnel.client_says();
            tunnel.hear(&hello);
            let flight = tunnel.server_says();
            let Some((first, rest)) = flight.split_at_checked(cut) else {
                break;
            };
            tunnel.feed(first);
            tunnel.feed(rest);
            tunnel.run();
            assert!(tunnel.conn.is_open(), "cut at {cut}: {:?}", tunnel.outputs);
            cut += 1;
            assert!(cut < 100_000, "the flight of the server has no end");
        }
        assert!(500 < cut);
    }
}

#[test]
fn the_first_question_goes_out_with_the_end_of_the_handshake() {
    let tls = trusting().build().unwrap();
    let mut tunnel = Tunnel::new(&tls, server(&TLS13));
    tunnel.run();
    assert_eq!(tunnel.writes, 3, "hello, the end with OPTIONS, STARTUP");
}

#[test]
fn a_client_certificate_is_shown_where_it_is_wanted() {
    let client = AUTHORITY.issue(&["client.example"]);
    let (chain, key) = (client.chain_pem().as_bytes(), client.key_pem().as_bytes());
    let tls = trusting().client_certificate_pem(chain, key).build();
    let tls = tls.unwrap();
    for version in BOTH {
        let mutual = SERVER.server_config(Some(&AUTHORITY), &[version]);
        Tunnel::open(&tls, mutual);
        Tunnel::open(&tls, server(version));
    }
}

#[test]
fn a_missing_or_foreign_client_certificate_is_a_failure_of_the_handshake() {
    let stranger = Authority::new().issue(&["client.example"]);
    let (chain, key) = (
        stranger.chain_pem().as_bytes(),
        stranger.key_pem().as_bytes(),
    );
    for version in BOTH {
        let mutual = || SERVER.server_config(Some(&AUTHORITY), &[version]);
        let without = trusting().build().unwrap();
        let (kind, _) = refused(&without, mutual());
        // The older version has no alert of its own for a certificate that is missing.
        let expected = match version.version {
            rustls::ProtocolVersion::TLSv1_2 => TlsErrorKind::Incompatible,
            _ => TlsErrorKind::ClientCertificateRefused,
        };
        assert!(
            [expected, TlsErrorKind::ClientCertificateRefused].contains(&kind),
            "{kind:?}"
        );
        let foreign = trusting().client_certificate_pem(chain, key);
        let (kind, _) = refused(&foreign.build().unwrap(), mutual());
        assert_eq!(kind, TlsErrorKind::ClientCertificateRefused);
    }
}

#[test]
fn the_second_connection_resumes_the_session_of_the_first() {
    let tls = trusting().build().unwrap();
    let never = trusting().sessions_max(0).build().unwrap();
    for version in BOTH {
        let config = server(version);
        for (plan, expected) in [(&tls, true), (&never, false)] {
            let mut first = Tunnel::open(plan, Arc::clone(&config));
            assert_eq!(
                first.server.handshake_kind(),
                Some(rustls::HandshakeKind::Full)
            );
            first.submit(1, "SELECT");
            first.run();
            assert_eq!(first.answers(), 1);
            let second = Tunnel::open(plan, Arc::clone(&config));
            let resumed = second.server.handshake_kind() == Some(rustls::HandshakeKind::Resumed);
            assert_eq!(resumed, expected, "{version:?}");
        }
    }
}

#[test]
fn an_expired_certificate_is_named_as_such_and_the_server_hears_why() {
    let expired = AUTHORITY.issue_for_years(&["192.0.2.1"], 2000, 2020);
    for version in BOTH {
        let config = expired.server_config(None, &[version]);
        let (kind, tunnel) = refused(&trusting().build().unwrap(), config);
        assert_eq!(kind, TlsErrorKind::CertificateExpired);
        let expected = rustls::AlertDescription::CertificateExpired;
        assert_eq!(
            tunnel.complaint,
            Some(rustls::Error::AlertReceived(expected))
        );
    }
}

#[test]
fn a_certificate_of_the_future_is_named_as_such() {
    let future = AUTHORITY.issue_for_years(&["192.0.2.1"], 2030, 2040);
    let config = || future.server_config(None, &BOTH);
    let (kind, _) = refused(&trusting().build().unwrap(), config());
    assert_eq!(kind, TlsErrorKind::CertificateNotYetValid);
    let later = in_year(2035).roots_pem(AUTHORITY.pem().as_bytes());
    Tunnel::open(&later.build().unwrap(), config());
}

#[test]
fn a_certificate_of_an_unknown_authority_is_refused() {
    let stranger = Authority::new().issue(&["192.0.2.1"]);
    let config = || stranger.server_config(None, &BOTH);
    let (kind, _) = refused(&trusting().build().unwrap(), config());
    assert_eq!(kind, TlsErrorKind::UnknownIssuer);
    let blind = trusting().dangerous_accept_any_certificate();
    Tunnel::open(&blind.build().unwrap(), config());
}

#[test]
fn a_certificate_for_another_name_is_refused() {
    let tls = trusting().build().unwrap();
    let other = AUTHORITY.issue(&["node1.example", "192.0.2.9"]);
    let config = || other.server_config(None, &BOTH);
    let (kind, _) = refused(&tls, config());
    assert_eq!(kind, TlsErrorKind::WrongName, "dialled by address");

    let mut named = plan(&tls);
    named.host_name = Some("node1.example".into());
    let mut tunnel = Tunnel::with(named.clone(), config(), peer());
    tunnel.run();
    assert!(tunnel.conn.is_open(), "found by that name");

    named.host_name = Some("node2.example".into());
    let mut tunnel = Tunnel::with(named, config(), peer());
    tunnel.run();
    assert_eq!(tunnel.tls_failure().1.kind(), TlsErrorKind::WrongName);

    let fixed = trusting().server_name("node1.example").build().unwrap();
    Tunnel::open(&fixed, config());
}

#[test]
fn a_server_without_encryption_is_recognized() {
    let tls = trusting().build().unwrap();
    let answers: [&[u8]; 3] = [
        // What ScyllaDB and Cassandra say to a first message that makes no sense to them.
        b"\x84\x00\x00\x00\x00\x00\x00\x00\x1c\x00\x00\x00\x0a\x00\x16Invalid protocol vers",
        b"\x85\x00\x00\x00\x00\x00\x00\x00\x06\x00\x00\x00\x0a\x00\x00",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
    ];
    for answer in answers {
        let mut tunnel = Tunnel::new(&tls, server(&TLS13));
        tunnel.client_says();
        tunnel.feed(answer);
        let (phase, error) = tunnel.tls_failure();
        assert_eq!(
            (phase, error.kind()),
            (ConnectPhase::Tls, TlsErrorKind::NotTls)
        );
    }
}

#[test]
fn a_server_that_says_nothing_is_given_up_in_time() {
    let tls = trusting().build().unwrap();
    let mut tunnel = Tunnel::new(&tls, server(&TLS13));
    tunnel.client_says();
    let deadline = tunnel.conn.poll_timeout().expect("a deadline");
    assert_eq!(deadline, tunnel.now + Duration::from_secs(5));
    tunnel.conn.handle_timeout(deadline);
    tunnel.collect();
    let error = tunnel.failure();
    assert_eq!(error.phase, ConnectPhase::Tls);
    assert!(matches!(error.cause, ConnectCause::Timeout));
    assert_eq!(tunnel.client_says(), [0_u8; 0]);
}

#[test]
fn a_server_that_closes_during_the_handshake_is_a_failure_of_that_phase() {
    let tls = trusting().build().unwrap();
    let mut tunnel = Tunnel::new(&tls, server(&TLS13));
    let hello = tunnel.client_says();
    tunnel.hear(&hello);
    let flight = tunnel.server_says();
    tunnel.feed(&flight[..100]);
    tunnel.conn.handle_eof(tunnel.now);
    tunnel.collect();
    let error = tunnel.failure();
    assert_eq!(error.phase, ConnectPhase::Tls);
    assert!(matches!(error.cause, ConnectCause::Closed));
}

#[test]
fn an_alert_instead_of_a_hello_tells_what_the_server_misses() {
    let tls = trusting().build().unwrap();
    let alerts = [
        (40, TlsErrorKind::Incompatible),
        (70, TlsErrorKind::Incompatible),
        (80, TlsErrorKind::PeerAlert),
    ];
    for (alert, expected) in alerts {
        let mut tunnel = Tunnel::new(&tls, server(&TLS13));
        tunnel.client_says();
        tunnel.feed(&[0x15, 3, 3, 0, 2, 2, alert]);
        let (phase, error) = tunnel.tls_failure();
        assert_eq!(
            (phase, error.kind()),
            (ConnectPhase::Tls, expected),
            "{alert}"
        );
    }
}

#[test]
fn a_name_that_no_certificate_can_have_fails_without_a_byte() {
    let tls = trusting().build().unwrap();
    let mut named = plan(&tls);
    named.host_name = Some("no name at all".into());
    let mut tunnel = Tunnel::with(named, server(&TLS13), peer());
    assert_eq!(tunnel.client_says(), [0_u8; 0]);
    tunnel.collect();
    let (phase, error) = tunnel.tls_failure();
    assert_eq!(
        (phase, error.kind()),
        (ConnectPhase::Tls, TlsErrorKind::BadServerName)
    );
}

#[test]
fn a_plan_without_roots_or_with_broken_pieces_is_not_built() {
    use messina_core::conn::tls::TlsConfigError as E;
    let plain = || in_year(2026);
    assert!(matches!(plain().build(), Err(E::NoRoots)));
    let error = plain().roots_pem(b"nothing").build().unwrap_err();
    assert!(matches!(error, E::NoCertificate { .. }));
    let pem = AUTHORITY.pem();
    let error = trusting().client_certificate_pem(pem.as_bytes(), b"nothing");
    assert!(matches!(error.build(), Err(E::Pem { .. })));
    let error = trusting().server_name("no name at all").build();
    assert!(matches!(error, Err(E::ServerName { .. })));
    let key = SERVER.key_pem();
    let other = AUTHORITY.issue(&["client.example"]);
    let error = trusting().client_certificate_pem(other.chain_pem().as_bytes(), key.as_bytes());
    assert!(matches!(error.build(), Err(E::Rejected(_))));
}

#[test]
fn a_flight_with_any_byte_changed_ends_in_an_error_or_not_at_all() {
    let tls = trusting().sessions_max(0).build().unwrap();
    for version in BOTH {
        for at in (0..1_200).step_by(7) {
            let mut tunnel = Tunnel::new(&tls, server(version));
            let hello = tunnel.client_says();
            tunnel.hear(&hello);
            let mut flight = tunnel.server_says();
            let Some(byte) = flight.get_mut(at) else {
                break;
            };
            *byte ^= 0x55;
            tunnel.feed(&flight);
            tunnel.run();
            assert!(!tunnel.conn.is_open(), "changed at {at}");
            let waits = tunnel.conn.poll_timeout().is_some();
            assert!(waits || tunnel.failure().phase == ConnectPhase::Tls);
        }
    }
}
