//! The report: what was reached in every cell beside what the paper has, as tables and figures.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use vidon::files::{plain_file, plain_folder};
use vidon::plot::Picture;
use vidon::problems::{Problem, known};
use vidon::sensors::Layout;
use vidon::train::Record;

use super::cells::{Cell, FAMILIES, Family, cells};
use super::page::{Block, write_page};
use super::state::{State, Tested};
use crate::choice::name_of;
use crate::commands::eval::PREDICTION;
use crate::failure::Result;
use crate::ui::{clock, count, grouped, measured, percent_spread};

/// A cell whose training has begun.
struct Begun {
    cell: Cell,
    state: State,
    records: Vec<Record>,
    /// Whether its recipe is the one that the program carries, but for limits.
    by_recipe: bool,
}

impl Begun {
    /// The column of its table: the network, and the recipes unless they are the paper's.
    fn column(&self) -> String {
        match self.cell.family {
            Family::Paper => self.cell.title.to_string(),
            other => format!("{} ({})", self.cell.title, name_of(FAMILIES, other)),
        }
    }

    fn mean(&self) -> Option<f64> {
        Some(self.state.tested.as_ref()?.relative_l2.mean)
    }

    /// What its table says.
    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        match &self.state.tested {
            Some(Tested { relative_l2: e, .. }) => lines.push(percent_spread(e.mean, e.std)),
            None => lines.push(self.state.to_string()),
        }
        if let Some(paper) = self.cell.published() {
            lines.push(format!("paper {}", percent_spread(paper.mean, paper.std)));
            lines.extend(self.mean().map(|m| format!("ratio {:.2}", m / paper.mean)));
        }
        let standing = self.state.standing.as_ref().expect("it has begun");
        let steps = count(standing.step() as usize, "step");
        lines.push(format!("{steps} in {}", clock(standing.seconds())));
        lines.extend(
            standing
                .best
                .map(|b| format!("validation {}", measured(b.metric, b.error, ""))),
        );
        if let Some(tested) = &self.state.tested {
            lines.push(count(tested.relative_l2.samples, "test sample"));
        }
        if !self.by_recipe {
            lines.push("other settings than the recipe's".into());
        }
        lines
    }
}

/// Writes the report on all runs in `out`, whatever their family: `report.md`, `report.html` and figures.
pub fn write_report(out: &Path) -> Result<()> {
    let mut begun = Vec::new();
    for (family, ..) in FAMILIES {
        for cell in cells(*family)? {
            let folder = plain_folder(out, cell.run())?;
            let state = State::read(&folder)?;
            if let Some(standing) = &state.standing {
                begun.push(Begun {
                    by_recipe: standing.follows(&cell.recipe(&[], None)?)?,
                    records: Record::read_all(&folder)?,
                    cell,
                    state,
                });
            }
        }
    }
    let mut blocks = vec![
        Block::Title("Reproduction of “Variable-Input Deep Operator Networks”".into()),
        Block::Text(
            "Mean relative L² error on test functions that the network has never seen, ± the standard deviation over those functions. The paper's ± is that over five trainings, or five test sets. The ratio is ours to the paper's; steps, training time and best validation error are ours. Columns marked (fast) and (kriged) are by the recipes in recipes/fast and recipes/kriged, the others by the authors' settings.".into(),
        ),
        Block::Text(circumstances(&begun)),
    ];
    for problem in known() {
        let own: Vec<&Begun> = begun
            .iter()
            .filter(|b| b.cell.problem == problem.name())
            .collect();
        if !own.is_empty() {
            blocks.extend(section(out, &*problem, &own)?);
        }
    }
    write_page(out, "report", &blocks)
}

