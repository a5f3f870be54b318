//! A field that other samples have taught, made to fit these. Its functions, frame and units stay; expectation and
//! maximisation go on from its numbers, which so count as what is known beforehand: a few samples move them a little.
//! Places become known anew. Where that answers the validation samples no better, the field stays as it was.

use rayon::prelude::*;

use crate::data::{Meta, Sample};
use crate::error::{Error, Result};
use crate::observer::Observer;
use crate::spaces::all_along;
use crate::start::field::{Field, FieldConfig};
use crate::start::fit::{
    FIRST_ROUNDS, ROUNDS, SAMPLES, error, examples, expect_and_maximise, fewer, search,
};
use crate::start::places;

/// A field for these samples, and its configuration, from one of other samples.
pub(crate) fn refit(
    config: &FieldConfig,
    old: &Field,
    meta: &Meta,
    train: &[Sample],
    val: &[Sample],
    observer: &dyn Observer,
) -> Result<(FieldConfig, Field)> {
    let some: Vec<&Sample> = all_along(train, SAMPLES).collect();
    let small = some.par_iter().enumerate();
    let small: Vec<Sample> = small.map(|(i, s)| fewer(s, old.group, i)).collect();
    let val: Vec<&Sample> = all_along(val, SAMPLES).collect();
    let mut best = (error(old, &val)?, config.clone(), old.clone());
    let moved = match moved(config, old, meta, &small, observer) {
        Ok(moved) => moved,
        // Its numbers are none for such samples.
        Err(Error::Numerics(_)) => Vec::new(),
        Err(error) => return Err(error),
    };
    for (config, field) in moved {
        let miss = error(&field, &val)?;
        if miss < best.0 {
            best = (miss, config, field);
        }
    }
    Ok((best.1, best.2))
}

/// Fields that these samples have moved, without known places and with them.
fn moved(
    config: &FieldConfig,
    old: &Field,
    meta: &Meta,
    samples: &[Sample],
    observer: &dyn Observer,
) -> Result<Vec<(FieldConfig, Field)>> {
    let config = FieldConfig {
        places: 0,
        directions: 0,
        ..config.clone()
    };
    let mut field = old.without_places(&config, meta);
    let examples = examples(&field, samples, old.group);
    expect_and_maximise(&mut field, &examples, FIRST_ROUNDS)?;
    search(&mut field, &examples, observer)?;
    expect_and_maximise(&mut field, &examples, ROUNDS)?;
    let known = places::STRENGTHS
        .iter()
        .map(|&strength| places::learn(&config, meta, &field, &examples, strength));
    let known: Vec<(FieldConfig, Field)> = known.collect::<Result<_>>()?;
    Ok([(config, field)].into_iter().chain(known).collect())
}
