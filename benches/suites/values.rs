//! Rows bound, and pages of rows read.

use criterion::{Criterion, criterion_group, criterion_main};
use messina_benches::parts::values::{Insert, Page};

fn values(criterion: &mut Criterion) {
    let mut insert = Insert::new();
    criterion.bench_function("values/bind three and hash the key", |bench| {
        bench.iter(|| {
            insert
                .bind(7)
                .map(|(_, token)| token)
                .expect("values that fit")
        });
    });
    let page = Page::new();
    criterion.bench_function("values/read 5,000 wide rows, borrowed", |bench| {
        bench.iter(|| page.borrowed().expect("rows"));
    });
    criterion.bench_function("values/read 5,000 wide rows, owned", |bench| {
        bench.iter(|| page.owned().expect("rows"));
    });
}

criterion_group!(suite, values);
criterion_main!(suite);
