//! Owns what is kept of an error of the operating system or of a runtime: its kind and its words.
//! Leaves out what the error means for a connection or a session, which the errors around it say.

use std::fmt;
use std::io;
use std::sync::Arc;

/// An error of the operating system or of a runtime, cheap to clone.
///
/// It keeps the words of the [`io::Error`] it was made from, because the kind alone often says nothing
/// ("other error"); an [`io::ErrorKind`] has no words but its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoError {
    kind: io::ErrorKind,
    words: Option<Arc<String>>,
}

impl IoError {
    /// The kind, for decisions.
    #[must_use]
    pub fn kind(&self) -> io::ErrorKind {
        self.kind
    }
}

impl fmt::Display for IoError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.words {
            Some(words) => out.write_str(words),
            None => write!(out, "{}", self.kind),
        }
    }
}

impl std::error::Error for IoError {}

impl From<io::ErrorKind> for IoError {
    fn from(kind: io::ErrorKind) -> Self {
        Self { kind, words: None }
    }
}

impl From<io::Error> for IoError {
    fn from(error: io::Error) -> Self {
        let kind = error.kind();
        let words = error.to_string();
        Self {
            kind,
            words: (words != kind.to_string()).then(|| Arc::new(words)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_an_error_are_kept_beside_its_kind() {
        let error = IoError::from(io::Error::other("there is no reactor running"));
        assert_eq!(error.kind(), io::ErrorKind::Other);
        assert_eq!(error.to_string(), "there is no reactor running");
        let plain = IoError::from(io::ErrorKind::ConnectionRefused);
        assert_eq!(plain.to_string(), "connection refused");
        assert_eq!(
            IoError::from(io::Error::from(io::ErrorKind::ConnectionRefused)),
            plain
        );
    }
}
