//! `vidon import`: a user's own tables or arrays as a dataset.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use clap::Args;
use vidon::data::{
    ArrayNames, Columns, Details, Group, GroupArrays, GroupColumns, Imported, Kind, Missing,
    NamedArray, Split, Times,
};

use crate::choice::{Choice, one_of};
use crate::commands::group_option::GroupOption;
use crate::failure::{Failure, Result};
use crate::ui::{Ui, count, print};

/// Turn your own measurements into a dataset
///
/// Tables (CSV or Parquet) have one line a reading: which sample it belongs to, where it was taken, what was
/// read. The targets stand in a second table (--targets), or in further columns of the same one. Lines of a
/// sample need not stand together, and samples may have any number of them. CSV cells are separated by comma,
/// semicolon or tab.
///
/// What is measured in several ways comes as several groups, each with its own places and its own number of
/// sensors: readings of functions (--field), sources or particles whose strengths add up (--points), and
/// parameters of the whole sample (--scalars). Each option names the group, then its table and columns.
///
/// Where samples are called by their dates (1987-03, 1987-03-15, 1987-03-15T06:00), or a column has them (--date),
/// --season and --hour give sines and cosines of the time of the year and of the day as parameters of a group called
/// date, --earlier the readings of the samples before as further groups (air_1, air_2, …), and --split or --until
/// several files in the order of time, so that no day of the validation lies between days of the training.
///
/// NumPy archives (.npz) have padded arrays: coords (n, m, d), values (n, m) or (n, m, d_v), counts (n) where
/// samples have fewer than m sensors, and target_coords, target_values, target_counts alike. Coordinates that
/// all samples share may leave out the n. The same options as for tables name their columns (--coords x,y
/// --values p); arrays with other names stand in front of them (--coords places=x,y, or --coords places). The
/// arrays of a group begin with its name: air_coords, air_values, air_counts.
#[derive(Args)]
#[command(after_help = "Examples:
  Pressure at wells, and the temperature wanted at the same places:
    vidon import wells.csv --sample day --coords x,y --values p --target-values T \\
      --out wells.parquet
  Targets elsewhere and in time, in a table of their own:
    vidon import buoys.csv --sample run --coords lon,lat --values sst,salt \\
      --targets grid.csv --target-coords lon,lat,hour --target-values sst \\
      --unit hour=h --range lon=-30:0 --range lat=40:60 --out ocean.parquet
  Air stations with their height, rain gauges, chimneys, and what holds for the whole day:
    vidon import --sample day --field air=air.csv:lon,lat+height:T,wind \\
      --field rain=gauges.csv:lon,lat:mm --points chimneys=sources.csv:lon,lat:kg \\
      --scalars day=days.csv:pressure --targets soot.csv --target-coords lon,lat \\
      --target-values soot --missing keep --out soot.parquet
  Today's and yesterday's readings and the season, for tomorrow; the last years for validation and test:
    vidon import --sample day --field air=air.csv:lon,lat:pm10 --targets tomorrow.csv \
      --target-coords lon,lat --target-values pm10 --earlier 1 --season \
      --until 2003-01-01 --until 2004-01-01 --out air.parquet
  Padded arrays, with names and units for their columns:
    vidon import campaign.npz --coords x,y --values p --target-coords x,y --target-values T \\
      --unit p=bar --out campaign.parquet
  Padded arrays of a group, and parameters beside them:
    vidon import campaign.npz --field air --scalars run --out campaign.parquet")]
pub struct Arguments {
    /// Readings: .csv (or other text), .parquet, or .npz with everything in it; groups that give no table of
    /// their own stand in it
    input: Option<PathBuf>,

    /// Table with the targets [default: the same as the readings]
    #[arg(long, value_name = "FILE")]
    targets: Option<PathBuf>,

    /// Column with the name of the sample, in every table
    #[arg(long, value_name = "COLUMN")]
    sample: Option<String>,

    /// Coordinate columns of the readings
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    coords: Vec<String>,

    /// Columns that say more about the places of the readings: height, distance to the sea
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    covariates: Vec<String>,

    /// Value columns of the readings
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    values: Vec<String>,

    /// A group of sensors that read functions; may be repeated
    ///
    /// Its name, its table (where it is not the first one), its coordinates (with covariates behind a plus
    /// sign) and its values. Of a .npz the name alone, or the names of the columns.
    #[arg(long, value_name = "NAME=[FILE:]COORDS[+COVARIATES]:VALUES", value_parser = parse_field)]
    field: Vec<GroupOption>,

