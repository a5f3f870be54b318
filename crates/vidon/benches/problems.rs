//! Time per sample on one core: `cargo bench -p vidon`.

use criterion::{Criterion, criterion_group, criterion_main};
use rand::SeedableRng;
use vidon::problems::{Rng, known};
use vidon::sensors::Layout;

fn problems(c: &mut Criterion) {
    for problem in known() {
        let (name, spec) = (problem.name(), problem.spec());
        let draw = || problem.draw(&mut Rng::seed_from_u64(0)).unwrap();
        c.bench_function(&format!("{name}/pair"), |b| b.iter(draw));
        let drawn = draw().expect("the first is physical");
        let [input, _] = problem.functions(&drawn);
        let points = spec.sensors.place(Layout::Random, 0, "bench", 0);
        let sensors = points.len() / input.dim();
        c.bench_function(&format!("{name}/{sensors} random sensors"), |b| {
            b.iter(|| input.at(&points).unwrap())
        });
    }
}

criterion_group!(benches, problems);
criterion_main!(benches);
