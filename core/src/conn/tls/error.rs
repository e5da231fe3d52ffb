//! Owns what can go wrong with encryption, in words that an operator can act on.
//! Leaves out the address and the phase, which the connection's error adds.

use std::fmt;
use std::sync::Arc;

use rustls::{AlertDescription, CertificateError};
use thiserror::Error;

/// Says why encryption failed.
#[derive(Clone, Debug, Error)]
#[error("{kind}: {detail}")]
pub struct TlsError {
    kind: TlsErrorKind,
    detail: Arc<str>,
}

/// Tells failures of encryption apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TlsErrorKind {
    /// The peer does not speak TLS: most often a port without encryption.
    NotTls,
    /// The certificate is past its last day.
    CertificateExpired,
    /// The certificate's first day is still to come.
    CertificateNotYetValid,
    /// No trusted root vouches for the certificate.
    UnknownIssuer,
    /// The certificate is for another name.
    WrongName,
    /// The certificate is wrong in another way.
    CertificateInvalid,
    /// The peer wants a certificate of ours, or refuses the one it got.
    ClientCertificateRefused,
    /// The peer gave up with another alert.
    PeerAlert,
    /// The two sides have no version, cipher or key exchange in common.
    Incompatible,
    /// The server name is none that a certificate could carry.
    BadServerName,
    /// The peer does not keep to the TLS protocol.
    PeerMisbehaved,
    /// More input waits than a handshake may need.
    TooLarge,
    /// Application data was to be sent when that is not possible.
    NotOpen,
    /// Another failure.
    Other,
}

impl TlsError {
    /// Returns what kind of failure it is.
    pub const fn kind(&self) -> TlsErrorKind {
        self.kind
    }

    /// Returns the reason in words.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    pub(super) fn new(error: &rustls::Error, handshake: bool) -> Self {
        Self {
            kind: classify(error, handshake),
            detail: error.to_string().into(),
        }
    }

    pub(super) fn bad_name(name: &str) -> Self {
        Self {
            kind: TlsErrorKind::BadServerName,
            detail: format!("{name:?} is neither a host name nor an IP address").into(),
        }
    }

    pub(super) fn too_large(len: usize) -> Self {
        Self {
            kind: TlsErrorKind::TooLarge,
            detail: format!("{len} bytes wait for the rest of a message").into(),
        }
    }

    pub(super) fn not_open() -> Self {
        Self {
            kind: TlsErrorKind::NotOpen,
            detail: "the connection takes no application data".into(),
        }
    }

    pub(super) fn exhausted() -> Self {
        Self {
            kind: TlsErrorKind::Other,
            detail: "the keys may encrypt no more data".into(),
        }
    }
}

fn classify(error: &rustls::Error, handshake: bool) -> TlsErrorKind {
    use rustls::Error as E;
    match error {
        E::InvalidMessage(_) | E::InappropriateMessage { .. } if handshake => TlsErrorKind::NotTls,
        E::InvalidCertificate(certificate) => match certificate {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                TlsErrorKind::CertificateExpired
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                TlsErrorKind::CertificateNotYetValid
            }
            // A root of the same name with another key is no issuer of it either.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                TlsErrorKind::UnknownIssuer
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                TlsErrorKind::WrongName
            }
            _ => TlsErrorKind::CertificateInvalid,
        },
        E::NoCertificatesPresented => TlsErrorKind::CertificateInvalid,
        E::AlertReceived(
            AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::UnknownCA
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateRevoked
            | AlertDescription::AccessDenied
            | AlertDescription::NoCertificate,
        ) => TlsErrorKind::ClientCertificateRefused,
        E::AlertReceived(
            AlertDescription::ProtocolVersion
            | AlertDescription::InsufficientSecurity
            | AlertDescription::HandshakeFailure,
        )
        | E::PeerIncompatible(_) => TlsErrorKind::Incompatible,
        E::AlertReceived(_) => TlsErrorKind::PeerAlert,
        E::InvalidMessage(_)
        | E::InappropriateMessage { .. }
        | E::InappropriateHandshakeMessage { .. }
        | E::PeerMisbehaved(_)
        | E::DecryptError
        | E::PeerSentOversizedRecord => TlsErrorKind::PeerMisbehaved,
        _ => TlsErrorKind::Other,
    }
}

impl fmt::Display for TlsErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotTls => "the peer does not speak tls",
            Self::CertificateExpired => "the server's certificate has expired",
            Self::CertificateNotYetValid => "the server's certificate is not valid yet",
            Self::UnknownIssuer => "no trusted root vouches for the server's certificate",
            Self::WrongName => "the server's certificate is for another name",
            Self::CertificateInvalid => "the server's certificate is not valid",
            Self::ClientCertificateRefused => {
                "the server does not accept our certificate, or wants one"
            }
            Self::PeerAlert => "the server gave up",
            Self::Incompatible => "the two sides have no version or cipher in common",
            Self::BadServerName => "the server name is not usable",
            Self::PeerMisbehaved => "the peer does not keep to the tls protocol",
            Self::TooLarge => "too much undigested input",
            Self::NotOpen => "no data can be sent",
            Self::Other => "encryption failed",
        })
    }
}