    /// A group of points with strengths: sources, particles, events; may be repeated
    ///
    /// Strengths add up, and the number of points means something. Without values behind the last colon they
    /// are samples of a density.
    #[arg(long, value_name = "NAME=[FILE:]COORDS:[VALUES]", value_parser = parse_points)]
    points: Vec<GroupOption>,

    /// A group of parameters, one number each for the whole sample; may be repeated
    #[arg(long, value_name = "NAME=[FILE:]COLUMNS", value_parser = parse_scalars)]
    scalars: Vec<GroupOption>,

    /// Coordinate columns of the targets [default: as those of the readings; target_coords in a .npz]
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    target_coords: Vec<String>,

    /// Covariates of the targets' places [default: as those of the readings, where the coordinates are]
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    target_covariates: Vec<String>,

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
    /// The box of the problem: symmetries move sensors within it, and a torus has its periods. In a .npz
    /// coordinates that have no names are x (or x0, x1, …) and, of the targets, y (or y0, y1, …).
    #[arg(long, value_name = "COLUMN=LO:HI", value_parser = parse_range)]
    range: Vec<(String, [f64; 2])>,

    /// Column of the targets' table with the dates [default: the names of the samples]
    #[arg(long, value_name = "COLUMN")]
    date: Option<String>,

    /// Add sine and cosine of the time of the year to the parameters of every sample
    #[arg(long)]
    season: bool,

    /// Add sine and cosine of the time of the day
    #[arg(long)]
    hour: bool,

    /// Add the readings of functions of so many samples before, a step back each
    ///
    /// A step is the commonest time between one sample and the next. The groups are called air_1, air_2, … Where
    /// there is no sample a step before, its readings are missing.
    #[arg(long, value_name = "K", default_value_t = 0)]
    earlier: usize,

    /// Shares of the samples for two or three files in the order of time, such as 0.8,0.1,0.1
    ///
    /// For --out air.parquet they are called air_train.parquet, air_val.parquet and air_test.parquet.
    #[arg(
        long,
        value_name = "SHARES",
        value_delimiter = ',',
        conflicts_with = "until"
    )]
    split: Vec<f64>,

    /// The same by dates: the next file begins with this one; given once or twice
    #[arg(long, value_name = "DATE")]
    until: Vec<String>,

    /// The dataset to write
    #[arg(long, short, value_name = "FILE.parquet")]
    out: PathBuf,
}

pub const MISSING: &[Choice<Missing>] = &[
    (Missing::Refuse, "refuse", "Stop and say where it is"),
    (
        Missing::Skip,
        "skip",
        "Leave the reading or target out, and count it",
    ),
    (
        Missing::Keep,
        "keep",
        "Keep what the other columns of the reading or target have",
    ),
];

pub fn run(arguments: Arguments, ui: &Ui) -> Result<()> {
    let found = match arguments.archive() {
        Some(path) => {
            let names = arguments.array_names(path)?;
            names.import(path, &arguments.details()?, &arguments.out)?
        }
        None => {
            let columns = arguments.columns()?;
            columns.import(&arguments.details()?, &arguments.out)?
        }
    };
    print(&report(&found, &arguments.out))?;
    found
        .notes
        .iter()
        .for_each(|note| ui.note(format!("note: {note}")));
    let vector = match &found.meta.groups[..] {
        [only] => only.kind == Kind::Field && !only.gaps,
        _ => false,
    };
    if vector && found.summary.fixed_sensors() && found.summary.samples > 1 {
        ui.note(
            "All samples have the same sensor places: models with fixed inputs can be used too.",
        );
    }
    Ok(())
}

fn parse_field(text: &str) -> std::result::Result<GroupOption, String> {
    GroupOption::parse(text, Kind::Field)
}

fn parse_points(text: &str) -> std::result::Result<GroupOption, String> {
    GroupOption::parse(text, Kind::Points)
}

