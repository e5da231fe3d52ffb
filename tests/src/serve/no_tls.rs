//! Stands in for TLS in a build without it: types without a value.

use bytes::Bytes;

#[derive(Clone, Debug)]
pub(super) enum TlsServer {}

#[derive(Debug)]
pub(super) enum TlsStream {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(dead_code, reason = "nobody makes one")]
pub(super) enum Heard {
    More,
    End,
    Nonsense,
}

impl TlsServer {
    pub(super) fn accept(&self) -> Option<TlsStream> {
        match *self {}
    }
}

impl TlsStream {
    pub(super) fn hear(&mut self, _bytes: &[u8], _plain: &mut Vec<u8>) -> Heard {
        match *self {}
    }

    pub(super) fn say(&mut self, _plain: &[u8]) {
        match *self {}
    }

    pub(super) fn say_goodbye(&mut self) {
        match *self {}
    }

    pub(super) fn take(&mut self) -> Option<Bytes> {
        match *self {}
    }
}
