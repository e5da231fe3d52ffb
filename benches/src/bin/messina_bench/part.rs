//! One part of the core in a loop of a counted number of turns, for callgrind to count.

use clap::{Args, ValueEnum};
use messina_benches::BenchError;
use messina_benches::parts::connection::Loop;
use messina_benches::parts::routing::Map;
use messina_benches::parts::values::{Insert, Page};
use serde_json::json;

#[derive(Args, Clone, Debug)]
pub(crate) struct PartArgs {
    #[arg(long, value_enum)]
    part: Part,
    /// Turns of the loop.
    #[arg(long, default_value_t = 1000)]
    turns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Route, bind, submit, transmit, receive, reply; 64 requests a turn.
    Core,
    /// The same with one request a turn.
    CoreOne,
    /// Bind three values and hash the key.
    Bind,
    /// From a key to a connection, three hosts of eight shards.
    Route,
    /// From a key to a connection, 1,000 hosts of 256 tokens.
    RouteLarge,
    /// The replicas of a token, 1,000 hosts of 256 tokens.
    ReplicasLarge,
    /// A bare binary search in the same 256,000 tokens.
    SearchLarge,
    /// 5,000 wide rows into structs that borrow.
    PageBorrowed,
    /// 5,000 wide rows into structs that own.
    PageOwned,
}

impl Part {
    /// The two numbers of turns whose difference is counted.
    pub(crate) const fn counted(self) -> (u64, u64) {
        match self {
            Self::PageBorrowed | Self::PageOwned => (2, 6),
            Self::Core => (50, 250),
            _ => (1_000, 11_000),
        }
    }

    /// What is done in a turn, so often.
    pub(crate) const fn times(self) -> u64 {
        match self {
            Self::Core => 64,
            _ => 1,
        }
    }

    pub(crate) fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

pub(crate) fn run(args: &PartArgs) -> Result<(), BenchError> {
    let turns = 0..args.turns;
    match args.part {
        Part::Core | Part::CoreOne => {
            let mut each = Loop::new(u16::try_from(args.part.times())?)?;
            turns.into_iter().try_for_each(|_| each.turn())?;
        }
        Part::Bind => {
            let mut insert = Insert::new();
            for key in turns {
                insert.bind(i64::try_from(key)?)?;
            }
        }
        Part::Route => {
            let mut map = Map::new(3, 16, 8);
            turns.for_each(|_| map.route());
        }
        Part::RouteLarge => {
            let mut map = Map::new(1_000, 256, 0);
            turns.for_each(|_| map.route());
        }
        Part::ReplicasLarge => {
            let mut map = Map::new(1_000, 256, 0);
            turns.for_each(|_| map.replicas());
        }
        Part::SearchLarge => {
            let mut map = Map::new(1_000, 256, 0);
            turns.for_each(|_| map.search());
        }
        Part::PageBorrowed => {
            let page = Page::new();
            turns.into_iter().try_for_each(|_| page.borrowed())?;
        }
        Part::PageOwned => {
            let page = Page::new();
            turns.into_iter().try_for_each(|_| page.owned())?;
        }
    }
    println!(
        "{}",
        json!({ "part": args.part.name(), "turns": args.turns })
    );
    Ok(())
}