/// Machines, programs and days of the tests.
fn circumstances(begun: &[Begun]) -> String {
    let tests: Vec<&Tested> = begun
        .iter()
        .filter_map(|b| b.state.tested.as_ref())
        .collect();
    let distinct = |of: fn(&Tested) -> &str| -> Vec<&str> {
        let set: BTreeSet<&str> = tests.iter().map(|t| of(t)).collect();
        set.into_iter().collect()
    };
    let days = distinct(|t| &t.date);
    let days = match &days[..] {
        [first, .., last] => format!("{first} to {last}"),
        _ => days.concat(),
    };
    match tests.is_empty() {
        true => "No cell is done yet.".into(),
        false => format!(
            "Measured on {}; {}; {days}; {}.",
            distinct(|t| &t.machine).join(" and "),
            distinct(|t| &t.program).join(", "),
            samples(&tests)
        ),
    }
}

fn samples(tests: &[&Tested]) -> String {
    let numbers: BTreeSet<usize> = tests.iter().map(|t| t.relative_l2.samples).collect();
    let (least, most) = (numbers.first(), numbers.last());
    match (least, most) {
        (Some(least), Some(most)) if least < most => {
            format!(
                "{} to {} test samples a cell",
                grouped(*least),
                grouped(*most)
            )
        }
        _ => format!(
            "{} a cell",
            count(most.copied().unwrap_or(0), "test sample")
        ),
    }
}

/// A problem's table and figures.
fn section(out: &Path, problem: &dyn Problem, begun: &[&Begun]) -> Result<Vec<Block>> {
    let name = problem.name();
    let mut by_column = begun.to_vec();
    by_column.sort_by_key(|b| (b.cell.family as u8, b.cell.model as u8));
    let mut columns: Vec<String> = by_column.iter().map(|b| b.column()).collect();
    columns.dedup();
    let find = |layout: Layout, column: &str| {
        let mut all = begun.iter();
        all.find(|b| b.cell.layout == layout && b.column() == column)
    };
    let rows = Layout::ALL.map(|layout| {
        let cell = |column: &String| match find(layout, column) {
            Some(b) => b.lines(),
            None => vec!["–".to_string()],
        };
        let first = vec![layout.name().to_string()];
        std::iter::once(first)
            .chain(columns.iter().map(cell))
            .collect()
    });
    let head = std::iter::once("layout".to_string()).chain(columns.clone());
    let table = Block::Table {
        head: head.collect(),
        rows: rows.to_vec(),
    };

    let series = columns.iter().map(|column| {
        let pair = |layout: Layout| match find(layout, column) {
            Some(b) => [b.mean(), b.cell.published().map(|p| p.mean)].map(|v| v.map(|v| 100.0 * v)),
            None => [None, None],
        };
        (column.clone(), Layout::ALL.map(pair).to_vec())
    });
    let chart = Picture::dots(
        &format!("{name}: filled ours, hollow the paper"),
        ["layout", "test error, %"],
        Layout::ALL.map(Layout::name).to_vec(),
        series.collect(),
    );
    let curves = columns.iter().map(|column| {
        let own = begun.iter().filter(|b| b.column() == *column);
        let runs = own.map(|b| (b.cell.layout.name(), b.records.clone()));
        Picture::validation(&format!("{name}: {column}"), &runs.collect::<Vec<_>>())
    });
    let curves = curves.reduce(Picture::and).expect("a column");
    let figure = |file: String, picture: &Picture, words: String| -> Result<Block> {
        let file = PathBuf::from(file);
        picture.save(&plain_file(out, &file)?)?;
        Ok(Block::Figure { file, words })
    };
    let mut blocks = vec![
        Block::Heading(name.into()),
        table,
        figure(
            format!("{name}.png"),
            &chart,
            format!("Test errors of {name}: ours (filled) beside the paper's (hollow)."),
        )?,
        figure(
            format!("{name}-learning.png"),
            &curves,
            format!("Learning curves of {name}: the best validation error so far."),
        )?,
    ];
    for b in begun {
        let file = b.cell.run().join(PREDICTION);
        if b.state.tested.is_some() && plain_file(out, &file)?.exists() {
            let (layout, column) = (b.cell.layout, b.column());
            let words = format!("The first test function of {name}, layout {layout}, {column}.");
            blocks.push(Block::Figure { file, words });
        }
    }
    Ok(blocks)
}
