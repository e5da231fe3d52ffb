//! The nine bytes in front of every frame, with flags and opcodes. Whether a header is acceptable on a given
//! connection (version, direction, length limit) is the connection's decision.

use crate::error::protocol::{ProtocolError, ProtocolErrorKind};

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Who speaks.
    pub direction: Direction,
    /// The protocol version as sent, seven bits.
    pub version: u8,
    /// The header flags; bits without a meaning are kept.
    pub flags: Flags,
    /// The stream id; a server's own messages have a negative one.
    pub stream: i16,
    /// What kind of message follows.
    pub opcode: Opcode,
    /// Length of the body, which never reaches over `i32::MAX`.
    pub length: u32,
}

impl FrameHeader {
    /// Length of a header in bytes.
    pub const LEN: usize = 9;

    /// Reads a header.
    ///
    /// Errors: a negative length, an unknown opcode, or an opcode that the sender's side does not have. Any version
    /// is taken, since the first answer of a server may have another one than was asked for.
    pub fn parse(bytes: &[u8; 9]) -> Result<Self, ProtocolError> {
        Self::try_from(RawHeader::parse(bytes))
    }

    /// Writes the header. A length over `i32::MAX` must not occur.
    pub fn to_bytes(self) -> [u8; 9] {
        let direction = match self.direction {
            Direction::Request => 0,
            Direction::Response => RESPONSE_BIT,
        };
        let [s0, s1] = self.stream.to_be_bytes();
        let [l0, l1, l2, l3] = self.length.to_be_bytes();
        let version = direction | (self.version & !RESPONSE_BIT);
        [
            version,
            self.flags.bits(),
            s0,
            s1,
            self.opcode.byte(),
            l0,
            l1,
            l2,
            l3,
        ]
    }
}

impl TryFrom<RawHeader> for FrameHeader {
    type Error = ProtocolError;

    fn try_from(raw: RawHeader) -> Result<Self, ProtocolError> {
        let fail = |kind, offset| ProtocolError {
            kind,
            opcode: Some(raw.opcode),
            offset,
        };
        let Ok(length) = u32::try_from(raw.length) else {
            return Err(fail(
                ProtocolErrorKind::NegativeLength(raw.length),
                LENGTH_AT,
            ));
        };
        let Some(opcode) = Opcode::from_byte(raw.opcode) else {
            return Err(fail(
                ProtocolErrorKind::UnknownOpcode(raw.opcode),
                OPCODE_AT,
            ));
        };
        if opcode.direction() != raw.direction {
            return Err(fail(ProtocolErrorKind::WrongDirection, OPCODE_AT));
        }
        Ok(Self {
            direction: raw.direction,
            version: raw.version,
            flags: raw.flags,
            stream: raw.stream,
            opcode,
            length,
        })
    }
}

/// A header whose opcode and length were not looked at yet: what a peer needs to answer even a broken one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawHeader {
    /// Who speaks.
    pub direction: Direction,
    /// The protocol version as sent, seven bits.
    pub version: u8,
    /// The header flags.
    pub flags: Flags,
    /// The stream id.
    pub stream: i16,
    /// The opcode as sent.
    pub opcode: u8,
    /// The length as sent.
    pub length: i32,
}

impl RawHeader {
    /// Splits nine bytes into their fields.
    pub fn parse(bytes: &[u8; 9]) -> Self {
        let [version, flags, s0, s1, opcode, l0, l1, l2, l3] = *bytes;
        Self {
            direction: if version & RESPONSE_BIT == 0 {
                Direction::Request
            } else {
                Direction::Response
            },
            version: version & !RESPONSE_BIT,
            flags: Flags(flags),
            stream: i16::from_be_bytes([s0, s1]),
            opcode,
            length: i32::from_be_bytes([l0, l1, l2, l3]),
        }
    }
}

/// Who a frame comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client.
    Request,
    /// From the server.
    Response,
}

/// A protocol version that this driver can speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ProtocolVersion {
    /// Version 4: ScyllaDB, and Cassandra from 2.2 on.
    #[default]
    V4,
    /// Version 5: Cassandra from 4.0 on.
    V5,
}

impl ProtocolVersion {
    /// The version as it stands in a header.
    pub const fn byte(self) -> u8 {
        match self {
            Self::V4 => 4,
            Self::V5 => 5,
        }
    }

    /// The version of a header, or none if it is not one of ours.
    pub const fn from_byte(version: u8) -> Option<Self> {
        match version {
            4 => Some(Self::V4),
            5 => Some(Self::V5),
            _ => None,
        }
    }
}

/// The flags of a header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u8);

impl Flags {
    /// The body is compressed (version 4).
    pub const COMPRESSION: Self = Self(0x01);
    /// In a request: please trace. In a response: a tracing id comes first.
    pub const TRACING: Self = Self(0x02);
    /// The body holds a custom payload.
    pub const CUSTOM_PAYLOAD: Self = Self(0x04);
    /// The body of a response holds warnings.
    pub const WARNING: Self = Self(0x08);
    /// The client takes a version that is not finished.
    pub const USE_BETA: Self = Self(0x10);

    /// No flag at all.
    pub const fn empty() -> Self {
        Self(0)
    }

