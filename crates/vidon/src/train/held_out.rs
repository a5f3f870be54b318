//! Validation data that are held out of the training data: whole samples, or places.
//!
//! Of places those are divided that recur from sample to sample: neighbours go together, in blocks of a grid over their
//! box (as in a blocked cross-validation), and blocks are drawn at random until there are enough. What is held out
//! neither reads nor is asked in training; it is what the validation samples ask, of the sensors that remain.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use rand::seq::SliceRandom;

use crate::data::{Channel, Kind, Meta, Rows, Sample, Sensors, coordinates};
use crate::error::{Error, Result};
use crate::rng::stream;
use crate::spaces::all_along;
use crate::train::readings::Readings;
use crate::train::recipe::{DataRecipe, HoldOut};

/// Shares that are held out where a recipe does not say.
const SAMPLES: f64 = 0.1;
const PLACES: f64 = 0.2;
/// Places of a block, on average, and blocks at most.
const PER_BLOCK: usize = 6;
const MOST_BLOCKS: usize = 100;

/// Training and validation samples, and how they were divided, in words.
pub(crate) struct Divided {
    pub train: Vec<Sample>,
    pub val: Vec<Sample>,
    pub notes: Vec<String>,
}

/// Divides samples as a recipe says.
pub(crate) fn hold_out(data: &DataRecipe, meta: &Meta, samples: Vec<Sample>) -> Result<Divided> {
    if let Some(share) = data.val_share.filter(|s| !(*s > 0.0 && *s < 1.0)) {
        let what = "a share is more than 0 and less than 1";
        return Err(Error::setting("data.val_share", what).with_value(share));
    }
    match data.hold_out {
        HoldOut::Samples => last_samples(data, samples),
        HoldOut::Places => places(data, meta, samples),
    }
}

/// An error where a recipe divides what is divided already: validation data are given.
pub(crate) fn check_nothing_is_held_out(data: &DataRecipe) -> Result<()> {
    let setting = match (data.hold_out, data.val_share) {
        (HoldOut::Places, _) => "data.hold_out",
        (_, Some(_)) => "data.val_share",
        _ => return Ok(()),
    };
    let what = "there are validation data of their own (val, or those of a problem), so that nothing is held out of the training data; leave out the one or the other";
    Err(Error::setting(setting, what))
}

fn last_samples(data: &DataRecipe, mut samples: Vec<Sample>) -> Result<Divided> {
    let (all, share) = (samples.len(), data.val_share.unwrap_or(SAMPLES));
    if data.val_samples.is_some() && data.val_share.is_some() {
        let what = "give either val_samples or val_share, not both";
        return Err(Error::setting("data.val_share", what));
    }
    // Rounded down, as tenths have always been.
    let held = data
        .val_samples
        .unwrap_or(((all as f64 * share + 1e-9) as usize).max(1));
    if held == 0 || held >= all {
        let what = format!(
            "{held} of {all} samples cannot be held out for validation; give validation data"
        );
        return Err(Error::setting("data.val_samples", what));
    }
    Ok(Divided {
        val: samples.split_off(all - held),
        train: samples,
        notes: Vec::new(),
    })
}

/// A place, by the bits of its coordinates.
type Place = Vec<u32>;

/// Which columns of sensors and queries say where they stand.
struct Located {
    /// Of every group that stands where queries may.
    groups: Vec<Option<Vec<usize>>>,
    queries: Vec<usize>,
    /// The group whose sensors can be asked for.
    readings: Option<Readings>,
}

