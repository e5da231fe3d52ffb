//! Owns the choice whether connections are encrypted, in every build: whether there is encryption at all is a feature.
//! Leaves out how they are encrypted, which a plan says.

#[cfg(feature = "rustls-023")]
use crate::conn::tls::TlsPlan;

/// Says whether connections are encrypted; by default they are not.
#[derive(Clone, Debug, Default)]
pub struct Encryption {
    #[cfg(feature = "rustls-023")]
    plan: Option<TlsPlan>,
}

impl Encryption {
    /// Leaves connections as they are.
    pub fn none() -> Self {
        Self::default()
    }

    /// Encrypts all connections as planned.
    #[cfg(feature = "rustls-023")]
    pub const fn tls(plan: TlsPlan) -> Self {
        Self { plan: Some(plan) }
    }

    /// Returns how connections are encrypted, if they are.
    #[cfg(feature = "rustls-023")]
    pub const fn plan(&self) -> Option<&TlsPlan> {
        self.plan.as_ref()
    }

    /// Tells whether connections are encrypted; decides between the ports that a node has for both.
    pub const fn is_on(&self) -> bool {
        #[cfg(feature = "rustls-023")]
        let is_on = self.plan.is_some();
        #[cfg(not(feature = "rustls-023"))]
        let is_on = false;
        is_on
    }
}

#[cfg(feature = "rustls-023")]
impl From<TlsPlan> for Encryption {
    fn from(plan: TlsPlan) -> Self {
        Self::tls(plan)
    }
}
