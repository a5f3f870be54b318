//! A group of sensors as it is typed: `air=air.csv:lon,lat+height:T,wind`.

use std::path::{Path, PathBuf};

use vidon::data::{ArrayNames, GroupArrays, GroupColumns, Kind};

use crate::failure::{Failure, Result};

#[derive(Clone, Debug)]
pub struct GroupOption {
    pub name: String,
    pub kind: Kind,
    file: Option<PathBuf>,
    /// None where only the group is named.
    columns: Option<GivenColumns>,
}

#[derive(Clone, Debug, Default)]
struct GivenColumns {
    coords: Vec<String>,
    covariates: Vec<String>,
    values: Vec<String>,
}

/// How such a group is written.
fn form(kind: Kind) -> &'static str {
    match kind {
        Kind::Field => "air=air.csv:lon,lat:T (covariates behind a plus: lon,lat+height)",
        Kind::Points => {
            "wells=wells.csv:x,y:rate, or wells=wells.csv:x,y: for points without strengths"
        }
        Kind::Scalars => "run=runs.csv:inflow,depth",
    }
}

impl GroupOption {
    pub fn parse(text: &str, kind: Kind) -> std::result::Result<Self, String> {
        let wrong = |what: &str| format!("{what}; write {}", form(kind));
        let Some((name, rest)) = text.split_once('=') else {
            return Ok(Self {
                name: text.trim().into(),
                kind,
                file: None,
                columns: None,
            });
        };
        // A file's name may have colons itself.
        let mut parts = rest.rsplitn(if kind == Kind::Scalars { 2 } else { 3 }, ':');
        let mut next = || parts.next();
        let values = next().unwrap_or_default();
        let (coords, covariates) = match kind {
            Kind::Scalars => ("", ""),
            _ => {
                let places = next().ok_or_else(|| wrong("coordinates or values are missing"))?;
                places.split_once('+').unwrap_or((places, ""))
            }
        };
        let file = next().map(PathBuf::from);
        let columns = GivenColumns {
            coords: list(coords).map_err(|e| wrong(&e))?,
            covariates: list(covariates).map_err(|e| wrong(&e))?,
            values: list(values).map_err(|e| wrong(&e))?,
        };
        if kind != Kind::Scalars && columns.coords.is_empty() {
            return Err(wrong("it has no coordinates"));
        }
        if kind != Kind::Points && columns.values.is_empty() {
            return Err(wrong("it has no values"));
        }
        if file.as_ref().is_some_and(|f| f.as_os_str().is_empty()) {
            return Err(wrong("there is no file before the first colon"));
        }
        Ok(Self {
            name: name.trim().into(),
            kind,
            file,
            columns: Some(columns),
        })
    }

    /// Its columns in a table: its own, or the `usual` one.
    pub fn columns(&self, usual: Option<&Path>) -> Result<GroupColumns> {
        let lacks = |what: &str| {
            let (name, form) = (&self.name, form(self.kind));
            Failure::Words(format!("the group {name} {what}; write {form}"))
        };
        let table = self.file.as_deref().or(usual);
        let columns = self.columns.clone();
        let columns = columns.ok_or_else(|| lacks("names no columns of its table"))?;
        Ok(GroupColumns {
            name: self.name.clone(),
            kind: self.kind,
            table: table.ok_or_else(|| lacks("names no table"))?.into(),
            coords: columns.coords,
            covariates: columns.covariates,
            values: columns.values,
        })
    }

    /// Its arrays in an archive, with names for their columns where there are any.
    pub fn arrays(&self) -> Result<GroupArrays> {
        if self.file.is_some() {
            return Err(Failure::Words(format!(
                "the group {} names a table, but a .npz has everything in it; name the group alone, or its columns: {}=x,y:T",
                self.name, self.name
            )));
        }
        let mut arrays = GroupArrays::called(&ArrayNames::before(&self.name));
        if let Some(columns) = &self.columns {
            arrays.coords.columns = [&columns.coords[..], &columns.covariates].concat();
            arrays.values.columns = columns.values.clone();
            arrays.covariates = columns.covariates.clone();
        }
        Ok(arrays)
    }
}

/// Names between commas, each once.
fn list(text: &str) -> std::result::Result<Vec<String>, String> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let mut names: Vec<String> = Vec::new();
    for name in text.split(',').map(str::trim) {
        if name.is_empty() {
            return Err("a column has no name".into());
        }
        if names.iter().any(|n| n == name) {
            return Err(format!("{name} is named twice"));
        }
        names.push(name.into());
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_read_as_they_are_typed() {
        let table = Path::new("all.csv");
        let columns = |text: &str, kind: Kind| {
            let group = GroupOption::parse(text, kind).unwrap();
            group.columns(Some(table)).unwrap()
        };
        let air = columns("air=C:/a.csv:lon,lat+height:T, wind", Kind::Field);
        assert_eq!(air.table, Path::new("C:/a.csv"));
        assert_eq!(
            (air.coords.len(), air.values),
            (2, vec!["T".into(), "wind".into()])
        );
        assert_eq!(air.covariates, ["height"]);
        let drops = columns("drops=x,y:", Kind::Points);
        assert_eq!((&*drops.table, drops.values.len()), (table, 0));
        let run = columns("run=a:b.csv:p,q", Kind::Scalars);
        assert_eq!((run.table, run.values.len()), (PathBuf::from("a:b.csv"), 2));
        for (text, kind, words) in [
            ("air=T", Kind::Field, "coordinates or values are missing"),
            ("air=x,y:", Kind::Field, "it has no values"),
            ("air=:T", Kind::Field, "it has no coordinates"),
            ("air=:x:T", Kind::Field, "no file before the first colon"),
            ("air=x,x:T", Kind::Field, "x is named twice"),
            ("run=", Kind::Scalars, "it has no values"),
            ("run=a,,b", Kind::Scalars, "a column has no name"),
        ] {
            let error = GroupOption::parse(text, kind).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        let named = GroupOption::parse("air", Kind::Field).unwrap();
        assert!(named.columns(Some(table)).is_err());
        assert_eq!(named.arrays().unwrap().coords.array, "air_coords");
    }
}