fn parse_scalars(text: &str) -> std::result::Result<GroupOption, String> {
    GroupOption::parse(text, Kind::Scalars)
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
    let mut lines: Vec<String> = match &found.files[..] {
        [_] => vec![format!("{}: {}", out.display(), found.meta.name)],
        several => several
            .iter()
            .map(|file| {
                let (path, samples) = (file.path.display(), count(file.samples, "sample"));
                let span = file.span.as_ref().map_or(String::new(), |[first, last]| {
                    format!(", {first} to {last}")
                });
                format!("{path}: {samples}{span}")
            })
            .collect(),
    };
    lines.push(found.summary.to_string());
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

/// Columns that an option has to give, each once.
fn need(given: &[String], option: &str) -> Result<Vec<String>> {
    if given.is_empty() {
        return Err(Failure::Words(format!(
            "{option} is needed: which columns of the table are meant?"
        )));
    }
    once(given, option)
}

fn once(given: &[String], option: &str) -> Result<Vec<String>> {
    let names: Vec<String> = given.iter().map(|name| name.trim().to_string()).collect();
    let mut pairs = names.iter().enumerate();
    match pairs.find(|(i, name)| names[..*i].contains(name)) {
        Some((_, name)) => Err(Failure::Words(format!("{option} names {name} twice"))),
        None => Ok(names),
    }
}

impl Arguments {
    /// The archive that has everything in it, if it is one.
    fn archive(&self) -> Option<&Path> {
        let input = self.input.as_deref()?;
        let extension = input.extension()?;
        extension.eq_ignore_ascii_case("npz").then_some(input)
    }

    fn groups(&self) -> impl Iterator<Item = &GroupOption> {
        self.field.iter().chain(&self.points).chain(&self.scalars)
    }

    /// Whether the readings of the first table are a group without a name.
    fn has_usual_group(&self) -> bool {
        let described = [&self.coords, &self.covariates, &self.values];
        self.groups().next().is_none() || described.iter().any(|part| !part.is_empty())
    }

    fn columns(&self) -> Result<Columns> {
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
        let mut groups = Vec::new();
        if self.has_usual_group() {
            let table = self.input.clone().ok_or_else(|| {
                Failure::Words(match self.groups().next() {
                    None => "which table has the readings? Give it first, or every group with a table of its own (--field, --points, --scalars)".into(),
                    Some(_) => "--coords, --covariates and --values are columns of the first table, but there is none; the groups name their own".to_string(),
                })
            })?;
            groups.push(GroupColumns {
                name: Group::USUAL.into(),
                kind: Kind::Field,
                table,
                coords: need(&self.coords, "--coords")?,
                covariates: once(&self.covariates, "--covariates")?,
                values: need(&self.values, "--values")?,
            });
        }
        for group in self.groups() {
            groups.push(group.columns(self.input.as_deref())?);
        }
        let located = groups.iter().find(|g| g.kind != Kind::Scalars);
        let (target_coords, usual_covariates) = match (&self.target_coords[..], located) {
            ([], Some(first)) => (first.coords.clone(), first.covariates.clone()),
            (given, _) => (need(given, "--target-coords")?, vec![]),
        };
        let target_table = self.targets.as_ref().or(self.input.as_ref());
        Ok(Columns {
            sample,
            target_table: target_table.cloned().ok_or_else(|| {
                Failure::Words("--targets is needed: which table has the targets?".into())
            })?,
            target_coords,
            target_covariates: match &self.target_covariates[..] {
                [] => usual_covariates,
                given => once(given, "--target-covariates")?,
            },
            target_values: need(&self.target_values, "--target-values")?,
            groups,
        })
    }

    fn array_names(&self, path: &Path) -> Result<ArrayNames> {
        let tables_only = [
            (self.targets.is_some(), "--targets"),
            (self.sample.is_some(), "--sample"),
            (self.date.is_some(), "--date"),
            (self.season, "--season"),
            (self.hour, "--hour"),
            (self.earlier > 0, "--earlier"),
            (!self.split.is_empty(), "--split"),
            (!self.until.is_empty(), "--until"),
        ];
        if let Some((_, option)) = tables_only.iter().find(|(given, _)| *given) {
            return Err(Failure::Words(format!(
                "{option} belongs to tables; a .npz has everything in it"
            )));
        }
        let mut groups = Vec::new();
        let there = ArrayNames::there(path)?;
        if self.has_usual_group() {
            let usual = GroupArrays::called("");
            let covariates = once(&self.covariates, "--covariates")?;
            let coords = array(&self.coords, "--coords", usual.coords, &there)?;
            let own = GroupArrays {
                coords: with_covariates(coords, &covariates),
                covariates,
                values: array(&self.values, "--values", usual.values, &there)?,
                counts: self.counts.clone(),
            };
            groups.push((Group::USUAL.to_string(), Kind::Field, own));
        } else if self.counts.is_some() {
            return Err(Failure::Words(
                "--counts belongs to readings without a group; the counts of a group are an array called by it, such as air_counts".into(),
            ));
        }
        for group in self.groups() {
            groups.push((group.name.clone(), group.kind, group.arrays()?));
        }
        let usual = GroupArrays::called("target_");
        let covariates = once(&self.target_covariates, "--target-covariates")?;
        let coords = array(&self.target_coords, "--target-coords", usual.coords, &there)?;
        Ok(ArrayNames {
            groups,
            targets: GroupArrays {
                coords: with_covariates(coords, &covariates),
                covariates,
                values: array(&self.target_values, "--target-values", usual.values, &there)?,
                counts: self.target_counts.clone(),
            },
        })
    }

    fn details(&self) -> Result<Details> {
        let mut ranges = HashMap::new();
        for (name, range) in &self.range {
            if ranges.insert(name.clone(), *range).is_some() {
                return Err(Failure::Words(format!("--range gives {name} twice")));
            }
        }
        Ok(Details {
            missing: self.missing,
            units: self.units()?,
            ranges,
            times: Times {
                column: self.date.clone(),
                season: self.season,
                hour: self.hour,
                earlier: self.earlier,
                split: match (&self.split[..], &self.until[..]) {
                    ([], []) => Split::None,
                    (shares, []) => Split::Shares(shares.to_vec()),
                    (_, dates) => Split::Until(dates.to_vec()),
                },
            },
        })
    }

    fn units(&self) -> Result<HashMap<String, String>> {
        let mut units = HashMap::new();
        for given in &self.unit {
            let fail = |what: &str| Err(Failure::Words(format!("--unit {given}: {what}")));
            let Some((name, unit)) = given.split_once('=') else {
                return fail("wanted COLUMN=UNIT, for example x=m");
            };
            if units.insert(name.to_string(), unit.to_string()).is_some() {
                return fail(&format!("{name} has a unit already"));
            }
        }
        Ok(units)
    }
}

/// An array of a .npz: `ARRAY=COLUMN,COLUMN` names it and its columns, one name an array that is `there`, and other
/// names the columns of the `usual` one.
fn array(
    given: &[String],
    option: &str,
    usual: NamedArray,
    there: &[String],
) -> Result<NamedArray> {
    let [first, others @ ..] = given else {
        return Ok(usual);
    };
    match first.split_once('=') {
        None if others.is_empty() && there.contains(first) => Ok(NamedArray::of(first)),
        None => Ok(NamedArray {
            columns: once(given, option)?,
            ..usual
        }),
        Some((name, column)) => {
            let columns = [&[column.to_string()], others].concat();
            Ok(NamedArray {
                array: name.into(),
                columns: once(&columns, option)?,
            })
        }
    }
}

/// Covariates stand behind the coordinates, whether they are named there or only as covariates.
fn with_covariates(mut coords: NamedArray, covariates: &[String]) -> NamedArray {
    let new = |c: &&String| !coords.columns.contains(c);
    let more: Vec<String> = covariates.iter().filter(new).cloned().collect();
    if !coords.columns.is_empty() {
        coords.columns.extend(more);
    }
    coords
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_name_arrays_or_columns() {
        let there = ["coords", "pressure"].map(String::from);
        let read = |given: &str| {
            let given: Vec<String> = given.split(',').map(String::from).collect();
            let found = array(&given, "--coords", NamedArray::of("coords"), &there).unwrap();
            (found.array, found.columns.join(" "))
        };
        let both = |array: &str, columns: &str| (array.to_string(), columns.to_string());
        assert_eq!(read("x,y"), both("coords", "x y"));
        assert_eq!(read("p"), both("coords", "p"));
        assert_eq!(read("pressure"), both("pressure", ""));
        assert_eq!(read("pressure=x,y"), both("pressure", "x y"));
        let twice = ["x", "x"].map(String::from);
        assert!(array(&twice, "--coords", NamedArray::of("coords"), &there).is_err());
        let coords = |columns: &[&str]| NamedArray {
            array: "coords".into(),
            columns: columns.iter().map(|c| c.to_string()).collect(),
        };
        let height = ["height".to_string()];
        for given in [&["x", "y"][..], &["x", "y", "height"]] {
            let found = with_covariates(coords(given), &height);
            assert_eq!(found.columns, ["x", "y", "height"]);
        }
        assert!(with_covariates(coords(&[]), &height).columns.is_empty());
    }
}