    /// Takes the bits as they were sent.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// The bits as they are sent.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether all flags of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The flags of both.
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// These flags without those of `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Opcode {
    /// The server cannot do it.
    Error,
    /// Opens the conversation.
    Startup,
    /// The connection may be used, or the registration is made.
    Ready,
    /// The server wants a login.
    Authenticate,
    /// Asks what the server offers.
    Options,
    /// What the server offers.
    Supported,
    /// Runs a text.
    Query,
    /// The answer to QUERY, PREPARE, EXECUTE and BATCH.
    Result,
    /// Prepares a text.
    Prepare,
    /// Runs a prepared statement.
    Execute,
    /// Asks for events.
    Register,
    /// Something happened in the cluster.
    Event,
    /// Runs several statements as one.
    Batch,
    /// The next step of a login.
    AuthChallenge,
    /// The client's step of a login.
    AuthResponse,
    /// The login is done.
    AuthSuccess,
}

impl Opcode {
    /// Reads an opcode byte.
    pub const fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            0x00 => Self::Error,
            0x01 => Self::Startup,
            0x02 => Self::Ready,
            0x03 => Self::Authenticate,
            0x05 => Self::Options,
            0x06 => Self::Supported,
            0x07 => Self::Query,
            0x08 => Self::Result,
            0x09 => Self::Prepare,
            0x0a => Self::Execute,
            0x0b => Self::Register,
            0x0c => Self::Event,
            0x0d => Self::Batch,
            0x0e => Self::AuthChallenge,
            0x0f => Self::AuthResponse,
            0x10 => Self::AuthSuccess,
            _ => return None,
        })
    }

    /// The byte of this opcode.
    pub const fn byte(self) -> u8 {
        match self {
            Self::Error => 0x00,
            Self::Startup => 0x01,
            Self::Ready => 0x02,
            Self::Authenticate => 0x03,
            Self::Options => 0x05,
            Self::Supported => 0x06,
            Self::Query => 0x07,
            Self::Result => 0x08,
            Self::Prepare => 0x09,
            Self::Execute => 0x0a,
            Self::Register => 0x0b,
            Self::Event => 0x0c,
            Self::Batch => 0x0d,
            Self::AuthChallenge => 0x0e,
            Self::AuthResponse => 0x0f,
            Self::AuthSuccess => 0x10,
        }
    }

    /// Which side sends messages of this kind.
    pub const fn direction(self) -> Direction {
        match self {
            Self::Startup
            | Self::Options
            | Self::Query
            | Self::Prepare
            | Self::Execute
            | Self::Register
            | Self::Batch
            | Self::AuthResponse => Direction::Request,
            Self::Error
            | Self::Ready
            | Self::Authenticate
            | Self::Supported
            | Self::Result
            | Self::Event
            | Self::AuthChallenge
            | Self::AuthSuccess => Direction::Response,
        }
    }
}

/// The bit of the first byte that marks a response.
const RESPONSE_BIT: u8 = 0x80;
/// Where the opcode stands, for error offsets.
const OPCODE_AT: usize = 4;
/// Where the length stands, for error offsets.
const LENGTH_AT: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    fn header(hex: [u8; 9]) -> Result<FrameHeader, ProtocolErrorKind> {
        FrameHeader::parse(&hex).map_err(|error| error.kind)
    }

    #[test]
    fn a_header_survives_a_round_trip() {
        let bytes = [0x84, 0x0e, 0xff, 0xfe, 0x08, 0x00, 0x01, 0x02, 0x03];
        let parsed = header(bytes).unwrap();
        assert_eq!(parsed.direction, Direction::Response);
        assert_eq!(parsed.version, 4);
        assert_eq!(parsed.stream, -2);
        assert_eq!(parsed.opcode, Opcode::Result);
        assert_eq!(parsed.length, 0x0001_0203);
        assert!(
            parsed
                .flags
                .contains(Flags::WARNING.union(Flags::CUSTOM_PAYLOAD))
        );
        assert!(!parsed.flags.contains(Flags::COMPRESSION));
        assert_eq!(parsed.to_bytes(), bytes);
    }

    #[test]
    fn a_header_with_a_negative_length_is_refused() {
        assert_eq!(
            header([0x84, 0, 0, 1, 8, 0xff, 0xff, 0xff, 0xff]),
            Err(ProtocolErrorKind::NegativeLength(-1))
        );
    }

    #[test]
    fn the_largest_length_is_reported_as_it_is() {
        let parsed = header([0x84, 0, 0, 1, 8, 0x7f, 0xff, 0xff, 0xff]).unwrap();
        assert_eq!(parsed.length, i32::MAX.unsigned_abs());
    }

    #[test]
    fn an_unknown_opcode_is_refused() {
        for opcode in [0x04, 0x11, 0x20, 0x7f, 0xff] {
            assert_eq!(
                header([0x84, 0, 0, 1, opcode, 0, 0, 0, 0]),
                Err(ProtocolErrorKind::UnknownOpcode(opcode))
            );
        }
    }

    #[test]
    fn a_request_opcode_from_a_server_is_refused() {
        assert_eq!(
            header([0x84, 0, 0, 1, 7, 0, 0, 0, 0]),
            Err(ProtocolErrorKind::WrongDirection)
        );
        assert_eq!(
            header([0x04, 0, 0, 1, 8, 0, 0, 0, 0]),
            Err(ProtocolErrorKind::WrongDirection)
        );
    }

    #[test]
    fn every_opcode_reads_back_from_its_byte() {
        let known: Vec<Opcode> = (0..=u8::MAX).filter_map(Opcode::from_byte).collect();
        assert_eq!(known.len(), 16);
        for opcode in known {
            assert_eq!(Opcode::from_byte(opcode.byte()), Some(opcode));
        }
    }
}
