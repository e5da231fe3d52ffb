//! Owns what arrives, frame by frame: which headers are acceptable, and whom a frame is for.
//! Leaves out the life of requests and the steps of the handshake, which it hands frames to.

use std::sync::Arc;
use std::time::Instant;

use crate::conn::output::ConnectionOutput;
use crate::conn::pack::Packer;
use crate::conn::phase::{Say, Step};
use crate::conn::streams::Answered;
use crate::conn::{Connection, EVENT_STREAM, HANDSHAKE_STREAM, KEEPALIVE_STREAM, Phase};
use crate::error::connect::{ConnectCause, ConnectionError};
use crate::error::protocol::{ProtocolError, ProtocolErrorKind};
use crate::notify::Note;
use crate::wire::compress::unpack_body;
use crate::wire::{
    Direction, Flags, FrameHeader, Opcode, ProtocolVersion, RawHeader, Response, ResponseFrame,
    ServerEvent,
};

impl Connection {
    pub(super) fn read_frames(&mut self, now: Instant) -> Result<(), ProtocolError> {
        if self.layers.is_some() && self.has_segments() {
            return self.read_segments(now);
        }
        if let Phase::Handshake(_) = self.phase {
            self.check_first_byte()?;
        }
        loop {
            if !matches!(self.phase, Phase::Handshake(_)) {
                self.read_results();
            }
            let Some(bytes) = self.recv.header() else {
                break;
            };
            let mut header = match self.check_header(RawHeader::parse(bytes)) {
                Ok(header) => header,
                Err(Refused::Protocol(error)) => return Err(error),
                Err(Refused::Version(server)) => {
                    self.fail_connect(ConnectCause::Version { server });
                    return Ok(());
                }
            };
            let Some(body) = self.recv.take_body(header.length) else {
                break;
            };
            let agreed = self.features.compression;
            let body = unpack_body(&mut header, body, agreed, self.body_max)?;
            self.handle_frame(now, ResponseFrame { header, body })?;
            if matches!(self.phase, Phase::Closed(_)) {
                return Ok(());
            }
            // The answer to STARTUP is the last frame of version 5 outside of a segment.
            if self.layers.is_some() && self.has_segments() {
                return self.read_segments(now);
            }
        }
        self.recv.settle();
        Ok(())
    }

    /// Takes the frames that need no second look: whole results of requests that wait for them.
    ///
    /// This is the path of nearly all answers. Whatever is different in any way stays where it is, for all the checks
    /// that follow.
    #[inline]
    fn read_results(&mut self) {
        let version = self.plan.version.byte();
        let max = self.body_max;
        while let Some(stream) = self.recv.void_ahead(version) {
            let Some(freed) = self.streams.free_result(stream) else {
                return;
            };
            self.recv.skip_void();
            self.put_void(freed, stream);
        }
        while let Some(bytes) = self.recv.header()
            && let raw = RawHeader::parse(bytes)
            && (raw.version, raw.opcode) == (version, Opcode::Result.byte())
            && raw.direction == Direction::Response
            && !raw.flags.contains(Flags::COMPRESSION)
            && let Ok(length) = u32::try_from(raw.length)
            && length <= max
            && self.streams.awaits_result(raw.stream)
            && let Some(body) = self.recv.take_body(length)
        {
            let RawHeader {
                direction,
                version,
                flags,
                stream,
                ..
            } = raw;
            let opcode = Opcode::Result;
            let header = FrameHeader {
                direction,
                version,
                flags,
                stream,
                opcode,
                length,
            };
            let Some(Answered::Request(answered)) = self.streams.free_stream(stream) else {
                return;
            };
            self.put_answer(answered, ResponseFrame { header, body });
        }
    }

    /// Refuses a peer that speaks another protocol before nine bytes of it arrived: it may never send as many.
    fn check_first_byte(&self) -> Result<(), ProtocolError> {
        match self.recv.first_byte() {
            Some(TLS_ALERT) => Err(ProtocolError::new(ProtocolErrorKind::TlsAlert, 0)),
            Some(byte) if byte & 0x80 == 0 => {
                Err(ProtocolError::new(ProtocolErrorKind::WrongDirection, 0))
            }
            _ => Ok(()),
        }
    }

    #[inline]
    pub(super) fn check_header(&self, raw: RawHeader) -> Result<FrameHeader, Refused> {
        let asked = self.plan.version.byte();
        if raw.version != asked && raw.direction == Direction::Response {
            return Err(self.refuse_version(raw));
        }
        let header = FrameHeader::try_from(raw)?;
        let max = self.body_max;
        let kind = if header.direction != Direction::Response {
            ProtocolErrorKind::WrongDirection
        } else if max < header.length {
            ProtocolErrorKind::BodyTooLong {
                length: header.length,
                max,
            }
        } else if header.flags.contains(Flags::COMPRESSION)
            && self.features.compression.is_none()
            && self.plan.version == ProtocolVersion::V4
        {
            ProtocolErrorKind::CompressionNotAgreed
        } else {
            return Ok(header);
        };
        Err(ProtocolError::new(kind, 0).in_frame(raw.opcode).into())
    }

