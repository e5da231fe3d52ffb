//! Owns what a session tells servers of its application and of the driver.
//! Leaves out the session's own identity, which cannot be chosen, and how it is configured.

use crate::error::session::ConfigError;

/// What the application tells the server of itself; what is empty is not sent, everything else is sent as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApplicationInfo {
    /// The name of the application.
    pub name: Option<String>,
    /// The version of the application.
    pub version: Option<String>,
    /// What tells instances of the application apart.
    pub client_id: Option<String>,
}

impl ApplicationInfo {
    /// Checks that the protocol can hold what is set.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        check_told("application.name", self.name.as_deref())?;
        check_told("application.version", self.version.as_deref())?;
        check_told("application.client_id", self.client_id.as_deref())
    }
}

/// Checks that a text fits an option of the first message.
fn check_told(setting: &'static str, text: Option<&str>) -> Result<(), ConfigError> {
    match text.map(str::len) {
        Some(len) if TOLD_LEN_MAX < len => Err(ConfigError::TooLong {
            setting,
            len,
            len_max: TOLD_LEN_MAX,
        }),
        _ => Ok(()),
    }
}

/// A text in the first message has a length of 16 bits.
pub(crate) const TOLD_LEN_MAX: usize = 65_535;

/// What the driver tells the server of itself; for a driver or binding that is built on this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverInfo {
    /// The name of the driver.
    pub name: String,
    /// The version of the driver.
    pub version: String,
}

impl DriverInfo {
    /// Checks that the protocol can hold it.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        check_told("driver.name", Some(&self.name))?;
        check_told("driver.version", Some(&self.version))
    }
}

impl Default for DriverInfo {
    fn default() -> Self {
        Self {
            name: "Messina Rust Driver".into(),
            version: env!("CARGO_PKG_VERSION").into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::session::{ContactPoint, SessionConfig};

    type Change = fn(&mut SessionConfig, String);

    #[test]
    fn a_text_that_no_message_can_hold_is_refused_by_name() {
        let refused = |change: Change, len| {
            let point = "node1".parse::<ContactPoint>().expect("a name");
            let mut config = SessionConfig {
                contact_points: vec![point],
                ..SessionConfig::default()
            };
            change(&mut config, "x".repeat(len));
            match config.check() {
                Ok(()) => None,
                Err(ConfigError::TooLong {
                    setting,
                    len: 65_536,
                    len_max: 65_535,
                }) => Some(setting),
                Err(other) => panic!("{other}"),
            }
        };
        let cases: [(&str, Change); 5] = [
            ("application.name", |config, text| {
                config.application.name = Some(text);
            }),
            ("application.version", |config, text| {
                config.application.version = Some(text);
            }),
            ("application.client_id", |config, text| {
                config.application.client_id = Some(text);
            }),
            ("driver.name", |config, text| config.driver.name = text),
            ("driver.version", |config, text| {
                config.driver.version = text
            }),
        ];
        for (setting, change) in cases {
            assert_eq!(refused(change, 65_535), None, "{setting}");
            assert_eq!(refused(change, 65_536), Some(setting));
        }
    }
}
