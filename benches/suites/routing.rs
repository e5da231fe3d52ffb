//! From a token to a connection, in a small and in a large cluster, beside a bare search in the same tokens.

use criterion::{Criterion, criterion_group, criterion_main};
use messina_benches::parts::routing::Map;

fn routing(criterion: &mut Criterion) {
    let clusters = [
        ("3 hosts of 16 tokens and 8 shards", Map::new(3, 16, 8)),
        ("1,000 hosts of 256 tokens", Map::new(1_000, 256, 0)),
    ];
    for (name, mut map) in clusters {
        let mut group = criterion.benchmark_group(format!("routing/{name}"));
        group.bench_function("bare search", |bench| bench.iter(|| map.search()));
        group.bench_function("replicas of a token", |bench| bench.iter(|| map.replicas()));
        group.bench_function("token to connection", |bench| {
            bench.iter(|| map.route_token());
        });
        group.bench_function("key to connection", |bench| bench.iter(|| map.route()));
        group.finish();
    }
}

criterion_group!(suite, routing);
criterion_main!(suite);