impl Located {
    fn of(meta: &Meta) -> Self {
        let names = |channels: &[Channel]| -> Vec<String> {
            channels.iter().map(|c| c.name.clone()).collect()
        };
        let columns = |names: &[String], channels: &[Channel]| -> Option<Vec<usize>> {
            let column = |name: &String| channels.iter().position(|c| c.name == *name);
            names.iter().map(column).collect()
        };
        let asked = coordinates(&meta.query_coords);
        let readings = Readings::of(meta).ok();
        // Queries may have more coordinates than sensors, such as time.
        let mut fields = meta.groups.iter().filter(|g| g.kind == Kind::Field);
        let space = match &readings {
            Some(_) => names(asked),
            None => fields
                .find(|g| columns(&names(g.coordinates()), asked).is_some())
                .map_or(names(asked), |g| names(g.coordinates())),
        };
        let groups = meta.groups.iter().map(|g| {
            let own = g.coordinates();
            let same = g.kind == Kind::Field && own.len() == space.len();
            columns(&space, own).filter(|_| same)
        });
        Self {
            groups: groups.collect(),
            queries: columns(&space, asked).expect("found above"),
            readings,
        }
    }

    /// Places whose answers are known in at least two samples, in order, and how many there are in all.
    fn recurring(&self, samples: &[Sample]) -> (Vec<Place>, usize) {
        // The sample where a place was seen last, and whether in another one before.
        let mut seen: HashMap<Place, (usize, bool)> = HashMap::new();
        let mut place = Vec::new();
        let mut add = |index: usize, columns: &[usize], places: &Rows, values: &Rows| {
            let known = places.iter().zip(values.iter());
            for (row, _) in known.filter(|(_, v)| v.iter().any(|v| !v.is_nan())) {
                put(&mut place, columns, row);
                match seen.get_mut(&place) {
                    Some((last, again)) => *again |= std::mem::replace(last, index) != index,
                    None => drop(seen.insert(place.clone(), (index, false))),
                }
            }
        };
        for (i, sample) in samples.iter().enumerate() {
            add(i, &self.queries, &sample.query_coords, &sample.targets);
            if let Some(group) = self.readings.as_ref().map(|r| r.group) {
                let columns = self.groups[group].as_ref().expect("where queries are");
                let Sensors { coords, values } = &sample.groups[group];
                add(i, columns, coords, values);
            }
        }
        let all = seen.len();
        let recurring = seen.into_iter().filter(|(_, (_, again))| *again);
        let mut recurring: Vec<Place> = recurring.map(|(place, _)| place).collect();
        recurring.sort_unstable();
        (recurring, all)
    }
}

/// The bits of a place; zero has one sign.
fn put(place: &mut Place, columns: &[usize], row: &[f32]) {
    place.clear();
    place.extend(columns.iter().map(|&c| (row[c] + 0.0).to_bits()));
}

/// Rows at places that are held out, and the others.
fn part(rows: &Rows, columns: &[usize], held: &HashSet<Place>) -> (Vec<usize>, Vec<usize>) {
    let mut place = Vec::new();
    (0..rows.len()).partition(|&i| {
        put(&mut place, columns, rows.row(i));
        held.contains(&place)
    })
}

fn places(data: &DataRecipe, meta: &Meta, samples: Vec<Sample>) -> Result<Divided> {
    let refuse = |what: String| Err(Error::setting("data.hold_out", what).with_value("places"));
    let located = Located::of(meta);
    let (recurring, all) = located.recurring(&samples);
    if recurring.len() < 2 {
        return refuse(format!(
            "places do not recur: of {all} places whose answers are known {} in more than one sample. Samples are what can be held out (hold_out = \"samples\")",
            if recurring.is_empty() {
                "none is"
            } else {
                "only one is"
            }
        ));
    }
    let drawn = draw(&recurring, data.val_share.unwrap_or(PLACES), data.seed);
    let mut divider = Divider {
        located,
        held: drawn.places.iter().map(|&i| recurring[i].clone()).collect(),
        last: None,
    };
    let before = samples.len();
    let (mut train, mut val) = (Vec::with_capacity(before), Vec::new());
    for sample in samples {
        let (known, unknown) = divider.divide(sample);
        train.extend(known);
        val.extend(unknown);
    }
    if train.is_empty() || val.is_empty() {
        return refuse(format!(
            "with {} of {} places held out no {} sample is left; another val_share, or hold_out = \"samples\"",
            divider.held.len(),
            recurring.len(),
            if train.is_empty() {
                "training"
            } else {
                "validation"
            }
        ));
    }
    if let Some(wanted) = data.val_samples {
        if wanted == 0 || wanted > val.len() {
            let what = format!("held-out places are asked in {} samples", val.len());
            return Err(Error::setting("data.val_samples", what).with_value(wanted));
        }
        val = all_along(&val, wanted).cloned().collect();
    }
    let mut notes = vec![format!(
        "{} of {} places{} are held out of the training, and asked in {} validation samples",
        divider.held.len(),
        recurring.len(),
        match drawn.blocks {
            Some([held, all]) => format!(" (in {held} of {all} blocks)"),
            None => String::new(),
        },
        val.len()
    )];
    if train.len() < before {
        notes.push(format!(
            "{} of {before} samples have no sensors or no targets besides those at held-out places, and are left out of the training",
            before - train.len()
        ));
    }
    Ok(Divided { train, val, notes })
}