    /// The first answer may carry the server's own version: that is how it says what to ask for.
    fn refuse_version(&self, raw: RawHeader) -> Refused {
        match &self.phase {
            Phase::Handshake(handshake)
                if handshake.step == Step::Options && VERSIONS_KNOWN.contains(&raw.version) =>
            {
                Refused::Version(raw.version)
            }
            _ => ProtocolError::new(ProtocolErrorKind::UnexpectedVersion(raw.version), 0)
                .in_frame(raw.opcode)
                .into(),
        }
    }

    #[inline]
    pub(super) fn handle_frame(
        &mut self,
        now: Instant,
        frame: ResponseFrame,
    ) -> Result<(), ProtocolError> {
        let stream = frame.header.stream;
        match &self.phase {
            Phase::Open | Phase::Draining(_) if 0 < stream && stream != KEEPALIVE_STREAM => {
                self.handle_answer(frame)
            }
            _ if frame.header.opcode == Opcode::Event && stream == EVENT_STREAM => {
                self.handle_event(&frame);
                Ok(())
            }
            Phase::Handshake(_) => self.handle_step(now, &frame),
            _ if stream == KEEPALIVE_STREAM => match frame.header.opcode {
                Opcode::Supported | Opcode::Error if self.keepalive.answered() => {
                    self.look_again();
                    Ok(())
                }
                _ => Err(stray(&frame)),
            },
            _ => self.handle_connection_error(&frame),
        }
    }

    /// Takes an error that the server could not tie to a request; nothing else may come on these streams.
    fn handle_connection_error(&mut self, frame: &ResponseFrame) -> Result<(), ProtocolError> {
        if frame.header.opcode != Opcode::Error {
            return Err(stray(frame));
        }
        if let Response::Error(error) = frame.parse(&self.features)?.response {
            self.fail(ConnectionError::Server(Arc::new(error)));
        }
        Ok(())
    }

    fn handle_event(&mut self, frame: &ResponseFrame) {
        let address = || self.plan.address.clone();
        let output = match frame
            .parse(&self.features)
            .map(|envelope| envelope.response)
        {
            Ok(Response::Event(ServerEvent::Unknown { kind })) => {
                ConnectionOutput::Note(Note::EventUnknown {
                    address: address(),
                    kind,
                })
            }
            Ok(Response::Event(event)) => ConnectionOutput::Event(event),
            Ok(_) => return,
            Err(error) => ConnectionOutput::Note(Note::EventUnreadable {
                address: address(),
                error,
            }),
        };
        self.put(output);
    }

    fn handle_step(&mut self, now: Instant, frame: &ResponseFrame) -> Result<(), ProtocolError> {
        let Phase::Handshake(handshake) = &mut self.phase else {
            return Ok(());
        };
        // An error can come on a stream of the server's choice; it can only mean the one request under way.
        let FrameHeader { stream, opcode, .. } = frame.header;
        if stream != HANDSHAKE_STREAM && (opcode != Opcode::Error || 0 < stream) {
            return Err(stray(frame));
        }
        let started = handshake.step == Step::Startup;
        let said = handshake.answer(&self.plan, frame);
        self.features = *handshake.features();
        let notes = std::mem::take(&mut handshake.notes);
        let reported = handshake.reported.take();
        notes
            .into_iter()
            .for_each(|note| self.put(ConnectionOutput::Note(note)));
        if let Some(document) = reported {
            self.put(ConnectionOutput::Reported(document));
        }
        if started
            && said.is_ok()
            && !matches!(said, Ok(Say::Startup(_)))
            && self.plan.version == ProtocolVersion::V5
        {
            self.begin_segments();
        }
        match said {
            Ok(Say::Ready(info)) => self.open(now, info),
            Ok(say @ Say::Startup(_)) => {
                if let (Some(compression), ProtocolVersion::V4) =
                    (self.features.compression, self.plan.version)
                {
                    self.packer = Some(Box::new(Packer::new(compression)));
                }
                say.with_request(|request| self.say(request, HANDSHAKE_STREAM));
            }
            Ok(say) => {
                say.with_request(|request| self.say(request, HANDSHAKE_STREAM));
            }
            Err(cause) => self.fail_connect(cause),
        }
        Ok(())
    }
}

/// Says why a header is not acceptable.
pub(super) enum Refused {
    Protocol(ProtocolError),
    Version(u8),
}

impl From<ProtocolError> for Refused {
    fn from(error: ProtocolError) -> Self {
        Self::Protocol(error)
    }
}

/// Is what a record of TLS begins with in which a server complains about what is not encrypted.
const TLS_ALERT: u8 = 0x15;
/// Are the versions that a server of our time can ask us to speak.
const VERSIONS_KNOWN: std::ops::RangeInclusive<u8> = 3..=5;

pub(super) fn stray(frame: &ResponseFrame) -> ProtocolError {
    ProtocolError::new(
        ProtocolErrorKind::UnknownStream(frame.header.stream),
        STREAM_AT,
    )
    .in_frame(frame.header.opcode.byte())
}

/// Is the place of the stream id in a header.
const STREAM_AT: usize = 2;
