//! Errors of the wire format: bytes from a peer that break the protocol, and requests that do not fit a frame.
//! What a server answers on purpose is not here but in [`crate::wire::server_error`].

use std::fmt;

use thiserror::Error;

/// Bytes from the peer do not follow the protocol.
///
/// The connection they came over cannot be trusted any longer, unless the bytes were those of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtocolError {
    /// What is wrong.
    pub kind: ProtocolErrorKind,
    /// The opcode byte of the frame, where it is known.
    pub opcode: Option<u8>,
    /// Where in the body (or, for a header, in the header) the trouble starts.
    pub offset: usize,
}

impl ProtocolError {
    /// Makes an error without an opcode.
    pub const fn new(kind: ProtocolErrorKind, offset: usize) -> Self {
        Self {
            kind,
            opcode: None,
            offset,
        }
    }

    /// Says which frame the error is about; an opcode that is already there stays.
    pub fn in_frame(mut self, opcode: u8) -> Self {
        self.opcode.get_or_insert(opcode);
        self
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.kind, self.offset)?;
        match self.opcode {
            Some(opcode) => write!(f, " of a frame with opcode 0x{opcode:02x}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ProtocolError {}

/// What is wrong with bytes from a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ProtocolErrorKind {
    /// A field reaches over the end.
    #[error("{needed} bytes are needed, {left} are left")]
    Truncated {
        /// How many bytes the field has.
        needed: usize,
        /// How many bytes are left.
        left: usize,
    },
    /// A length that cannot be negative is.
    #[error("negative length {0}")]
    NegativeLength(i32),
    /// A count promises more items than the rest can hold, or than the protocol has room for.
    #[error("a count of {count} does not fit the {left} bytes that are left")]
    CountTooLarge {
        /// The count as sent.
        count: usize,
        /// How many bytes are left.
        left: usize,
    },
    /// A negative count.
    #[error("negative count {0}")]
    NegativeCount(i32),
    /// A text is not UTF-8.
    #[error("text that is not utf-8")]
    NotUtf8,
    /// An opcode that no version has.
    #[error("unknown opcode 0x{0:02x}")]
    UnknownOpcode(u8),
    /// An answer on a stream that no request waits on.
    #[error("an answer on stream {0}, where no request waits")]
    UnknownStream(i16),
    /// A message that does not answer what was asked.
    #[error("a message that does not answer the request")]
    UnexpectedAnswer,
    /// A request where a response belongs, or the other way round.
    #[error("a frame of the wrong direction")]
    WrongDirection,
    /// A TLS alert where a frame belongs: the server speaks only to clients that encrypt.
    #[error("a tls alert: the server wants encryption")]
    TlsAlert,
    /// A frame of a protocol version that is not in use here.
    #[error("unexpected protocol version {0}")]
    UnexpectedVersion(u8),
    /// A body over the limit.
    #[error("a body of {length} bytes is over the limit of {max}")]
    BodyTooLong {
        /// The length in the header.
        length: u32,
        /// The limit.
        max: u32,
    },
    /// The body is not as long as its header says.
    #[error("the header says {header} bytes of body, there are {body}")]
    BodyLength {
        /// The length in the header.
        header: u32,
        /// The length of the body.
        body: usize,
    },
    /// A consistency level that does not exist.
    #[error("unknown consistency level 0x{0:04x}")]
    UnknownConsistency(u16),
    /// A kind of RESULT that does not exist.
    #[error("unknown kind of result {0}")]
    UnknownResultKind(i32),
    /// Metadata that contradict themselves.
    #[error("result metadata flags 0x{0:08x} contradict each other")]
    MetadataFlags(u32),
    /// A type id that does not exist.
    #[error("unknown type id 0x{0:04x}")]
    UnknownType(u16),
    /// Types nested too deep.
    #[error("types are nested too deep")]
    TypeTooDeep,
    /// A type's class name that cannot be read.
    #[error("malformed class name")]
    ClassName,
    /// An address that is neither four nor sixteen bytes long.
    #[error("an address of {0} bytes")]
    AddressLength(u8),
    /// A port that is no port.
    #[error("port {0} is out of range")]
    PortRange(i32),
    /// A schema change with an unknown verb.
    #[error("unknown kind of schema change")]
    UnknownSchemaChange,
    /// A schema change of an unknown kind of object.
    #[error("unknown target of a schema change")]
    UnknownSchemaTarget,
    /// An event that does not exist, in a REGISTER.
    #[error("unknown kind of event")]
    UnknownEvent,
    /// A value's length below the two that have a meaning.
    #[error("value length {0}")]
    ValueLength(i32),
    /// A batch of an unknown kind.
    #[error("unknown kind of batch {0}")]
    UnknownBatchKind(u8),
    /// A batch statement that is neither text nor prepared.
    #[error("unknown kind of batch statement {0}")]
    UnknownStatementKind(u8),
    /// Query flags that the version does not have.
    #[error("unexpected query flags 0x{0:x}")]
    QueryFlags(u32),
    /// A compressed body where no compression was agreed on.
    #[error("a compressed body without an agreed compression")]
    CompressionNotAgreed,
    /// A compressed body that cannot be read, or does not give as much as it says.
    #[error("a compressed body that cannot be read")]
    Compression,
    /// The header of a segment does not match its checksum.
    #[error("a segment header that does not match its checksum")]
    SegmentHeader,
    /// The payload of a segment does not match its checksum.
    #[error("a segment payload that does not match its checksum")]
    SegmentPayload,
    /// Envelopes and segments do not end where they should.
    #[error("an envelope that does not end with its segment")]
    SegmentBoundary,
}

impl ProtocolErrorKind {
    /// Whether a schema change was read that is well-formed but new to this driver.
    pub(crate) const fn is_unknown_schema_part(self) -> bool {
        matches!(self, Self::UnknownSchemaChange | Self::UnknownSchemaTarget)
    }
}

/// A request cannot be put into a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FrameEncodeError {
    /// A part is longer than its length field can say.
    #[error("{part} of length {len} is over the protocol's {max}")]
    TooLong {
        /// Which part.
        part: FramePart,
        /// How long it is: bytes or items.
        len: usize,
        /// How long it can be.
        max: usize,
    },
    /// A part that protocol version 4 cannot carry.
    #[error("{0} needs protocol version 5")]
    NeedsV5(FramePart),
    /// There are not as many names as values, the values are not whole, or a batch has names at all.
    #[error("the names and the values of a statement do not match")]
    NamesMismatch,
    /// What is said to be encoded already has no header.
    #[error("a frame without a header")]
    NotAFrame,
    /// A large value's place is not within the values.
    #[error("a large value lies outside of the values")]
    LargeValuePlace,
}

/// A part of a frame, for error messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FramePart {
    /// The whole body.
    Body,
    /// The statement's text.
    Text,
    /// A prepared statement's id, or the id of its result metadata.
    StatementId,
    /// The bound values.
    Values,
    /// The name of a value, an option, an event or a payload entry.
    Name,
    /// The keyspace of a request.
    Keyspace,
    /// The request's own clock.
    NowInSeconds,
    /// The custom payload.
    CustomPayload,
    /// The statements of a batch.
    Statements,
    /// A list of a response.
    List,
    /// A type's class name.
    ClassName,
}

impl fmt::Display for FramePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Body => "a body",
            Self::Text => "a text",
            Self::StatementId => "a statement id",
            Self::Values => "the bound values",
            Self::Name => "a name",
            Self::Keyspace => "a keyspace",
            Self::NowInSeconds => "a request's own clock",
            Self::CustomPayload => "a custom payload",
            Self::Statements => "a list of statements",
            Self::List => "a list",
            Self::ClassName => "a class name",
        })
    }
}
