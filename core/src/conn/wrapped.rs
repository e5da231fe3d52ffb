//! Owns the ways of a connection whose frames travel in segments or records: when these begin, and what arrives in
//! them.
//! Leaves out the layers themselves.

use std::io::IoSlice;
use std::time::Instant;

#[cfg(not(feature = "v5"))]
use crate::conn::absent::Segments;
#[cfg(not(feature = "rustls-023"))]
use crate::conn::absent::TlsError;
use crate::conn::frames::Refused;
use crate::conn::layers::Progress;
use crate::conn::phase::Step;
#[cfg(feature = "v5")]
use crate::conn::segments::Segments;
#[cfg(feature = "rustls-023")]
use crate::conn::tls::{TlsError, TlsLayer};
use crate::conn::{Connection, HANDSHAKE_STREAM, Phase};
use crate::error::connect::{ConnectCause, ConnectionError};
#[cfg(feature = "rustls-023")]
use crate::error::connect::{ConnectError, ConnectPhase};
use crate::error::protocol::ProtocolError;
use crate::wire::{Flags, ProtocolVersion, RequestRef, ResponseFrame};

impl Connection {
    /// Begins with encryption, if that is planned, else with the first question.
    pub(super) fn begin_handshake(&mut self) {
        if self.plan.version == ProtocolVersion::V5 && !cfg!(feature = "v5") {
            let server = ProtocolVersion::V4.byte();
            return self.fail_connect(ConnectCause::Version { server });
        }
        #[cfg(feature = "rustls-023")]
        if self.plan.session.encryption.plan().is_some() {
            return self.begin_tls();
        }
        self.say(RequestRef::Options, HANDSHAKE_STREAM);
    }

    #[cfg(feature = "rustls-023")]
    fn begin_tls(&mut self) {
        if let Phase::Handshake(handshake) = &mut self.phase {
            handshake.step = Step::Tls;
        }
        let Some(tls) = self.plan.session.encryption.plan() else {
            return;
        };
        let mut outbox = crate::conn::layers::Outbox::default();
        match TlsLayer::new(tls, &self.plan, &mut outbox.bytes) {
            Ok(tls) => {
                let layers = crate::conn::layers::Layers::encrypted(tls, outbox);
                self.layers = Some(Box::new(layers));
            }
            Err(error) => self.fail_connect(ConnectCause::Tls(error)),
        }
    }

    /// Puts everything from now on into segments, in both directions.
    pub(super) fn begin_segments(&mut self) {
        match Segments::new(self.features.compression) {
            Some(segments) => {
                let layers = self.layers.get_or_insert_default();
                layers.begin_segments(segments, &mut self.send);
                self.look_again();
            }
            // Neither is ever agreed on: a version or a compression that this build does not have.
            None => {
                let server = ProtocolVersion::V4.byte();
                self.fail_connect(ConnectCause::Version { server });
            }
        }
    }

    pub(super) fn has_segments(&self) -> bool {
        let layers = self.layers.as_ref();
        layers.is_some_and(|layers| layers.segments.is_some())
    }

    /// Reads what arrived where frames do not lie in it as they are.
    pub(super) fn read_wrapped(&mut self, now: Instant, len: usize) {
        match self.layers.as_mut().and_then(|layers| layers.tls.as_mut()) {
            Some(tls) => {
                tls.received(len);
                self.read_records(now);
            }
            None => {
                self.recv.received(len);
                if let Err(error) = self.read_frames(now) {
                    self.fail(error.into());
                }
            }
        }
    }

    fn read_records(&mut self, now: Instant) {
        while let Some(layers) = &mut self.layers
            && let Some(tls) = &mut layers.tls
        {
            match tls.read(&mut self.recv, &mut layers.outbox.bytes) {
                Ok(Progress::Waiting) => return,
                Ok(Progress::Opened) => {
                    if let Phase::Handshake(handshake) = &mut self.phase {
                        handshake.step = Step::Options;
                    }
                    self.say(RequestRef::Options, HANDSHAKE_STREAM);
                }
                Ok(Progress::Plain) => {
                    if let Err(error) = self.read_frames(now) {
                        return self.fail(error.into());
                    }
                }
                Ok(Progress::PeerClosed) => return self.end_of_input(),
                Err(error) => return self.fail_tls(error),
            }
        }
    }

    pub(super) fn read_segments(&mut self, now: Instant) -> Result<(), ProtocolError> {
        let body_max = self.body_max;
        while let Some(layers) = &mut self.layers
            && let Some(segments) = &mut layers.segments
        {
            let Some((mut raw, body)) = segments.take(body_max)? else {
                if segments.read(&mut self.recv)? {
                    continue;
                }
                self.recv.settle();
                return Ok(());
            };
            // Means nothing in a segment.
            raw.flags = raw.flags.without(Flags::COMPRESSION);
            let header = match self.check_header(raw) {
                Ok(header) => header,
                Err(Refused::Protocol(error)) => return Err(error),
                Err(Refused::Version(server)) => {
                    self.fail_connect(ConnectCause::Version { server });
                    return Ok(());
                }
            };
            self.handle_frame(now, ResponseFrame { header, body })?;
        }
        Ok(())
    }

    pub(super) fn gather_wrapped<'a>(&'a mut self, out: &mut [IoSlice<'a>]) -> usize {
        let Some(layers) = &mut self.layers else {
            return 0;
        };
        if layers.seal(&mut self.send).is_err() {
            // Ends the connection with the next input.
            self.due_at = Some(self.now);
            return 0;
        }
        let rest = layers.outbox.rest();
        match out.first_mut() {
            Some(place) if !rest.is_empty() => {
                *place = IoSlice::new(rest);
                1
            }
            _ => 0,
        }
    }

    /// Keeps of the layers what may still be written after the end.
    pub(super) fn say_farewell(&mut self) {
        let is_cut = matches!(&self.phase, Phase::Closed(ConnectionError::Io(_)));
        let speaks = |layers: &mut Box<_>| !is_cut && crate::conn::layers::Layers::farewell(layers);
        if !self.layers.as_mut().is_some_and(speaks) {
            self.layers = None;
        }
    }

    #[cfg(not(feature = "rustls-023"))]
    pub(super) fn fail_tls(&mut self, error: TlsError) {
        match error {}
    }

    /// Ends the connection because of its encryption.
    #[cfg(feature = "rustls-023")]
    pub(super) fn fail_tls(&mut self, error: TlsError) {
        let Phase::Handshake(handshake) = &self.phase else {
            return self.fail(ConnectionError::Tls(error));
        };
        let tls = self.layers.as_ref().and_then(|layers| layers.tls.as_ref());
        // A client of TLS 1.3 is through with the handshake before it hears what the server thinks of it.
        let phase = match tls {
            Some(tls) if tls.has_heard() => handshake.phase(),
            _ => ConnectPhase::Tls,
        };
        let failure = ConnectError {
            address: self.plan.address.clone(),
            phase,
            cause: ConnectCause::Tls(error),
        };
        self.end(failure.into());
    }
}
