//! Who can be measured, and how this program is told to do so in a process of its own.

use std::fmt;

use clap::ValueEnum;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Contender {
    Floor,
    FloorEncode,
    Tokio,
    AsyncStd,
    Smol,
    Reference,
}

impl Contender {
    /// Everybody whom this program was built with.
    pub(crate) fn all() -> Vec<Self> {
        let mut all = vec![
            Self::Floor,
            Self::FloorEncode,
            Self::Tokio,
            Self::AsyncStd,
            Self::Smol,
        ];
        if cfg!(feature = "reference") {
            all.push(Self::Reference);
        }
        all
    }

    /// The first arguments of the process that runs it.
    pub(crate) const fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Floor => &["floor"],
            Self::FloorEncode => &["floor", "--encode"],
            Self::Tokio => &["client", "--runtime", "tokio"],
            Self::AsyncStd => &["client", "--runtime", "async-std"],
            Self::Smol => &["client", "--runtime", "smol"],
            Self::Reference => &["reference"],
        }
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Floor => "floor",
            Self::FloorEncode => "floor-encode",
            Self::Tokio => "tokio",
            Self::AsyncStd => "async-std",
            Self::Smol => "smol",
            Self::Reference => "reference",
        })
    }
}
