//! Owns how connections are encrypted: whom to trust, who we are, and by which name the server must go.
//! Leaves out reading files and the clock: certificates come as bytes, time through a provider that is handed in.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConfig, Resumption};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::{DigitallySignedStruct, RootCertStore, SignatureScheme};
use thiserror::Error;

use super::error::TlsError;
use crate::conn::{Address, ConnectionPlan};

/// Says how the connections of a session are encrypted. Cheap to clone.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TlsPlan {
    config: Arc<ClientConfig>,
    server_name: ServerNameRule,
    verified: bool,
    /// Is set where this driver made the configuration and knows what it checks.
    known: bool,
}

/// Says by which name the server's certificate must go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerNameRule {
    /// By the name that led to the server, if it was found by one; else by the IP address that was dialed.
    #[default]
    Dialed,
    /// By this name, whatever the address.
    Name(Arc<str>),
}

/// Says why a [`TlsPlan`] cannot be built.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum TlsConfigError {
    /// The bytes hold no PEM section of the wanted kind, or a broken one.
    #[error("the {what} cannot be read as pem")]
    Pem {
        /// Names the input.
        what: &'static str,
        /// Is the parser's reason.
        #[source]
        cause: Arc<rustls::pki_types::pem::Error>,
    },
    /// The bytes hold no certificate at all.
    #[error("the {what} holds no certificate")]
    NoCertificate {
        /// Names the input.
        what: &'static str,
    },
    /// No root certificates were given, so no server could be trusted.
    #[error("no root certificates were given")]
    NoRoots,
    /// No cryptography provider was given, and no feature chooses one.
    #[error("no cryptography provider: enable the feature `ring` or `aws-lc-rs`, or hand one in")]
    NoProvider,
    /// The server name is none that a certificate could carry.
    #[error("{name:?} is not a server name")]
    ServerName {
        /// Is the name.
        name: Arc<str>,
    },
    /// The pieces do not fit together, such as a key of another certificate.
    #[error("the tls settings do not fit together")]
    Rejected(#[source] rustls::Error),
}

impl TlsPlan {
    /// Starts a plan; `time` tells what time it is when certificates are checked.
    pub fn builder(time: Arc<dyn TimeProvider>) -> TlsPlanBuilder {
        TlsPlanBuilder {
            time,
            provider: default_provider(),
            roots: RootCertStore::empty(),
            client: None,
            server_name: ServerNameRule::Dialed,
            sessions: SESSIONS,
            verify: true,
            failed: None,
        }
    }

    /// Uses a finished configuration, whatever it says about trust.
    pub const fn from_config(config: Arc<ClientConfig>, server_name: ServerNameRule) -> Self {
        Self {
            config,
            server_name,
            verified: true,
            known: false,
        }
    }

    /// Tells whether a server's certificate is checked against a host name; none where that cannot be known: a
    /// configuration was handed in, or the name is that of whatever is dialed, which may be a bare IP address.
    pub const fn verifies_host_name(&self) -> Option<bool> {
        match (self.known, self.verified, &self.server_name) {
            (true, false, _) => Some(false),
            (true, true, ServerNameRule::Name(_)) => Some(true),
            (true, true, ServerNameRule::Dialed) | (false, ..) => None,
        }
    }

    /// Tells whether certificates are checked, as far as this plan knows: a configuration that was handed in counts
    /// as checking.
    pub const fn verifies(&self) -> bool {
        self.verified
    }

    pub(super) const fn config(&self) -> &Arc<ClientConfig> {
        &self.config
    }

    pub(super) fn server_name(
        &self,
        plan: &ConnectionPlan,
    ) -> Result<ServerName<'static>, TlsError> {
        let name = match (&self.server_name, &plan.host_name, &plan.address) {
            (ServerNameRule::Name(name), ..) | (ServerNameRule::Dialed, Some(name), _) => &**name,
            (ServerNameRule::Dialed, None, Address::Tcp(address)) => {
                return Ok(ServerName::IpAddress(address.ip().into()));
            }
            (ServerNameRule::Dialed, None, Address::Unix(_)) => "localhost",
        };
        ServerName::try_from(name.to_owned()).map_err(|_| TlsError::bad_name(name))
    }
}

/// Collects the pieces of a [`TlsPlan`]. Verification is on unless a method with `dangerous` in its name was called.
pub struct TlsPlanBuilder {
    time: Arc<dyn TimeProvider>,
    provider: Option<Arc<CryptoProvider>>,
    roots: RootCertStore,
    client: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
    server_name: ServerNameRule,
    sessions: usize,
    verify: bool,
    failed: Option<TlsConfigError>,
}

impl fmt::Debug for TlsPlanBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsPlanBuilder")
            .field("roots", &self.roots.len())
            .field("client_certificate", &self.client.is_some())
            .field("server_name", &self.server_name)
            .field("verify", &self.verify)
            .finish_non_exhaustive()
    }
}

