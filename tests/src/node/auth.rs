//! Logging in with a role and a password. Who may do what afterwards is not simulated.

use super::CqlError;

/// The class that AUTHENTICATE names.
pub(crate) const PASSWORD_AUTHENTICATOR: &str = "org.apache.cassandra.auth.PasswordAuthenticator";

/// Checks the token of AUTH_RESPONSE; gives the name of the role.
///
/// Like the server, this reads from the end: the password is behind the last zero byte, the role before it.
pub(crate) fn login(token: &[u8], role: &str, password: &str) -> Result<String, CqlError> {
    let refuse = |text: &str| CqlError::new(CqlError::BAD_CREDENTIALS, text);
    let mut parts = token.rsplitn(3, |byte| *byte == 0);
    let given_password = parts.next().unwrap_or(&[]);
    let given_role = parts.next();
    match (given_role, parts.next()) {
        (Some(given_role), Some(_)) if !given_role.is_empty() => {
            if given_role == role.as_bytes() && given_password == password.as_bytes() {
                Ok(role.to_owned())
            } else {
                Err(refuse("Username and/or password are incorrect"))
            }
        }
        _ => Err(refuse("Authentication ID must not be null")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_right_role_with_the_right_password_comes_in() {
        assert_eq!(
            login(b"\0scylla\0secret", "scylla", "secret").as_deref(),
            Ok("scylla")
        );
        assert!(
            login(b"other\0scylla\0secret", "scylla", "secret").is_ok(),
            "authzid is ignored"
        );
        for token in [
            &b"\0scylla\0wrong"[..],
            b"\0other\0secret",
            b"",
            b"\0",
            b"scylla\0secret",
            b"\0\0secret",
        ] {
            let error = login(token, "scylla", "secret").unwrap_err();
            assert_eq!(error.code, CqlError::BAD_CREDENTIALS);
        }
    }
}
