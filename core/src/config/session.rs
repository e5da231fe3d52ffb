//! Owns the settings of a whole session.
//! Leaves out what single requests can change.

use std::sync::Arc;

use uuid::Uuid;

use crate::config::connection::ConnectionConfig;
use crate::config::limits::Limits;
use crate::policy::auth::Credentials;
use crate::seed::Random;

/// Holds every setting of a session.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// Is the id that every connection of the session tells the server.
    pub session_id: Uuid,
    /// Gives the login, where a server asks for one.
    pub credentials: Option<Arc<dyn Credentials>>,
    /// Restricts the authenticators that get the login, by class name; none means any.
    pub authenticators_allowed: Option<Vec<String>>,
    /// Is the keyspace of all connections.
    pub keyspace: Option<Arc<str>>,
    /// Describes the application to the server.
    pub application: ApplicationInfo,
    /// Describes the driver to the server.
    pub driver: DriverInfo,
    /// Sets timings and socket options of connections.
    pub connection: ConnectionConfig,
    /// Bounds what one connection may hold.
    pub limits: Limits,
}

impl SessionConfig {
    /// Makes the default settings, with a session id of its own.
    pub fn new(random: &mut Random) -> Self {
        Self {
            session_id: random.uuid(),
            credentials: None,
            authenticators_allowed: None,
            keyspace: None,
            application: ApplicationInfo::default(),
            driver: DriverInfo::default(),
            connection: ConnectionConfig::default(),
            limits: Limits::default(),
        }
    }
}

/// Describes the application to the server; what is empty is not sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApplicationInfo {
    /// Is its name.
    pub name: Option<String>,
    /// Is its version.
    pub version: Option<String>,
    /// Identifies one instance of it.
    pub client_id: Option<String>,
}

/// Describes the driver to the server; a binding over this driver puts its own name here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverInfo {
    /// Is its name.
    pub name: String,
    /// Is its version.
    pub version: String,
}

impl Default for DriverInfo {
    fn default() -> Self {
        Self {
            name: "Messina Rust Driver".into(),
            version: env!("CARGO_PKG_VERSION").into(),
        }
    }
}
