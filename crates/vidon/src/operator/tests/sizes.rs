//! Numbers of weights, and how they start.

use super::*;

#[test]
fn sizes_are_those_of_a_count_by_hand() {
    let dims = Dims {
        sensor_coords: 2,
        sensor_values: 1,
        query_coords: 2,
        targets: 1,
    };
    let (parts, entries) = Parts::new(&ModelConfig::default(), &meta(dims), 0).unwrap();
    // Ψ_c: 2→40→40→40→40, Ψ_v: 1→40→40→40→40.
    let encoders = (2 * 40 + 40) + (40 + 40) + 2 * 3 * (40 * 40 + 40);
    // ω̃: 40→128→128→128→128→1, ν̃: the same →64, four heads.
    let body = (40 * 128 + 128) + 3 * (128 * 128 + 128);
    let heads = 4 * (2 * body + (128 + 1) + (128 * 64 + 64));
    // Φ: 256→256→256→256→256→100.
    let combine = 4 * (256 * 256 + 256) + (256 * 100 + 100);
    // Trunk: 2→250→250→250→250→101.
    let trunk = (2 * 250 + 250) + 3 * (250 * 250 + 250) + (250 * 101 + 101);
    let total: usize = entries.iter().map(|e| e.values.len()).sum();
    assert_eq!(total, encoders + heads + combine + trunk);
    let [branch, other] = parts.branch_and_trunk().unwrap();
    assert_eq!(
        (branch.size, other.size),
        (encoders + heads + combine, trunk)
    );
    assert_eq!((branch.depth, other.depth), (4 + 5 + 5 + 5, 5));
    assert_eq!((branch.width, other.width), (40 + 40 + 8 * 128 + 256, 250));
}

#[test]
fn starting_weights_have_the_papers_spread() {
    let dims = Dims {
        sensor_coords: 2,
        sensor_values: 1,
        query_coords: 2,
        targets: 1,
    };
    let config = ModelConfig::default();
    let (_, entries) = Parts::new(&config, &meta(dims), 3).unwrap();
    let values = |name: &str| &entries.iter().find(|e| e.name == name).unwrap().values;
    let bound = |name: &str| values(name).iter().fold(0f32, |a, v| a.max(v.abs()));
    let first = bound("trunk.0.weight");
    assert!(first <= 0.5f32.sqrt() && first > 0.99 * 0.5f32.sqrt());
    let last = bound("trunk.4.weight");
    assert!(last <= (1.0f32 / 250.0).sqrt() && last > 0.99 * (1.0f32 / 250.0).sqrt());
    let middle = values("trunk.2.weight");
    let deviation = (middle.iter().map(|v| v * v).sum::<f32>() / middle.len() as f32).sqrt();
    assert!((deviation / (2.0f32 / 500.0).sqrt() - 1.0).abs() < 0.02);
    assert!(bound("trunk.2.bias") <= (1.0f32 / 250.0).sqrt());
    assert_eq!(Parts::new(&config, &meta(dims), 3).unwrap().1, entries);
    assert_ne!(Parts::new(&config, &meta(dims), 4).unwrap().1, entries);
}

#[test]
fn paper_sizes_follow_the_problem() {
    use crate::problems::{AllenCahn, Boundary, Darcy, NavierStokes};
    let size = |name, problem: &dyn crate::problems::Problem, dims: Dims| {
        let config = ModelConfig::of_paper(name, problem).unwrap();
        let (_, entries) = Parts::new(&config, &meta(dims), 0).unwrap();
        let trained = entries.iter().filter(|e| e.trained);
        trained.map(|e| e.values.len()).sum::<usize>()
    };
    let plane = Dims {
        sensor_coords: 2,
        sensor_values: 1,
        query_coords: 2,
        targets: 1,
    };
    let time = Dims {
        query_coords: 3,
        ..plane
    };
    let darcy = Darcy::new(Boundary::Dirichlet);
    // DeepONet on Darcy: branch 2601→250×4→100, trunk 2→250×4→101.
    let inner = 3 * (250 * 250 + 250);
    let branch = (2601 * 250 + 250) + inner + (250 * 100 + 100);
    let trunk = (2 * 250 + 250) + inner + (250 * 101 + 101);
    assert_eq!(size(ModelName::DeepOnet, &darcy, plane), branch + trunk);
    // FNO: 3→32, four layers of 2·12·12·32·32 complex and 32→32, 32→128→1.
    let layer = 2 * 12 * 12 * 32 * 32 * 2 + 32 * 32 + 32;
    assert_eq!(
        size(ModelName::Fno, &NavierStokes::new(), plane),
        4 * 32 + 4 * layer + (32 * 128 + 128) + 129
    );
    assert!(
        size(ModelName::Vidon, &AllenCahn::new(), time) > size(ModelName::Vidon, &darcy, plane)
    );
    assert!(ModelConfig::of_paper(ModelName::Fno, &AllenCahn::new()).is_err());
}
