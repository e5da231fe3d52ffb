//! Owns logins: where user and password come from, and what they look like on the wire.
//! Leaves out the authentication steps themselves, which are the connection's.

use std::fmt;

use thiserror::Error;

use crate::conn::Address;

/// Hands out the login for a connection.
///
/// Asked once for each connection that the server wants authenticated, so a rotated password is used from the next
/// connection on. The answer must be at hand: refresh what is behind it elsewhere.
pub trait Credentials: Send + Sync + fmt::Debug {
    /// Returns the login for a server, given the class name of its authenticator.
    fn login(&self, address: &Address, authenticator: &str) -> Result<Login, LoginError>;
}

/// Holds a user and a password; never shows the password.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    user: String,
    password: String,
}

impl Login {
    /// Takes a user and a password; neither may hold a zero byte, which the wire format uses as its separator.
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Result<Self, LoginError> {
        let (user, password) = (user.into(), password.into());
        if user.bytes().chain(password.bytes()).any(|byte| byte == 0) {
            return Err(LoginError::ZeroByte);
        }
        Ok(Self { user, password })
    }

    /// Returns the user's name.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Builds the token of SASL PLAIN: no authorization id, user, password, each after a zero byte.
    pub(crate) fn plain_token(&self) -> Vec<u8> {
        let mut token = Vec::with_capacity(self.user.len() + self.password.len() + 2);
        token.push(0);
        token.extend_from_slice(self.user.as_bytes());
        token.push(0);
        token.extend_from_slice(self.password.as_bytes());
        token
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// Says why there is no login.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LoginError {
    /// User or password holds a zero byte.
    #[error("user and password must not hold a zero byte")]
    ZeroByte,
    /// The application's provider has none right now.
    #[error("the credentials provider has no login")]
    Provider(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Gives the same user and password to every server, whatever its authenticator is called.
#[derive(Clone)]
pub struct PlainCredentials {
    user: String,
    password: String,
}

impl PlainCredentials {
    /// Takes a user and a password.
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self {
            user: user.into(),
            password: password.into(),
        }
    }
}

impl Credentials for PlainCredentials {
    fn login(&self, _address: &Address, _authenticator: &str) -> Result<Login, LoginError> {
        Login::new(self.user.clone(), self.password.clone())
    }
}

impl fmt::Debug for PlainCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlainCredentials")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address() -> Address {
        Address::Tcp(([192, 0, 2, 1], 9042).into())
    }

    #[test]
    fn a_plain_token_separates_user_and_password_with_zero_bytes() {
        let login = PlainCredentials::new("cassandra", "cassandra")
            .login(&address(), "any")
            .unwrap();
        assert_eq!(login.plain_token(), b"\0cassandra\0cassandra");
        assert_eq!(login.user(), "cassandra");
    }

    #[test]
    fn a_password_is_never_shown() {
        let credentials = PlainCredentials::new("ada", "secret");
        let login = credentials.login(&address(), "any").unwrap();
        for shown in [
            format!("{credentials:?}"),
            format!("{login:?}"),
            format!("{login:#?}"),
        ] {
            assert!(
                shown.contains("ada") && !shown.contains("secret"),
                "{shown}"
            );
        }
    }

    #[test]
    fn a_zero_byte_in_a_login_is_refused() {
        assert!(matches!(Login::new("a\0b", "c"), Err(LoginError::ZeroByte)));
        assert!(matches!(Login::new("a", "\0"), Err(LoginError::ZeroByte)));
    }
}
