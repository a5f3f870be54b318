//! Which problems there are, by name.

use std::sync::{Arc, LazyLock, RwLock};

use crate::error::{Error, Result};
use crate::problems::allen_cahn::AllenCahn;
use crate::problems::burgers::Burgers;
use crate::problems::darcy::Darcy;
use crate::problems::darcy_solver::Boundary;
use crate::problems::heat::Heat;
use crate::problems::navier_stokes::NavierStokes;
use crate::problems::{Parameters, Problem};

static PROBLEMS: LazyLock<RwLock<Vec<Arc<dyn Problem>>>> = LazyLock::new(|| {
    RwLock::new(vec![
        Arc::new(Darcy::new(Boundary::default())),
        Arc::new(AllenCahn::new()),
        Arc::new(NavierStokes::new()),
        Arc::new(Burgers),
        Arc::new(Heat),
    ])
});

/// All problems, those of the paper first.
pub fn known() -> Vec<Arc<dyn Problem>> {
    let problems = PROBLEMS.read().expect("nothing panics under the lock");
    problems.clone()
}

/// Makes a problem known by its name, to recipes, files and commands.
pub fn register(problem: impl Problem + 'static) -> Result<()> {
    let mut problems = PROBLEMS.write().expect("nothing panics under the lock");
    if problems.iter().any(|p| p.name() == problem.name()) {
        return Err(Error::setting("problem", "this name is taken").with_value(problem.name()));
    }
    problems.push(Arc::new(problem));
    Ok(())
}

/// The problem of this name, with other values for some of its parameters.
pub fn named(name: &str, parameters: &Parameters) -> Result<Arc<dyn Problem>> {
    let problems = known();
    let Some(problem) = problems.iter().find(|p| p.name() == name) else {
        let names: Vec<&str> = problems.iter().map(|p| p.name()).collect();
        let what = format!("is not known; there are {}", names.join(", "));
        return Err(Error::setting("problem", what).with_value(name));
    };
    let usual = problem.parameters();
    let mut changed = parameters.clone();
    changed.retain(|key, value| usual.get(key) != Some(value));
    match changed.is_empty() {
        true => Ok(problem.clone()),
        false => problem.with(&changed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parameters(value: serde_json::Value) -> Parameters {
        value.as_object().expect("a map").clone()
    }

    #[test]
    fn problems_are_found_by_name_and_parameters() {
        let periodic = named("darcy", &parameters(json!({ "boundary": "periodic" }))).unwrap();
        assert_eq!(periodic.parameters()["boundary"], "periodic");
        // What a file says of its data leads back to the problem.
        for problem in known() {
            let again = named(problem.name(), &problem.parameters()).unwrap();
            assert_eq!(again.parameters(), problem.parameters());
        }
        let again = named("darcy", &periodic.parameters()).unwrap();
        assert_eq!(again.parameters(), periodic.parameters());
        let words = |name: &str, value| {
            let error = named(name, &parameters(value)).err().expect("an error");
            error.to_string()
        };
        assert!(words("stokes", json!({})).contains("there are darcy, allen-cahn"));
        assert!(words("allen-cahn", json!({ "speed": 3 })).contains("no choice of speed"));
        assert!(words("darcy", json!({ "boundary": "open" })).contains("boundary"));
        assert!(words("darcy", json!({ "source": 3 })).contains("source"));
        assert!(register(AllenCahn::new()).is_err());
    }
}
