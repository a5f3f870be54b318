//! Time per sample on one core: `cargo bench -p vidon`.

use criterion::{Criterion, criterion_group, criterion_main};
use vidon::problems::{Boundary, Darcy, DarcySolver, Field, NavierStokes, Problem};
use vidon::rng::stream;
use vidon::sensors::Layout;

fn darcy(c: &mut Criterion) {
    let problem = Darcy::new(Boundary::Dirichlet);
    let a = problem.permeability(&mut stream(0, "bench", 0));
    let f = problem.source();
    let mut solver = DarcySolver::new(250, Boundary::Dirichlet);
    c.bench_function("darcy/permeability", |b| {
        b.iter(|| problem.permeability(&mut stream(0, "bench", 0)))
    });
    c.bench_function("darcy/solve", |b| b.iter(|| solver.solve(&a, &f).unwrap()));
    c.bench_function("darcy/sample", |b| {
        b.iter(|| problem.draw(&mut stream(0, "bench", 0)).unwrap())
    });
}

fn navier_stokes(c: &mut Criterion) {
    let problem = NavierStokes::new();
    c.bench_function("navier-stokes/sample", |b| {
        b.iter(|| problem.draw(&mut stream(0, "bench", 0)).unwrap())
    });
    let field = problem.initial(&mut stream(0, "bench", 0));
    let spec = problem.spec();
    let points = spec.sensors.place(Layout::Random, 0, "bench", 0);
    c.bench_function("navier-stokes/1089 random sensors", |b| {
        b.iter(|| field.at(&points).unwrap())
    });
    let axes = spec.sensors.domain().axes(&spec.test_grid);
    c.bench_function("navier-stokes/65 x 65 grid", |b| {
        b.iter(|| field.on_axes(&axes).unwrap())
    });
}

criterion_group!(benches, darcy, navier_stokes);
criterion_main!(benches);
