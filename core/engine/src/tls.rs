//! Owns what a plan for encryption needs of the system: the clock, and the certificates that the system trusts.
//! Leaves out encryption itself, which is the core's.

use std::sync::Arc;

pub use messina_core::conn::tls::{
    ServerNameRule, TlsConfigError, TlsError, TlsErrorKind, TlsPlan, TlsPlanBuilder, rustls,
};
use rustls::time_provider::DefaultTimeProvider;

/// Starts a plan for encryption; certificates are checked by the system's clock.
///
/// Give it the certificates to trust: a PEM text, or what the system trusts (feature `native-roots`).
///
/// ```no_run
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use messina_engine::tls;
///
/// let plan = tls::plan().roots_pem(&std::fs::read("ca.pem")?).build()?;
/// # drop(plan);
/// # Ok(())
/// # }
/// ```
pub fn plan() -> TlsPlanBuilder {
    TlsPlan::builder(Arc::new(DefaultTimeProvider))
}

/// Trusts the certificates that the system trusts, in addition to others.
///
/// # Errors
/// No certificate could be read.
#[cfg(feature = "native-roots")]
pub fn with_native_roots(plan: TlsPlanBuilder) -> Result<TlsPlanBuilder, NativeRootsError> {
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        let causes = found.errors.into_iter().map(Arc::new).collect();
        return Err(NativeRootsError { causes });
    }
    Ok(plan.roots_usable(found.certs))
}

/// Says why the system's certificates could not be read.
#[cfg(feature = "native-roots")]
#[derive(Clone, Debug, thiserror::Error)]
#[error("the system has no certificates that can be read")]
pub struct NativeRootsError {
    causes: Vec<Arc<rustls_native_certs::Error>>,
}

#[cfg(feature = "native-roots")]
impl NativeRootsError {
    /// Counts the places that were looked at and could not be read.
    pub fn failures(&self) -> usize {
        self.causes.len()
    }
}