/// Places that were drawn, and from how many of how many blocks, where they were drawn in blocks.
struct Drawn {
    places: Vec<usize>,
    blocks: Option<[usize; 2]>,
}

/// A share of the places, in blocks where these are of use.
fn draw(places: &[Place], share: f64, seed: u64) -> Drawn {
    let rng = &mut stream(seed, "places", 0);
    let wanted = (share * places.len() as f64).round() as usize;
    let wanted = wanted.clamp(1, places.len() - 1);
    let mut blocks = blocks(places, share);
    let all = blocks.len();
    blocks.shuffle(rng);
    let (mut held, mut taken) = (Vec::new(), 0);
    for block in &blocks {
        // A block that holds too many is passed over, so that the training keeps what it should have.
        if held.len() < wanted && held.len() + block.len() <= wanted + wanted / 4 {
            held.extend_from_slice(block);
            taken += 1;
        }
    }
    if 4 * held.len() >= 3 * wanted {
        let alone = all == places.len();
        return Drawn {
            places: held,
            blocks: (!alone).then_some([taken, all]),
        };
    }
    // Nearly all stand in a block or two.
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.shuffle(rng);
    order.truncate(wanted);
    Drawn {
        places: order,
        blocks: None,
    }
}

/// Neighbours together: the occupied cells of a grid over the box of the places. Every place alone where there are too
/// few for blocks.
fn blocks(places: &[Place], share: f64) -> Vec<Vec<usize>> {
    let (axes, wanted) = (places[0].len(), (places.len() / PER_BLOCK).min(MOST_BLOCKS));
    let side = (wanted as f64).powf(1.0 / axes as f64).round();
    if side < 2.0 || side.powi(axes as i32) * share < 1.0 {
        return (0..places.len()).map(|i| vec![i]).collect();
    }
    let at = |place: &Place, k: usize| f32::from_bits(place[k]) as f64;
    let ends: Vec<[f64; 2]> = (0..axes)
        .map(|k| {
            let all = places.iter().map(|p| at(p, k));
            all.fold([f64::MAX, f64::MIN], |[lo, hi], v| [lo.min(v), hi.max(v)])
        })
        .collect();
    let mut cells: BTreeMap<Vec<usize>, Vec<usize>> = BTreeMap::new();
    for (i, place) in places.iter().enumerate() {
        let cell = ends.iter().enumerate().map(|(k, [lo, hi])| {
            let share = (at(place, k) - lo) / (hi - lo);
            // Along an axis on which nothing varies all is one.
            if share.is_nan() {
                0
            } else {
                (share * side).min(side - 1.0) as usize
            }
        });
        cells.entry(cell.collect()).or_default().push(i);
    }
    cells.into_values().collect()
}

