//! Shards of tokens and of source ports.

use std::num::NonZeroU16;

use messina_core::routing::{Sharder, Token};
use serde_json::Value as Json;

use crate::files::{self, VectorFile};

#[test]
fn tokens_belong_to_the_shards_the_servers_compute() {
    let Some(file) = VectorFile::open("sharding.json") else {
        return;
    };
    file.run("shard_of_token", files::none, |case| {
        let token = files::text(case, "token")
            .parse()
            .map_err(|_| "no number")?;
        compare(sharder(case).shard_of(Token(token)).0, case)
    });
}

#[test]
fn source_ports_lead_to_the_shards_the_servers_compute() {
    let Some(file) = VectorFile::open("sharding.json") else {
        return;
    };
    file.run("shard_of_port", files::none, |case| {
        let port = number(case, "source_port")
            .try_into()
            .map_err(|_| "no port")?;
        compare(sharder(case).shard_of_source_port(port).0, case)
    });
}

fn sharder(case: &Json) -> Sharder {
    let shards = u16::try_from(number(case, "nr_shards"))
        .ok()
        .and_then(NonZeroU16::new);
    let ignore_msb = case["ignore_msb"].as_u64().unwrap_or(12);
    Sharder {
        shards: shards.expect("a shard count"),
        ignore_msb: ignore_msb.try_into().expect("a number of bits"),
    }
}

fn number(case: &Json, field: &str) -> u64 {
    case[field]
        .as_u64()
        .unwrap_or_else(|| panic!("{field} is no number in {case}"))
}

fn compare(shard: u16, case: &Json) -> Result<(), String> {
    if u64::from(shard) == number(case, "shard") {
        Ok(())
    } else {
        Err(format!("shard {shard}"))
    }
}
