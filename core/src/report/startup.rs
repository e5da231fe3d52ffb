//! Owns the STARTUP options: what the driver tells a server about itself, its session and its application.
//! Leaves out when they are sent. One pure function of settings and of what the server offers.

use std::sync::Arc;

use super::driver_config::{DriverConfigFacts, driver_config};
use crate::config::identity::TOLD_LEN_MAX;
use crate::conn::{ConnectionPlan, Role};
use crate::notify::Note;
use crate::wire::{ProtocolFeatures, Supported};

/// Is the list of options, and what an operator should know about it.
#[derive(Clone, Debug, Default)]
pub struct StartupOptions {
    /// Are the options, each key once.
    pub options: Vec<(String, String)>,
    /// Names the options that had to be left out.
    pub notes: Vec<Note>,
    /// Is the document among them that shows how the session is configured.
    pub driver_config: Option<Arc<str>>,
}

/// Makes the STARTUP options of one connection.
///
/// An application's values are used where they are set and not empty; keys that the driver owns come from the driver
/// alone. A control connection shows how the session is configured as well, at this moment and to this server. What does
/// not fit is left out with a note: telling the server about ourselves never keeps a connection from working.
pub fn startup_options(
    plan: &ConnectionPlan,
    supported: &Supported,
    features: &ProtocolFeatures,
) -> StartupOptions {
    let session = &plan.session;
    let mut made = StartupOptions::default();
    let application = &session.application;
    made.add_set("APPLICATION_NAME", application.name.as_deref());
    made.add_set("APPLICATION_VERSION", application.version.as_deref());
    made.add_set("CLIENT_ID", application.client_id.as_deref());
    if plan.role == Role::Control && session.driver_config_reporting {
        made.add_driver_config(&DriverConfigFacts {
            session,
            scylla: features.are_of_scylla() || supported.shard_info().is_some(),
            datacenter: plan.datacenter.as_deref(),
            rack: plan.rack.as_deref(),
        });
    }
    made.add("SESSION_ID", session.session_id.hyphenated().to_string());
    made.add("DRIVER_NAME", session.driver.name.clone());
    made.add("DRIVER_VERSION", session.driver.version.clone());
    made.add_protocol(supported, features);
    made
}

/// Makes the options that the protocol needs and no other, for a server that refuses to be told more.
pub fn bare_startup_options(supported: &Supported, features: &ProtocolFeatures) -> StartupOptions {
    let mut made = StartupOptions::default();
    made.add_protocol(supported, features);
    made
}

impl StartupOptions {
    fn add_protocol(&mut self, supported: &Supported, features: &ProtocolFeatures) {
        self.add("CQL_VERSION", CQL_VERSION.into());
        for (key, value) in supported.startup_extensions(features) {
            self.add(key, value);
        }
    }

    fn add_driver_config(&mut self, facts: &DriverConfigFacts<'_>) {
        match driver_config(facts) {
            Ok(document) => {
                self.driver_config = Some(document.as_str().into());
                self.add("DRIVER_CONFIG", document);
            }
            Err(why) => self.notes.push(Note::DriverConfigLeftOut(why)),
        }
    }

    fn add_set(&mut self, key: &'static str, value: Option<&str>) {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            self.add(key, value.into());
        }
    }

    fn add(&mut self, key: &'static str, value: String) {
        if TOLD_LEN_MAX < value.len() {
            self.notes.push(Note::StartupOptionLeftOut {
                key,
                len: value.len(),
                len_max: TOLD_LEN_MAX,
            });
        } else {
            self.options.push((key.into(), value));
        }
    }
}

/// Is the oldest version of the language that servers of today name; all of them take it and none looks further.
const CQL_VERSION: &str = "3.0.0";

#[cfg(test)]
mod tests;
