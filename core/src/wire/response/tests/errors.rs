//! Errors as servers send them.

use super::*;

fn server_error(hex: &str) -> ServerError {
    match response(hex) {
        Response::Error(error) => error,
        other => panic!("not an error: {other:?}"),
    }
}

#[test]
fn an_unknown_error_code_keeps_code_and_message() {
    let error = server_error("84000001000000000d0000777700056e6f76656c0102");
    assert_eq!((error.code, error.message.as_str()), (0x7777, "novel"));
    assert_eq!(error.detail, ServerErrorDetail::Unknown);
    assert_eq!(
        error.to_string(),
        "server error 0x7777 (unknown code): novel"
    );
}

#[test]
fn newer_write_errors_are_understood() {
    let error = server_error("8400000100000000140000170000046361733f00080000000100000002");
    assert_eq!(
        error.detail,
        ServerErrorDetail::CasWriteUnknown {
            consistency: Consistency::Serial,
            received: 1,
            block_for: 2
        }
    );
    let error = server_error("840000010000000009000016000003636463");
    assert_eq!(
        (error.message.as_str(), error.detail),
        ("cdc", ServerErrorDetail::CdcWriteFailure)
    );
}

#[test]
fn contentions_are_optional_and_only_counted_in_version_5() {
    for (version, expected) in [("84", None), ("85", Some(7))] {
        let body = "0000110000000008000000010000000200034341530007";
        let frame = frame(&format!("{version}00000100{:08x}{body}", body.len() / 2));
        let features = ProtocolFeatures {
            version: ProtocolVersion::from_byte(frame.header.version).unwrap(),
            ..ProtocolFeatures::default()
        };
        let Response::Error(error) = frame.parse(&features).unwrap().response else {
            panic!("not an error")
        };
        let ServerErrorDetail::WriteTimeout {
            write_type,
            contentions,
            ..
        } = error.detail
        else {
            panic!("not a write timeout")
        };
        assert_eq!((write_type, contentions), (WriteType::Cas, expected));
    }
}

#[test]
fn the_rate_limit_error_is_known_only_by_the_agreed_code() {
    let hex = "84000001000000000c0000f0000004726174650101";
    let plain = server_error(hex);
    assert_eq!(plain.detail, ServerErrorDetail::Unknown);
    let features = ProtocolFeatures {
        rate_limit_error: Some(0xf000),
        ..ProtocolFeatures::default()
    };
    let Response::Error(error) = frame(hex).parse(&features).unwrap().response else {
        panic!("not an error")
    };
    assert!(matches!(
        error.detail,
        ServerErrorDetail::RateLimit {
            rejected_by_coordinator: true,
            ..
        }
    ));
}

#[test]
fn the_code_of_rate_limits_is_whatever_was_agreed_on_and_no_other() {
    let learned = ProtocolFeatures {
        rate_limit_error: Some(42),
        ..ProtocolFeatures::default()
    };
    let detail =
        |hex: &str, features: &ProtocolFeatures| match frame(hex).parse(features).unwrap().response
        {
            Response::Error(error) => error.detail,
            _ => panic!("not an error"),
        };
    let forty_two = "84000001000000000c0000002a0004726174650100";
    assert_eq!(
        detail(forty_two, &learned),
        ServerErrorDetail::RateLimit {
            operation: OperationKind::Write,
            rejected_by_coordinator: false,
        }
    );
    let usual = "84000001000000000c0000f0000004726174650100";
    assert_eq!(detail(usual, &learned), ServerErrorDetail::Unknown);
    // Without an agreement servers say the same as an error of their configuration, whatever its words are.
    let configuration = "84000001000000000a00002300000472617465";
    assert_eq!(
        detail(configuration, &ProtocolFeatures::default()),
        ServerErrorDetail::ConfigError
    );
}

#[test]
fn an_error_message_that_is_not_utf_8_is_still_an_error_of_the_server() {
    let error = server_error(
        "84000001000000000900002200 000362ff64"
            .replace(' ', "")
            .as_str(),
    );
    assert_eq!(error.message, "b\u{fffd}d");
    assert_eq!(error.detail, ServerErrorDetail::Invalid);
}

#[test]
fn a_refused_version_is_read_from_an_error_in_the_servers_own_version() {
    let v5 = ProtocolFeatures {
        version: ProtocolVersion::V5,
        ..ProtocolFeatures::default()
    };
    for version in ["83", "84", "85"] {
        let hex = format!("{version}00000000000000080000000a00026e6f");
        let Response::Error(error) = frame(&hex).parse(&v5).unwrap().response else {
            panic!("not an error")
        };
        assert_eq!(error.detail, ServerErrorDetail::ProtocolError);
    }
    let error = frame(
        "860000000000000008 0000000a00026e6f"
            .replace(' ', "")
            .as_str(),
    )
    .parse(&v5);
    assert_eq!(
        error.unwrap_err().kind,
        ProtocolErrorKind::UnexpectedVersion(6)
    );
    let error = frame("840000000200000000").parse(&v5);
    assert_eq!(
        error.unwrap_err().kind,
        ProtocolErrorKind::UnexpectedVersion(4)
    );
}
