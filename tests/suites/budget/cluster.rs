//! What a large cluster costs: bytes for each token, and what a refresh asks for that finds nothing new.

use std::sync::Arc;

use messina_core::routing::HostIdx;

use crate::alloc::usage_of;
use crate::figure;
use crate::plane::{Answers, World};

const HOSTS: u16 = 1_000;
const TOKENS: u16 = 256;

#[test]
fn a_refresh_of_a_large_cluster_that_finds_nothing_new_allocates_little() {
    let mut world = World::new(Answers::new(HOSTS, TOKENS), 0);
    assert_eq!(world.routing().ring.tokens().len(), 256_000);
    world.refresh();
    let (ring, published) = (Arc::clone(&world.routing().ring), world.published);
    let (usage, ()) = usage_of(|| world.refresh());
    figure("refresh of 256,000 tokens, allocations", usage.calls);
    assert!(usage.calls <= 50_000, "{} allocations", usage.calls);
    assert!(usage.bytes <= 16 << 20, "{} bytes", usage.bytes);
    assert!(
        Arc::ptr_eq(&ring, &world.routing().ring),
        "the ring was built again"
    );
    assert_eq!(world.published, published, "a snapshot says nothing new");
}

#[test]
fn a_vnode_token_takes_at_most_forty_bytes() {
    let kept = |tokens| {
        let answers = Answers::new(HOSTS, tokens);
        let (usage, world) = usage_of(|| World::new(answers, 0));
        (usage.kept(), world)
    };
    let (small, _few) = kept(1);
    let (large, world) = kept(TOKENS);
    let replicas = world.routing().ring.placements();
    assert_eq!(replicas.len(), 1);
    let each = (large - small) as f64 / (f64::from(HOSTS) * f64::from(TOKENS - 1));
    figure("bytes a vnode token", each);
    assert!(each <= 40.0, "{each} bytes");
    let lists = world.routing();
    let table = lists.table_idx("bench", "kv").expect("a known table");
    let three: &[HostIdx] = lists.replicas(table, lists.ring.tokens()[1_000]);
    assert_eq!(three.len(), 3);
}
