//! Consistency levels and their numbers.

use std::fmt;

/// How many replicas must answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Consistency {
    /// Any node, even one that only keeps a hint; writes only.
    Any = 0,
    /// One replica.
    One = 1,
    /// Two replicas.
    Two = 2,
    /// Three replicas.
    Three = 3,
    /// A majority of all replicas.
    Quorum = 4,
    /// Every replica.
    All = 5,
    /// A majority of the replicas of the coordinator's datacenter.
    #[default]
    LocalQuorum = 6,
    /// A majority in every datacenter.
    EachQuorum = 7,
    /// As a read's level: see conditional writes that are under way.
    Serial = 8,
    /// As [`Self::Serial`], within the coordinator's datacenter.
    LocalSerial = 9,
    /// One replica of the coordinator's datacenter.
    LocalOne = 10,
}

impl Consistency {
    /// All levels, in the order of their numbers.
    pub const ALL: [Self; 11] = [
        Self::Any,
        Self::One,
        Self::Two,
        Self::Three,
        Self::Quorum,
        Self::All,
        Self::LocalQuorum,
        Self::EachQuorum,
        Self::Serial,
        Self::LocalSerial,
        Self::LocalOne,
    ];

    /// The number of this level on the wire.
    pub const fn code(self) -> u16 {
        self as u16
    }

    /// The level with this number.
    pub fn from_code(code: u16) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// The name in CQL's spelling, such as `LOCAL_QUORUM`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Any => "ANY",
            Self::One => "ONE",
            Self::Two => "TWO",
            Self::Three => "THREE",
            Self::Quorum => "QUORUM",
            Self::All => "ALL",
            Self::LocalQuorum => "LOCAL_QUORUM",
            Self::EachQuorum => "EACH_QUORUM",
            Self::Serial => "SERIAL",
            Self::LocalSerial => "LOCAL_SERIAL",
            Self::LocalOne => "LOCAL_ONE",
        }
    }

    /// Whether this is one of the two serial levels.
    pub const fn is_serial(self) -> bool {
        matches!(self, Self::Serial | Self::LocalSerial)
    }
}

impl fmt::Display for Consistency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How far the agreement of a conditional write reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SerialConsistency {
    /// All datacenters.
    Serial,
    /// The coordinator's datacenter.
    #[default]
    LocalSerial,
}

impl SerialConsistency {
    /// The number of this level on the wire.
    pub const fn code(self) -> u16 {
        match self {
            Self::Serial => Consistency::Serial.code(),
            Self::LocalSerial => Consistency::LocalSerial.code(),
        }
    }

    /// The level with this number.
    pub const fn from_code(code: u16) -> Option<Self> {
        match code {
            8 => Some(Self::Serial),
            9 => Some(Self::LocalSerial),
            _ => None,
        }
    }

    /// The name in CQL's spelling.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Serial => "SERIAL",
            Self::LocalSerial => "LOCAL_SERIAL",
        }
    }
}

impl fmt::Display for SerialConsistency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
