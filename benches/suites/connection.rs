//! Requests through the core alone: route, bind, submit, transmit, receive, reply.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use messina_benches::parts::connection::Loop;

fn connection(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("connection");
    for batch in [1, 64] {
        let mut turns = Loop::new(batch).expect("a connection");
        group.throughput(Throughput::Elements(u64::from(batch)));
        group.bench_function(format!("{batch} in flight"), |bench| {
            bench.iter(|| turns.turn().expect("answers"));
        });
    }
    group.finish();
}

criterion_group!(suite, connection);
criterion_main!(suite);
