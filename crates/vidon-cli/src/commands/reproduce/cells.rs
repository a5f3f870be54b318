//! The cells of the paper's tables: a problem, a layout and a network, each with a recipe that the program
//! carries.

use std::path::{Path, PathBuf};

use clap::Args;
use vidon::ModelName;
use vidon::problems::known;
use vidon::sensors::Layout;
use vidon::train::{Budget, Recipe};

use super::published::{Published, published};
use crate::choice::{Choice, a_problem, name_of, one_of};
use crate::commands::generate::LAYOUTS;
use crate::commands::train::{limit_among, parse};
use crate::failure::{Failure, Result};

/// Every recipe of the repository: its family and its text.
const RECIPES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/recipes.rs"));

/// Which recipes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Paper,
    Fast,
    Kriged,
}

pub const FAMILIES: &[Choice<Family>] = &[
    (
        Family::Paper,
        "paper",
        "The authors' networks and settings: 26 cells, an hour (FNO) to weeks (VIDON) each",
    ),
    (
        Family::Fast,
        "fast",
        "Projection networks: VIDON in 18 cells, half an hour each",
    ),
    (
        Family::Kriged,
        "kriged",
        "DeepONets on sensors interpolated to a grid: 3 cells, as long as the authors trained",
    ),
];

const MODELS: &[Choice<ModelName>] = &[
    (ModelName::Vidon, "vidon", "Any sensors"),
    (ModelName::DeepOnet, "deeponet", "The same sensors always"),
    (ModelName::Fno, "fno", "Sensors on a grid"),
];

/// The options that choose cells.
#[derive(Args)]
pub struct Selection {
    /// Only this problem; may be given several times
    #[arg(long, value_parser = a_problem())]
    problem: Vec<&'static str>,

    /// Only this layout; may be given several times
    #[arg(long, value_parser = one_of(LAYOUTS))]
    layout: Vec<Layout>,

    /// Only this network; may be given several times
    #[arg(long, value_parser = one_of(MODELS))]
    model: Vec<ModelName>,

    /// By which recipes
    #[arg(long, value_parser = one_of(FAMILIES), default_value = "fast")]
    family: Family,
}

impl Selection {
    /// The chosen cells; every choice must have one.
    pub fn cells(&self) -> Result<Vec<Cell>> {
        let wanted = [
            self.problem.clone(),
            names(LAYOUTS, &self.layout),
            names(MODELS, &self.model),
        ];
        let all = cells(self.family)?;
        let fits = |cell: &Cell| {
            let mut pairs = cell.words().into_iter().zip(&wanted);
            pairs.all(|(word, list)| list.is_empty() || list.contains(&word))
        };
        // The network first: most often it is what cannot take the rest.
        for axis in [2, 1, 0] {
            for word in &wanted[axis] {
                let has = |cell: &&Cell| cell.words()[axis] == *word;
                if !all.iter().filter(has).any(fits) {
                    let (family, option) = (name_of(FAMILIES, self.family), OPTIONS[axis]);
                    let with: Vec<String> = all.iter().filter(has).map(Cell::name).collect();
                    return Err(Failure::Words(match with.is_empty() {
                        true => format!(
                            "the family {family} has no cell with {option} {word}; vidon reproduce --family {family} --list shows what it has"
                        ),
                        false => format!(
                            "no cell of the family {family} has {option} {word} and the other choices; with {option} {word} there are {}",
                            with.join(", ")
                        ),
                    }));
                }
            }
        }
        Ok(all.into_iter().filter(fits).collect())
    }
}

const OPTIONS: [&str; 3] = ["--problem", "--layout", "--model"];

fn names<T: Copy + PartialEq>(choices: &[Choice<T>], values: &[T]) -> Vec<&'static str> {
    values.iter().map(|v| name_of(choices, *v)).collect()
}

/// A problem, a layout and a network, by the recipe of a family.
pub struct Cell {
    pub family: Family,
    pub problem: &'static str,
    pub layout: Layout,
    pub model: ModelName,
    /// The network's name as people write it.
    pub title: &'static str,
    text: &'static str,
}

