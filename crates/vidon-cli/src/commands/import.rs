//! `vidon import`: a user's own tables or arrays as a dataset.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use clap::Args;
use vidon::data::{ArrayNames, Columns, Details, Imported, Missing};

use crate::choice::{Choice, one_of};
use crate::failure::{Failure, Result};
use crate::ui::{Ui, count, print};

/// Turn your own measurements into a dataset
///
/// Tables (CSV or Parquet) have one line a reading: which sample it belongs to, where it was taken, what was
/// read. The targets stand in a second table (--targets), or in further columns of the same one. Lines of a
/// sample need not stand together, and samples may have any number of them. CSV cells are separated by comma,
/// semicolon or tab.
///
/// NumPy archives (.npz) have padded arrays: coords (n, m, d), values (n, m) or (n, m, d_v), counts (n) where
/// samples have fewer than m sensors, and target_coords, target_values, target_counts alike. Coordinates that
/// all samples share may leave out the n. Arrays with other names are named with the same options as columns.
#[derive(Args)]
#[command(after_help = "Examples:
  Pressure at wells, and the temperature wanted at the same places:
    vidon import wells.csv --sample day --coords x,y --values p --target-values T \\
      --out wells.parquet
  Targets elsewhere and in time, in a table of their own:
    vidon import buoys.csv --sample run --coords lon,lat --values sst,salt \\
      --targets grid.csv --target-coords lon,lat,hour --target-values sst \\
      --unit hour=h --range lon=-30:0 --range lat=40:60 --out ocean.parquet
  Padded arrays:
    vidon import campaign.npz --out campaign.parquet")]
pub struct Arguments {
    /// Readings: .csv (or other text), .parquet, or .npz with everything in it
    input: PathBuf,

    /// Table with the targets [default: the same as the readings]
    #[arg(long, value_name = "FILE")]
    targets: Option<PathBuf>,

    /// Column with the name of the sample
    #[arg(long, value_name = "COLUMN")]
    sample: Option<String>,

    /// Coordinate columns of the readings
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    coords: Vec<String>,

    /// Value columns of the readings
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    values: Vec<String>,

    /// Coordinate columns of the targets [default: as --coords; target_coords in a .npz]
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    target_coords: Vec<String>,

    /// Value columns of the targets
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    target_values: Vec<String>,

    /// Array with the number of sensors (.npz)
    #[arg(long, value_name = "ARRAY")]
    counts: Option<String>,

    /// Array with the number of targets (.npz)
    #[arg(long, value_name = "ARRAY")]
    target_counts: Option<String>,

    /// What to do where a number is missing (an empty cell, NA, NaN, null)
    #[arg(long, value_parser = one_of(MISSING), default_value = "refuse")]
    missing: Missing,

    /// Unit of a column, for example --unit x=m; may be repeated
    #[arg(long, value_name = "COLUMN=UNIT")]
    unit: Vec<String>,

    /// Ends of a coordinate, for example --range x=0:10; may be repeated [default: those of the readings and
    /// targets]
    ///
    /// The box of the problem: symmetries move sensors within it, and a torus has its periods. In a .npz the
    /// coordinates are x (or x0, x1, …) and, of the targets, y (or y0, y1, …).
    #[arg(long, value_name = "COLUMN=LO:HI", value_parser = parse_range)]
    range: Vec<(String, [f64; 2])>,

    /// The dataset to write
    #[arg(long, short, value_name = "FILE.parquet")]
    out: PathBuf,
}

const MISSING: &[Choice<Missing>] = &[
    (Missing::Refuse, "refuse", "Stop and say where it is"),
    (
        Missing::Skip,
        "skip",
        "Leave the reading or target out, and count it",
    ),
];

pub fn run(arguments: Arguments, ui: &Ui) -> Result<()> {
    let is_npz = arguments
        .input
        .extension()
        .is_some_and(|e| e.eq_ignore_ascii_case("npz"));
    let found = if is_npz {
        let (names, details) = (arguments.array_names()?, arguments.details(HashMap::new())?);
        names.import(&arguments.input, &details, &arguments.out)?
    } else {
        let columns = arguments.columns()?;
        let details = arguments.details(arguments.units(&columns)?)?;
        let targets = arguments.targets.as_deref();
        columns.import(&arguments.input, targets, &details, &arguments.out)?
    };
    print(&report(&found, &arguments.out))?;
    found
        .notes
        .iter()
        .for_each(|note| ui.note(format!("note: {note}")));
    if found.summary.fixed_sensors && found.summary.samples > 1 {
        ui.note(
            "All samples have the same sensor places: models with fixed inputs can be used too.",
        );
    }
    Ok(())
}