/// Divides samples between training and validation.
struct Divider {
    located: Located,
    held: HashSet<Place>,
    /// Queries that the next samples may share, and both parts of them.
    last: Option<(Arc<Rows>, [QueryPart; 2])>,
}

/// Which queries, and their places.
type QueryPart = (Vec<usize>, Arc<Rows>);

impl Divider {
    /// What is left of a sample for the training, and what it is asked in validation.
    fn divide(&mut self, sample: Sample) -> (Option<Sample>, Option<Sample>) {
        let [(asked, held_places), (kept, kept_places)] = self.queries(&sample.query_coords);
        let mut groups = sample.groups;
        let mut left_out = Vec::new();
        for (group, columns) in groups.iter_mut().zip(&self.located.groups) {
            let held = columns.as_ref().map(|c| part(&group.coords, c, &self.held));
            let (held, others) = held.unwrap_or_default();
            left_out.push((!held.is_empty()).then(|| group.select(&held)));
            if !held.is_empty() {
                *group = group.select(&others);
            }
        }
        let reports = |group: &Sensors| group.values.data().iter().any(|v| !v.is_nan());
        let mut both = groups.iter().zip(&left_out);
        if both.any(|(group, held)| held.is_some() && !reports(group)) {
            return (None, None);
        }
        let known = |targets: &Rows| targets.data().iter().any(|v| !v.is_nan());
        let targets = sample.targets.select(&kept);
        let train = known(&targets).then(|| Sample {
            name: sample.name.clone(),
            groups: groups.clone(),
            query_coords: kept_places,
            targets,
        });
        let (mut places, mut targets) = (held_places, sample.targets.select(&asked));
        if let Some(readings) = &self.located.readings
            && let Some(held) = &left_out[readings.group]
        {
            let own = self.besides(held, &places, &targets);
            let (more, answers) = readings.as_targets(&own);
            let mut all = (*places).clone();
            all.extend(&more);
            (places, targets) = (Arc::new(all), {
                targets.extend(&answers);
                targets
            });
        }
        let val = known(&targets).then_some(Sample {
            name: sample.name,
            groups,
            query_coords: places,
            targets,
        });
        (train, val)
    }

    /// Held-out and other queries; samples that shared them share both parts.
    fn queries(&mut self, queries: &Arc<Rows>) -> [QueryPart; 2] {
        if let Some((before, parts)) = &self.last
            && Arc::ptr_eq(before, queries)
        {
            return parts.clone();
        }
        let (asked, kept) = part(queries, &self.located.queries, &self.held);
        let parts = [asked, kept].map(|some| {
            let places = match some.len() == queries.len() {
                true => queries.clone(),
                false => Arc::new(queries.select(&some)),
            };
            (some, places)
        });
        self.last = Some((queries.clone(), parts.clone()));
        parts
    }