/// All cells of a family, in the order of the tables.
pub fn cells(family: Family) -> Result<Vec<Cell>> {
    let problems = known();
    let own = RECIPES.iter().filter(|r| r.0 == name_of(FAMILIES, family));
    let mut cells = own
        .map(|(_, text)| {
            let recipe = parse(text, &[], None, None)?;
            let name = recipe.data.problem.as_deref();
            let problem = problems.iter().find(|p| Some(p.name()) == name);
            Ok(Cell {
                family,
                problem: problem.expect("a cell has a problem").name(),
                layout: recipe.data.layout.expect("a cell has a layout"),
                model: recipe.model.name(),
                title: recipe.model.name().name(),
                text,
            })
        })
        .collect::<Result<Vec<Cell>>>()?;
    let order = |c: &Cell| problems.iter().position(|p| p.name() == c.problem);
    cells.sort_by_key(|c| (order(c), c.layout as u8, c.model as u8));
    Ok(cells)
}

impl Cell {
    fn words(&self) -> [&'static str; 3] {
        [
            self.problem,
            self.layout.name(),
            name_of(MODELS, self.model),
        ]
    }

    /// Such as `darcy-variable-vidon`.
    pub fn name(&self) -> String {
        self.words().join("-")
    }

    /// Its run, from the folder of the report.
    pub fn run(&self) -> PathBuf {
        let family = name_of(FAMILIES, self.family);
        Path::new("runs").join(family).join(self.name())
    }

    /// Its recipe with the settings of the command line, which must leave it the cell that it is.
    pub fn recipe(&self, settings: &[String], budget: Option<Budget>) -> Result<Recipe> {
        let failed = |what: String| Failure::Words(format!("{}: {what}", self.name()));
        if let Some(setting) = limit_among(settings) {
            let what = format!("--set {setting}: how long a cell is trained is said by --budget");
            return Err(failed(what));
        }
        let recipe = parse(self.text, settings, None, budget);
        let recipe = recipe.map_err(|e| failed(e.to_string()))?;
        let data = (recipe.data.problem.as_deref(), recipe.data.layout);
        let same =
            data == (Some(self.problem), Some(self.layout)) && recipe.model.name() == self.model;
        if !same {
            let what = "--set cannot change problem, layout or network; choose them with --problem, --layout, --model";
            return Err(failed(what.into()));
        }
        Ok(recipe)
    }

    /// The paper's error.
    pub fn published(&self) -> Option<Published> {
        published(self.problem, self.layout, self.model)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_families_have_the_cells_of_the_paper() {
        for (family, count, published) in [
            (Family::Paper, 26, 26),
            (Family::Fast, 18, 18),
            (Family::Kriged, 3, 0),
        ] {
            let cells = cells(family).unwrap();
            let names: std::collections::HashSet<String> = cells.iter().map(Cell::name).collect();
            assert_eq!((cells.len(), names.len()), (count, count));
            let known = cells.iter().filter(|c| c.published().is_some()).count();
            assert_eq!(known, published);
        }
    }

    #[test]
    fn recipes_name_the_errors_of_the_paper() {
        for cell in cells(Family::Paper).unwrap() {
            let Published { mean, std } = cell.published().expect("a cell of the table");
            let error = format!("test error: {:.2} ± {:.2} %.", 100.0 * mean, 100.0 * std);
            assert!(cell.text.contains(&error), "{}: {error}", cell.name());
        }
        for (problem, layout, model) in [
            ("allen-cahn", Layout::Regular, ModelName::Fno),
            ("darcy", Layout::Missing, ModelName::DeepOnet),
        ] {
            assert!(published(problem, layout, model).is_none());
        }
    }

    #[test]
    fn settings_leave_a_cell_what_it_is() {
        let cell = cells(Family::Fast).unwrap().remove(0);
        let recipe = |setting: &str| cell.recipe(&[setting.to_string()], None);
        assert_eq!(recipe("train.batch=3").unwrap().train.batch, 3);
        let error = recipe("data.layout=missing").unwrap_err().to_string();
        assert!(error.contains("--set cannot change"), "{error}");
        let error = recipe("train.steps=3").unwrap_err().to_string();
        assert!(error.contains("--budget"), "{error}");
    }
}
