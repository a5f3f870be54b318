//! Readings as targets: where the targets are what a group of sensors reads, a sensor that a network does not see is
//! a query whose answer is known.

use crate::data::{Channel, Kind, Meta, Rows, Sensors};
use crate::start::among_readings;

/// The group whose readings are the targets' quantities.
#[derive(Clone, Debug)]
pub(super) struct Readings {
    pub group: usize,
    /// Of every target the column of the readings.
    columns: Vec<usize>,
}

impl Readings {
    /// Of such data, or why there is no such group.
    pub fn of(meta: &Meta) -> Result<Self, String> {
        let fields = || {
            let groups = meta.groups.iter().enumerate();
            groups.filter(|(_, g)| g.kind == Kind::Field)
        };
        let known = |(a, b): (&Channel, &Channel)| (&a.name, a.covariate) == (&b.name, b.covariate);
        let mut elsewhere = None;
        for (group, own) in fields() {
            let Some(columns) = among_readings(own, meta) else {
                continue;
            };
            let asked = &meta.query_coords;
            if own.coords.len() == asked.len() && own.coords.iter().zip(asked).all(known) {
                return Ok(Self { group, columns });
            }
            elsewhere = Some(format!(
                "sensors become queries only where both have the same coordinates and covariates in the same order; the sensors have ({}), the queries ({})",
                list(&own.coords),
                list(asked)
            ));
        }
        let read: Vec<String> = fields().map(|(_, g)| list(&g.values)).collect();
        Err(elsewhere.unwrap_or_else(|| {
            format!(
                "sensors become targets only where the targets are what they read, of the same name and in the same unit; the targets are ({}), the readings ({})",
                list(&meta.targets),
                read.join("; ")
            )
        }))
    }

    /// Where such sensors stand, and what they read as targets; without those that read none of them.
    pub fn as_targets(&self, sensors: &Sensors) -> (Rows, Rows) {
        let targets = sensors.values.columns(&self.columns);
        let known = |i: &usize| targets.row(*i).iter().any(|v| !v.is_nan());
        let some: Vec<usize> = (0..targets.len()).filter(known).collect();
        (sensors.coords.select(&some), targets.select(&some))
    }
}

fn list(channels: &[Channel]) -> String {
    let labels: Vec<String> = channels.iter().map(Channel::label).collect();
    labels.join(", ")
}
