//! A training that goes on from an operator that other data have taught: a new network of stations, the same instrument
//! elsewhere. Its numbers, scaling and frames stay, so that the weights keep their meaning; a field that it starts from
//! is fitted to the new data, from what it was.

use crate::data::{Channel, Kind, Meta, Sample, ScalingKind, Sensors};
use crate::error::{Error, Result};
use crate::network::Entry;
use crate::observer::Observer;
use crate::operator::{Operator, outside};
use crate::start::{Field, FieldConfig, StartConfig, refit_field};
use crate::train::recipe::{Recipe, TrainRecipe};

/// Gives the recipe the operator's model, which it must not contradict.
pub(super) fn take_model(recipe: &mut Recipe, origin: &Operator) -> Result<()> {
    let (own, mut wanted) = (origin.config(), recipe.model.clone());
    wanted.fill_frames(origin.meta());
    // What a start has found in its data no recipe says.
    if wanted.start.is_some() && own.start.is_some() {
        wanted.start = own.start.clone();
    }
    if wanted != *own {
        let what = "a training that goes on from a network has that network's model, and the recipe's is another; leave the section [model] out";
        return Err(Error::setting("model", what));
    }
    recipe.model = own.clone();
    Ok(())
}

/// The description of the new data as the operator sees them: with its own ranges.
pub(super) fn describe(origin: &Operator, new: Meta, samples: &[&[Sample]]) -> Result<Meta> {
    let own = origin.meta();
    own.check_same_channels(&new, ["the network", "the new data"])?;
    let lacks = |sample: &Sample| {
        let groups = sample.groups.iter().zip(&own.groups);
        let mut lacking = groups.filter(|(s, g)| !g.gaps && s.values.has_gaps());
        lacking.next().map(|(_, g)| g.name.clone())
    };
    if let Some(name) = samples.iter().copied().flatten().find_map(lacks) {
        return Err(Error::Unsuitable(format!(
            "readings of {name} are missing in the new data, but the network that the training goes on from learned without gaps; leave those lines out at import, or train a network anew"
        )));
    }
    Ok(Meta {
        groups: own.groups.clone(),
        query_coords: own.query_coords.clone(),
        targets: own.targets.clone(),
        ..new
    })
}

/// Gives the recipe the units in which the operator works, which it must not contradict.
pub(super) fn take_units(options: &mut TrainRecipe, origin: &Operator) -> Result<()> {
    let refuse = |name: &str, what: &str| {
        let what = format!("the network that the training goes on from {what}");
        Err(Error::setting(format!("train.{name}"), what))
    };
    let own = origin.design().transforms.named();
    if !options.transforms.is_empty() && options.transforms != *own {
        return refuse(
            "transforms",
            "has learned in other units; leave transforms out",
        );
    }
    options.transforms = own.clone();
    match (options.scaling, origin.scaling()) {
        (ScalingKind::None, Some(_)) => refuse("scaling", "sees scaled values; leave scaling out"),
        (kind, None) if kind != ScalingKind::None => refuse(
            "scaling",
            "sees numbers as they are; set scaling = \"none\"",
        ),
        _ if options.symmetries.odd && !origin.design().symmetries.odd => {
            refuse("symmetries", "did not learn with odd ones; leave odd out")
        }
        _ => Ok(()),
    }
}

/// The operator's numbers, but those of its start.
pub(super) fn take_numbers(entries: &mut [Entry], origin: &Operator) {
    for entry in entries {
        let mut own = origin.entries().iter();
        let same = |o: &&Entry| (&o.name, &o.shape) == (&entry.name, &entry.shape);
        if let Some(own) = own.find(same) {
            entry.values.clone_from(&own.values);
        }
    }
}

/// Checksum of its numbers.
pub(super) fn checksum(origin: &Operator) -> u32 {
    let mut all = crc32fast::Hasher::new();
    for entry in origin.entries() {
        let bytes: Vec<u8> = entry.values.iter().flat_map(|v| v.to_le_bytes()).collect();
        all.update(&bytes);
    }
    all.finalize()
}

/// The field that it starts from, fitted to the new data.
pub(super) fn refit(
    origin: &Operator,
    meta: &Meta,
    train: &[Sample],
    val: &[Sample],
    observer: &dyn Observer,
) -> Result<(FieldConfig, Field)> {
    let Some(StartConfig::Field(config)) = &origin.config().start else {
        unreachable!("the model is the operator's, and has a start");
    };
    let old = origin.design().parts.field(origin.entries(), origin.meta());
    refit_field(
        config,
        &old.expect("as configured"),
        meta,
        train,
        val,
        observer,
    )
}

/// What of the new data is unlike all that the operator has learned from, in words.
pub(super) fn unseen(origin: &Operator, samples: &[Sample]) -> Vec<String> {
    let meta = origin.meta();
    let mut notes = Vec::new();
    let mut strays = |count: usize, all: usize, what: String, channels: &[Channel]| {
        if count > 0 {
            let ends = channels.iter().filter_map(|c| {
                let [lo, hi] = c.range?;
                Some(format!("{} in [{lo}, {hi}]", c.label()))
            });
            notes.push(format!(
                "{count} of {all} {what} stand outside of the box of the data that the network was trained with ({}): its functions and scaling are not made for them",
                ends.collect::<Vec<_>>().join(", ")
            ));
        }
    };
    let sum = |of: &dyn Fn(&Sample) -> usize| samples.iter().map(of).sum::<usize>();
    for (g, group) in meta.groups.iter().enumerate() {
        let beyond = sum(&|s| outside(&s.groups[g].coords, &group.coords));
        let all = sum(&|s| s.groups[g].len());
        strays(
            beyond,
            all,
            format!("places of {}", group.name),
            &group.coords,
        );
    }
    let beyond = sum(&|s| outside(&s.query_coords, &meta.query_coords));
    let all = sum(&|s| s.query_coords.len());
    strays(beyond, all, "queries".into(), &meta.query_coords);
    let Some(scaling) = origin.scaling() else {
        return notes;
    };
    let odd = origin.design().symmetries.odd;
    for (g, group) in meta.groups.iter().enumerate() {
        let centred = odd || group.kind == Kind::Points;
        let far = sum(&|s| scaling.groups[g].far(&s.groups[g].values, centred));
        if far > 0 {
            let all = sum(&|s| Sensors::len(&s.groups[g]));
            notes.push(format!(
                "{far} of {all} readings of {} are far from all that the network was trained with: is the unit the same?",
                group.name
            ));
        }
    }
    notes
}
