//! Requests written into frames and answers parsed out of them.

use criterion::{Criterion, criterion_group, criterion_main};
use messina_benches::parts::wire::Frames;

fn wire(criterion: &mut Criterion) {
    let mut frames = Frames::new().expect("a canned answer");
    criterion.bench_function("wire/write an EXECUTE of three values", |bench| {
        bench.iter(|| frames.write().expect("values that fit"));
    });
    criterion.bench_function("wire/parse an answer of one row", |bench| {
        bench.iter(|| frames.parse().expect("a canned answer"));
    });
}

criterion_group!(suite, wire);
criterion_main!(suite);
