//! Owns certificates for tests: an authority made on the spot, and what it signs for servers and clients.
//! Leaves out sockets. Nothing here is safe to use outside of a test.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};

/// Signs certificates; who trusts it, trusts them.
///
/// ```
/// use messina_testkit::certificates::Authority;
///
/// let authority = Authority::new();
/// let server = authority.issue(&["localhost", "127.0.0.1"]);
/// assert!(server.chain_pem().contains("BEGIN CERTIFICATE"));
/// assert_ne!(authority.pem(), Authority::new().pem());
/// ```
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    der: CertificateDer<'static>,
}

/// A certificate with its key.
#[derive(Clone, Debug)]
pub struct Identity {
    chain_pem: String,
    key_pem: String,
}

impl Authority {
    /// Makes an authority with a key of its own.
    ///
    /// # Panics
    ///
    /// When the system gives no randomness.
    #[must_use]
    pub fn new() -> Self {
        let key = KeyPair::generate().expect(RANDOM);
        let mut params = CertificateParams::new(Vec::new()).expect("no name can be wrong");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let tail = key.public_key_raw().iter().rev().take(8);
        let mark: String = tail.map(|byte| format!("{byte:02x}")).collect();
        let name = format!("Authority {mark} of a test");
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.self_signed(&key).expect(RANDOM);
        Self {
            pem: certificate.pem(),
            der: certificate.der().clone(),
            issuer: Issuer::new(params, key),
        }
    }

    /// The authority's own certificate, for those who are to trust it.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Signs a certificate for these host names and IP addresses; good for servers and clients.
    ///
    /// # Panics
    ///
    /// When a name cannot stand in a certificate.
    pub fn issue(&self, names: &[&str]) -> Identity {
        self.issue_for_years(names, 1975, 4096)
    }

    /// Signs a certificate that is valid from the start of one year to the start of another.
    ///
    /// # Panics
    ///
    /// When a name cannot stand in a certificate.
    pub fn issue_for_years(&self, names: &[&str], from: i32, until: i32) -> Identity {
        let key = KeyPair::generate().expect(RANDOM);
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names that a certificate can have");
        params.not_before = date_time_ymd(from, 1, 1);
        params.not_after = date_time_ymd(until, 1, 1);
        params.use_authority_key_identifier_extension = true;
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let certificate = params.signed_by(&key, &self.issuer).expect(RANDOM);
        Identity {
            chain_pem: certificate.pem(),
            key_pem: key.serialize_pem(),
        }
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Identity {
    /// The certificate, and those between it and the authority.
    pub fn chain_pem(&self) -> &str {
        &self.chain_pem
    }

    /// The private key.
    pub fn key_pem(&self) -> &str {
        &self.key_pem
    }

    /// The settings of a server that shows this certificate.
    ///
    /// With `clients`, it lets only those in whose certificate that authority signed; `versions` are the versions of
    /// TLS that it speaks.
    ///
    /// # Panics
    ///
    /// When the cryptography provider does not have one of the versions.
    pub fn server_config(
        &self,
        clients: Option<&Authority>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Arc<ServerConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .expect("the provider has these versions");
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add(authority.der.clone()).expect(OWN);
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.build().expect(OWN))
            }
        };
        let chain = CertificateDer::pem_slice_iter(self.chain_pem.as_bytes());
        let chain = chain.collect::<Result<_, _>>().expect(OWN);
        let key = PrivateKeyDer::from_pem_slice(self.key_pem.as_bytes()).expect(OWN);
        Arc::new(builder.with_single_cert(chain, key).expect(OWN))
    }
}

const RANDOM: &str = "the system gives randomness for a key";
const OWN: &str = "what was made here can be used here";