fn parse_range(text: &str) -> std::result::Result<(String, [f64; 2]), String> {
    let wrong = || "write a coordinate and its ends, such as x=0:10".to_string();
    let (name, ends) = text.split_once('=').ok_or_else(wrong)?;
    let (lo, hi) = ends.split_once(':').ok_or_else(wrong)?;
    let number = |text: &str| text.trim().parse::<f64>().map_err(|_| wrong());
    match [number(lo)?, number(hi)?] {
        [lo, hi] if lo < hi && (hi - lo).is_finite() => Ok((name.trim().into(), [lo, hi])),
        _ => Err("the ends must be finite, the lower one first".into()),
    }
}

fn report(found: &Imported, out: &Path) -> String {
    let mut lines = vec![
        format!("{}: {}", out.display(), found.meta.name),
        found.summary.to_string(),
    ];
    let left_out = [
        (
            found.skipped_readings,
            "reading with a missing number was",
            "readings with a missing number were",
        ),
        (
            found.skipped_targets,
            "target with a missing number was",
            "targets with a missing number were",
        ),
    ];
    for (n, one, many) in left_out {
        if n > 0 {
            lines.push(format!("{n} {} left out", if n == 1 { one } else { many }));
        }
    }
    if !found.skipped_samples.is_empty() {
        let shown: Vec<&str> = found
            .skipped_samples
            .iter()
            .take(5)
            .map(String::as_str)
            .collect();
        let more = if found.skipped_samples.len() > 5 {
            ", …"
        } else {
            ""
        };
        lines.push(format!(
            "{} without sensors or targets left out: {}{more}",
            count(found.skipped_samples.len(), "sample"),
            shown.join(", ")
        ));
    }
    lines.join("\n")
}

impl Arguments {
    fn columns(&self) -> Result<Columns> {
        let need = |given: &[String], option: &str| {
            let names: Vec<String> = given.iter().map(|name| name.trim().to_string()).collect();
            if names.is_empty() {
                let what = "which columns of the table are meant?";
                return Err(Failure::Words(format!("{option} is needed: {what}")));
            }
            match names
                .iter()
                .enumerate()
                .find(|(i, name)| names[..*i].contains(name))
            {
                Some((_, name)) => Err(Failure::Words(format!("{option} names {name} twice"))),
                None => Ok(names),
            }
        };
        if self.counts.is_some() || self.target_counts.is_some() {
            return Err(Failure::Words(
                "--counts and --target-counts belong to .npz archives".into(),
            ));
        }
        let sample = self.sample.clone().ok_or_else(|| {
            Failure::Words(
                "--sample is needed: which column says to which sample a line belongs?".into(),
            )
        })?;
        let coords = need(&self.coords, "--coords")?;
        Ok(Columns {
            sample,
            values: need(&self.values, "--values")?,
            target_coords: match &self.target_coords[..] {
                [] => coords.clone(),
                given => need(given, "--target-coords")?,
            },
            target_values: need(&self.target_values, "--target-values")?,
            coords,
        })
    }

    fn array_names(&self) -> Result<ArrayNames> {
        let tables_only = [
            (self.targets.is_some(), "--targets"),
            (self.sample.is_some(), "--sample"),
            (!self.unit.is_empty(), "--unit"),
        ];
        if let Some((_, option)) = tables_only.iter().find(|(given, _)| *given) {
            return Err(Failure::Words(format!(
                "{option} belongs to tables; a .npz has everything in it"
            )));
        }
        let one = |given: &[String], option: &str, default: String| match given {
            [] => Ok(default),
            [name] => Ok(name.clone()),
            _ => Err(Failure::Words(format!(
                "{option} names one array of the .npz"
            ))),
        };
        let usual = ArrayNames::default();
        Ok(ArrayNames {
            coords: one(&self.coords, "--coords", usual.coords)?,
            values: one(&self.values, "--values", usual.values)?,
            counts: self.counts.clone(),
            target_coords: one(&self.target_coords, "--target-coords", usual.target_coords)?,
            target_values: one(&self.target_values, "--target-values", usual.target_values)?,
            target_counts: self.target_counts.clone(),
        })
    }

    fn details(&self, units: HashMap<String, String>) -> Result<Details> {
        let mut ranges = HashMap::new();
        for (name, range) in &self.range {
            if ranges.insert(name.clone(), *range).is_some() {
                return Err(Failure::Words(format!("--range gives {name} twice")));
            }
        }
        Ok(Details {
            missing: self.missing,
            units,
            ranges,
        })
    }

    fn units(&self, columns: &Columns) -> Result<HashMap<String, String>> {
        let known = [
            &columns.coords,
            &columns.values,
            &columns.target_coords,
            &columns.target_values,
        ];
        let mut units = HashMap::new();
        for given in &self.unit {
            let fail = |what: &str| Err(Failure::Words(format!("--unit {given}: {what}")));
            let Some((name, unit)) = given.split_once('=') else {
                return fail("wanted COLUMN=UNIT, for example x=m");
            };
            if !known.iter().any(|names| names.iter().any(|n| n == name)) {
                return fail(&format!("{name} is not a column of the import"));
            }
            if units.insert(name.to_string(), unit.to_string()).is_some() {
                return fail(&format!("{name} has a unit already"));
            }
        }
        Ok(units)
    }
}