impl TlsPlanBuilder {
    /// Uses this cryptography provider instead of the one that a feature chose.
    #[must_use]
    pub fn provider(mut self, provider: Arc<CryptoProvider>) -> Self {
        self.provider = Some(provider);
        self
    }

    /// Trusts the certificates of a PEM text, in addition to others.
    #[must_use]
    pub fn roots_pem(mut self, pem: &[u8]) -> Self {
        match certificates(pem, "root certificates") {
            Ok(found) => {
                for certificate in found {
                    if let Err(error) = self.roots.add(certificate) {
                        self.fail(TlsConfigError::Rejected(error));
                    }
                }
            }
            Err(error) => self.fail(error),
        }
        self
    }

    /// Trusts a certificate in DER form, in addition to others.
    #[must_use]
    pub fn root_der(mut self, der: Vec<u8>) -> Self {
        if let Err(error) = self.roots.add(CertificateDer::from(der)) {
            self.fail(TlsConfigError::Rejected(error));
        }
        self
    }

    /// Trusts those of these certificates that can be used, as systems keep them: some are always out of date.
    #[must_use]
    pub fn roots_usable(
        mut self,
        roots: impl IntoIterator<Item = CertificateDer<'static>>,
    ) -> Self {
        self.roots.add_parsable_certificates(roots);
        self
    }

    /// Shows this certificate chain, and proves it with this key, to servers that ask for one; both in PEM.
    #[must_use]
    pub fn client_certificate_pem(mut self, chain: &[u8], key: &[u8]) -> Self {
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|cause| TlsConfigError::Pem {
            what: "client key",
            cause: Arc::new(cause),
        });
        match (certificates(chain, "client certificate"), key) {
            (Ok(chain), Ok(key)) => self.client = Some((chain, key)),
            (Err(error), _) | (_, Err(error)) => self.fail(error),
        }
        self
    }

    /// Expects certificates for this name, whatever was dialed.
    #[must_use]
    pub fn server_name(mut self, name: impl Into<Arc<str>>) -> Self {
        let name = name.into();
        if ServerName::try_from(name.to_string()).is_err() {
            self.fail(TlsConfigError::ServerName { name });
        } else {
            self.server_name = ServerNameRule::Name(name);
        }
        self
    }

    /// Keeps at most this many sessions to resume, 256 by default; 0 switches resumption off.
    #[must_use]
    pub const fn sessions_max(mut self, sessions: usize) -> Self {
        self.sessions = sessions;
        self
    }

    /// Accepts any certificate for any name: whoever sits between the two sides can read and change everything.
    #[must_use]
    pub const fn dangerous_accept_any_certificate(mut self) -> Self {
        self.verify = false;
        self
    }

    /// Builds the plan; the first thing that was wrong is the error.
    pub fn build(self) -> Result<TlsPlan, TlsConfigError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let provider = self.provider.ok_or(TlsConfigError::NoProvider)?;
        if self.verify && self.roots.is_empty() {
            return Err(TlsConfigError::NoRoots);
        }
        let verifier = AcceptAny {
            provider: Arc::clone(&provider),
        };
        let builder = ClientConfig::builder_with_details(provider, self.time)
            .with_safe_default_protocol_versions()
            .map_err(TlsConfigError::Rejected)?;
        let builder = if self.verify {
            builder.with_root_certificates(self.roots)
        } else {
            builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(verifier))
        };
        let mut config = match self.client {
            Some((chain, key)) => builder
                .with_client_auth_cert(chain, key)
                .map_err(TlsConfigError::Rejected)?,
            None => builder.with_no_client_auth(),
        };
        config.resumption = match self.sessions {
            0 => Resumption::disabled(),
            sessions => Resumption::in_memory_sessions(sessions),
        };
        Ok(TlsPlan {
            config: Arc::new(config),
            server_name: self.server_name,
            verified: self.verify,
            known: true,
        })
    }

    fn fail(&mut self, error: TlsConfigError) {
        self.failed.get_or_insert(error);
    }
}

/// Takes every certificate; signatures of the handshake are still checked, since that costs nothing to keep.
#[derive(Debug)]
struct AcceptAny {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

fn certificates(
    pem: &[u8],
    what: &'static str,
) -> Result<Vec<CertificateDer<'static>>, TlsConfigError> {
    let found: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|cause| TlsConfigError::Pem {
            what,
            cause: Arc::new(cause),
        })?;
    if found.is_empty() {
        return Err(TlsConfigError::NoCertificate { what });
    }
    Ok(found)
}

#[cfg(feature = "ring")]
fn default_provider() -> Option<Arc<CryptoProvider>> {
    Some(Arc::new(rustls::crypto::ring::default_provider()))
}

#[cfg(all(feature = "aws-lc-rs", not(feature = "ring")))]
fn default_provider() -> Option<Arc<CryptoProvider>> {
    Some(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
}

#[cfg(not(any(feature = "ring", feature = "aws-lc-rs")))]
fn default_provider() -> Option<Arc<CryptoProvider>> {
    None
}

/// Is the number of sessions kept for resumption: one for each node of a large cluster.
const SESSIONS: usize = 256;
