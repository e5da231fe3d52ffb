//! Numbers of variants that do not fit what the enum is stored as.

use messina_tokio::{FromValue, ToValue};

#[derive(FromValue)]
#[cql(tinyint)]
enum Small {
    Fits = 127,
    DoesNotFit,
}

#[derive(ToValue)]
#[cql(int)]
enum Medium {
    DoesNotFit = -2_147_483_649,
}

fn main() {}