    /// Sensors but those that stand where the sample has a target of its own.
    fn besides(&self, sensors: &Sensors, places: &Rows, targets: &Rows) -> Sensors {
        let own = places.iter().zip(targets.iter());
        let own = own.filter(|(_, t)| t.iter().any(|v| !v.is_nan()));
        let place = |columns: &[usize], row: &[f32]| {
            let mut place = Vec::new();
            put(&mut place, columns, row);
            place
        };
        let own: HashSet<Place> = own
            .map(|(row, _)| place(&self.located.queries, row))
            .collect();
        // Sensors that can be asked for have the queries' columns.
        let elsewhere =
            |i: &usize| !own.contains(&place(&self.located.queries, sensors.coords.row(*i)));
        let some: Vec<usize> = (0..sensors.len()).filter(elsewhere).collect();
        sensors.select(&some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Group;

    fn recipe(hold_out: HoldOut) -> DataRecipe {
        DataRecipe {
            hold_out,
            ..DataRecipe::default()
        }
    }

    /// Stations of a plane that report T; targets are T, or something else.
    fn meta(target: &str) -> Meta {
        let places = || ["x", "y"].map(Channel::named).to_vec();
        let air = Group::field("air", places(), vec![Channel::named("T")]);
        Meta::of_groups("air", vec![air], places(), vec![Channel::named(target)])
    }

    /// Where station `i` of 100 stands, on a grid with some noise.
    fn place(i: usize) -> [f32; 2] {
        let noise = (i * 37 % 11) as f32 / 40.0;
        [(i % 10) as f32 + noise, (i / 10) as f32 - noise]
    }

    /// Days on which other stations read and are asked; what is read is the number of the station.
    fn days(count: usize) -> Vec<Sample> {
        let day = |d: usize| {
            let rows = |some: &[usize]| Rows::of(2, some.iter().flat_map(|&i| place(i)).collect());
            let values =
                |some: &[usize]| Rows::of(1, some.iter().map(|&i| i as f32).collect::<Vec<_>>());
            let (asked, read): (Vec<usize>, Vec<usize>) = (0..100)
                .filter(|i| i % 3 != d % 3)
                .partition(|i| (i + d).is_multiple_of(5));
            Sample::of(
                rows(&read),
                values(&read),
                rows(&asked).into(),
                values(&asked),
            )
        };
        (0..count).map(day).collect()
    }

    fn stations<'a>(rows: impl Iterator<Item = &'a Rows>) -> HashSet<Place> {
        let bits = |row: &[f32]| row.iter().map(|v| v.to_bits()).collect::<Place>();
        rows.flat_map(|r| r.iter().map(bits).collect::<Vec<_>>())
            .collect()
    }

    #[test]
    fn held_out_places_are_seen_in_validation_alone() {
        let divided = hold_out(&recipe(HoldOut::Places), &meta("T"), days(30)).unwrap();
        let Divided { train, val, notes } = &divided;
        let asked = stations(val.iter().map(|s| &*s.query_coords));
        assert!((16..=25).contains(&asked.len()), "{}", asked.len());
        for samples in [train, val] {
            let sensors = stations(samples.iter().map(|s| &s.groups[0].coords));
            assert!(sensors.is_disjoint(&asked) && sensors.len() == 100 - asked.len());
        }
        let trained = stations(train.iter().map(|s| &*s.query_coords));
        assert!(trained.is_disjoint(&asked));
        // Every day asks all of the held-out stations that report, by what they read.
        assert_eq!((train.len(), val.len()), (30, 30));
        for (d, sample) in val.iter().enumerate() {
            let places = sample.query_coords.iter().zip(sample.targets.data());
            for (row, value) in places {
                assert_eq!(row, place(*value as usize));
                assert!(*value as usize % 3 != d % 3);
            }
            let report = (0..100).filter(|i| i % 3 != d % 3);
            let held = report.filter(|&i| asked.contains(place(i).map(f32::to_bits).as_slice()));
            assert_eq!(sample.targets.len(), held.count());
        }
        assert!(notes[0].contains("of 100 places (in ") && notes[0].contains("30 validation"));
        // The same again, and others by another seed.
        let again = hold_out(&recipe(HoldOut::Places), &meta("T"), days(30)).unwrap();
        assert_eq!((&again.train, &again.val), (train, val));
        let other = DataRecipe {
            seed: 1,
            ..recipe(HoldOut::Places)
        };
        let other = hold_out(&other, &meta("T"), days(30)).unwrap();
        assert!(stations(other.val.iter().map(|s| &*s.query_coords)) != asked);
    }

    /// Readings of another quantity are no targets, but are not seen either.
    #[test]
    fn readings_of_another_quantity_are_left_out_only() {
        let divided = hold_out(&recipe(HoldOut::Places), &meta("rain"), days(30)).unwrap();
        let asked = stations(divided.val.iter().map(|s| &*s.query_coords));
        let read = stations(divided.train.iter().map(|s| &s.groups[0].coords));
        assert!(!asked.is_empty() && read.is_disjoint(&asked));
        for (d, sample) in divided.val.iter().enumerate() {
            let mut targets = sample.targets.data().iter();
            assert!(targets.all(|v| (*v as usize + d).is_multiple_of(5)));
        }
    }

    /// Neighbours are held out together: most of them have a neighbour that is held out too.
    #[test]
    fn blocks_are_of_neighbours() {
        let places: Vec<Place> = (0..100)
            .map(|i| place(i).map(f32::to_bits).to_vec())
            .collect();
        let drawn = draw(&places, 0.2, 0);
        let [held, all] = drawn.blocks.unwrap();
        assert_eq!(all, 16);
        assert!((2..=4).contains(&held), "{held}");
        let near = |i: &&usize| {
            let [x, y] = place(**i);
            drawn.places.iter().any(|j| {
                let [a, b] = place(*j);
                *i != j && (x - a).hypot(y - b) < 1.5
            })
        };
        assert!(drawn.places.iter().filter(near).count() * 10 >= drawn.places.len() * 9);
        // A handful is drawn one by one; so are places that nearly all stand together.
        assert!(draw(&places[..9], 0.2, 0).blocks.is_none());
        let mut heap: Vec<Place> = (0..99u32).map(|i| vec![1e-4f32.to_bits() + i, 0]).collect();
        heap.push(vec![1f32.to_bits(), 1f32.to_bits()]);
        let drawn = draw(&heap, 0.2, 0);
        assert!(drawn.blocks.is_none() && drawn.places.len() == 20);
    }

    #[test]
    fn what_cannot_be_held_out_is_said() {
        let refused = |recipe: &DataRecipe, samples: Vec<Sample>, words: &str| {
            let found = hold_out(recipe, &meta("T"), samples).err().unwrap();
            assert!(found.to_string().contains(words), "{found}");
        };
        let mut fresh = days(10);
        for (d, sample) in fresh.iter_mut().enumerate() {
            let moved = |rows: &mut Rows| {
                rows.data_mut()
                    .iter_mut()
                    .for_each(|v| *v += d as f32 * 1e-3)
            };
            moved(&mut sample.groups[0].coords);
            moved(Arc::make_mut(&mut sample.query_coords));
        }
        refused(&recipe(HoldOut::Places), fresh, "places do not recur");
        let share = |share: f64, hold_out: HoldOut| DataRecipe {
            val_share: Some(share),
            ..recipe(hold_out)
        };
        refused(
            &share(1.0, HoldOut::Places),
            days(9),
            "val_share = 1: a share is more than 0",
        );
        refused(
            &share(0.99, HoldOut::Samples),
            days(1),
            "cannot be held out",
        );
        let both = DataRecipe {
            val_samples: Some(3),
            ..share(0.5, HoldOut::Samples)
        };
        refused(&both, days(9), "not both");
        let many = DataRecipe {
            val_samples: Some(31),
            ..recipe(HoldOut::Places)
        };
        refused(
            &many,
            days(30),
            "val_samples = 31: held-out places are asked in 30 samples",
        );
        let words = check_nothing_is_held_out(&recipe(HoldOut::Places))
            .unwrap_err()
            .to_string();
        assert!(
            words.contains("data.hold_out: there are validation data"),
            "{words}"
        );
    }

    #[test]
    fn a_tenth_of_the_samples_is_held_out_or_a_share() {
        let lengths = |recipe: &DataRecipe| {
            let divided = hold_out(recipe, &meta("T"), days(30)).unwrap();
            assert_eq!(divided.val[..], days(30)[divided.train.len()..]);
            [divided.train.len(), divided.val.len()]
        };
        let mut data = recipe(HoldOut::Samples);
        assert_eq!(lengths(&data), [27, 3]);
        data.val_share = Some(0.3);
        assert_eq!(lengths(&data), [21, 9]);
        (data.val_share, data.val_samples) = (None, Some(5));
        assert_eq!(lengths(&data), [25, 5]);
    }
}
