//! Owns what stands in for layers that this build does not have: types without a value.
//! Leaves out everything else; code that handles a layer compiles the same with and without it.

#[cfg(not(feature = "v5"))]
pub(crate) use segments::Segments;
#[cfg(not(feature = "rustls-023"))]
pub(crate) use tls::{TlsError, TlsLayer};

#[cfg(not(feature = "v5"))]
mod segments {
    use bytes::Bytes;

    use crate::conn::recv::RecvBuffer;
    use crate::conn::send::SendBuffer;
    use crate::error::protocol::ProtocolError;
    use crate::wire::{Compression, RawHeader};

    /// Does not exist in this build.
    #[derive(Debug)]
    pub(crate) enum Segments {}

    impl Segments {
        pub(crate) fn new(_compression: Option<Compression>) -> Option<Self> {
            None
        }

        pub(crate) fn read(&mut self, _recv: &mut RecvBuffer) -> Result<bool, ProtocolError> {
            match *self {}
        }

        pub(crate) fn take(
            &mut self,
            _body_max: u32,
        ) -> Result<Option<(RawHeader, Bytes)>, ProtocolError> {
            match *self {}
        }

        pub(crate) fn seal(&mut self, _send: &mut SendBuffer, _max: usize, _out: &mut Vec<u8>) {
            match *self {}
        }
    }
}

#[cfg(not(feature = "rustls-023"))]
mod tls {
    use crate::conn::layers::Progress;
    use crate::conn::recv::RecvBuffer;

    /// Does not exist in this build.
    #[derive(Debug)]
    pub(crate) enum TlsLayer {}

    /// Does not exist in this build.
    #[derive(Debug)]
    pub(crate) enum TlsError {}

    impl TlsLayer {
        pub(crate) fn is_open(&self) -> bool {
            match *self {}
        }

        pub(crate) fn window(&mut self) -> &mut [u8] {
            match *self {}
        }

        pub(crate) fn received(&mut self, _len: usize) {
            match *self {}
        }

        pub(crate) fn read(
            &mut self,
            _plain: &mut RecvBuffer,
            _out: &mut Vec<u8>,
        ) -> Result<Progress, TlsError> {
            match *self {}
        }

        pub(crate) fn seal(&mut self, _plain: &[u8], _out: &mut Vec<u8>) -> Result<(), TlsError> {
            match *self {}
        }

        pub(crate) fn close_notify(&mut self, _out: &mut Vec<u8>) {
            match *self {}
        }

        pub(crate) fn shrink(&mut self) {
            match *self {}
        }
    }
}
