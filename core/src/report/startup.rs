//! Owns the STARTUP options: what the driver tells a server about itself, its session and its application.
//! Leaves out when they are sent. One pure function of settings and of what the server offers.

use crate::config::session::SessionConfig;
use crate::notify::Note;
use crate::wire::{ProtocolFeatures, Supported};

/// Is the list of options, and what an operator should know about it.
#[derive(Clone, Debug, Default)]
pub struct StartupOptions {
    /// Are the options, each key once.
    pub options: Vec<(String, String)>,
    /// Names the options that had to be left out.
    pub notes: Vec<Note>,
}

/// Makes the STARTUP options of one connection.
///
/// An application's values are used where they are set and not empty; keys that the driver owns come from the driver
/// alone. A value that the wire cannot hold is left out with a note: telling the server about ourselves never keeps a
/// connection from working.
pub fn startup_options(
    session: &SessionConfig,
    supported: &Supported,
    features: &ProtocolFeatures,
) -> StartupOptions {
    let mut made = StartupOptions::default();
    let application = &session.application;
    made.add_set("APPLICATION_NAME", application.name.as_deref());
    made.add_set("APPLICATION_VERSION", application.version.as_deref());
    made.add_set("CLIENT_ID", application.client_id.as_deref());
    made.add("SESSION_ID", session.session_id.hyphenated().to_string());
    made.add("CQL_VERSION", CQL_VERSION.into());
    made.add("DRIVER_NAME", session.driver.name.clone());
    made.add("DRIVER_VERSION", session.driver.version.clone());
    for (key, value) in supported.startup_extensions(features) {
        made.add(key, value);
    }
    made
}

impl StartupOptions {
    fn add_set(&mut self, key: &'static str, value: Option<&str>) {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            self.add(key, value.into());
        }
    }

    fn add(&mut self, key: &'static str, value: String) {
        if VALUE_LEN_MAX < value.len() {
            self.notes.push(Note::StartupOptionLeftOut {
                key,
                len: value.len(),
            });
        } else {
            self.options.push((key.into(), value));
        }
    }
}

/// Is the oldest version of the language that servers of today name; all of them take it and none looks further.
const CQL_VERSION: &str = "3.0.0";
/// The wire's [string] has a length of 16 bits.
const VALUE_LEN_MAX: usize = 65_535;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::session::{ApplicationInfo, DriverInfo};
    use crate::seed::Seed;

    fn session() -> SessionConfig {
        SessionConfig::new(&mut Seed::from_u64(1).random())
    }

    fn made(session: &SessionConfig) -> StartupOptions {
        startup_options(session, &Supported::default(), &ProtocolFeatures::default())
    }

    fn value<'a>(made: &'a StartupOptions, key: &str) -> Option<&'a str> {
        made.options
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value.as_str())
    }

    #[test]
    fn a_plain_session_tells_driver_language_and_session_id() {
        let session = session();
        let made = made(&session);
        assert_eq!(value(&made, "CQL_VERSION"), Some("3.0.0"));
        assert_eq!(
            value(&made, "DRIVER_NAME"),
            Some(session.driver.name.as_str())
        );
        assert_eq!(
            value(&made, "DRIVER_VERSION"),
            Some(session.driver.version.as_str())
        );
        let id = value(&made, "SESSION_ID").unwrap();
        assert_eq!(id, session.session_id.to_string());
        assert_eq!((id.len(), id.to_lowercase().as_str()), (36, id));
        assert_eq!(made.options.len(), 4);
        assert!(made.notes.is_empty());
    }

    #[test]
    fn empty_and_unset_application_values_make_no_key() {
        let mut session = session();
        session.application = ApplicationInfo {
            name: Some("app".into()),
            version: Some(String::new()),
            client_id: None,
        };
        let made = made(&session);
        assert_eq!(value(&made, "APPLICATION_NAME"), Some("app"));
        assert_eq!(value(&made, "APPLICATION_VERSION"), None);
        assert_eq!(value(&made, "CLIENT_ID"), None);
    }

    #[test]
    fn a_binding_can_put_its_own_name_in_place_of_the_drivers() {
        let mut session = session();
        session.driver = DriverInfo {
            name: "Messina for X".into(),
            version: "9".into(),
        };
        let made = made(&session);
        assert_eq!(value(&made, "DRIVER_NAME"), Some("Messina for X"));
        assert_eq!(value(&made, "DRIVER_VERSION"), Some("9"));
    }

    #[test]
    fn a_value_that_the_wire_cannot_hold_is_left_out_with_a_note() {
        let mut session = session();
        session.application.name = Some("n".repeat(65_536));
        session.application.version = Some("v".repeat(65_535));
        let made = made(&session);
        assert_eq!(value(&made, "APPLICATION_NAME"), None);
        assert_eq!(
            value(&made, "APPLICATION_VERSION").map(str::len),
            Some(65_535)
        );
        assert!(matches!(
            made.notes[..],
            [Note::StartupOptionLeftOut {
                key: "APPLICATION_NAME",
                len: 65_536
            }]
        ));
    }
}
