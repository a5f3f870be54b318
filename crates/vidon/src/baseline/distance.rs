//! How far places are apart: in kilometres where two coordinates are longitude and latitude in degrees, in
//! their own unit where all coordinates have the same one, else in units of the box in which the readings
//! stand.

use crate::data::Channel;

/// Kilometres of a degree of latitude.
const DEGREE: f64 = 111.2;
/// Degrees of longitude are this long at least, as a share of those of latitude.
const LEAST: f64 = 0.01;

const DEGREES: [&str; 4] = ["°", "deg", "degree", "degrees"];
const EAST: [&str; 4] = ["degrees_east", "degree_east", "°e", "deg e"];
const NORTH: [&str; 4] = ["degrees_north", "degree_north", "°n", "deg n"];
const LONGITUDE: [&str; 4] = ["lon", "long", "lng", "longitude"];
const LATITUDE: [&str; 2] = ["lat", "latitude"];

/// What makes one length of all coordinates.
#[derive(Clone, Debug)]
pub(super) struct Distance {
    /// Of every coordinate the length of its unit.
    factors: Vec<f64>,
    /// What lengths are in.
    pub unit: String,
    /// The length of the box from corner to corner.
    pub diagonal: f64,
    /// How it was chosen, in words.
    pub note: String,
}

impl Distance {
    /// For places between these ends of their coordinates.
    pub fn new(coords: &[Channel], ends: &[[f64; 2]]) -> Self {
        let sizes: Vec<f64> = ends.iter().map(|[lo, hi]| hi - lo).collect();
        let own = |size: f64| if size > 0.0 { size.recip() } else { 1.0 };
        let names: Vec<&str> = coords.iter().map(|c| &c.name[..]).collect();
        let unit = coords[0].unit.trim();
        let (factors, unit, note) = if let Some([lon, lat]) = on_the_globe(coords, ends) {
            let middle = (0.5 * (ends[lat][0] + ends[lat][1])).to_radians();
            let scale = |axis: usize| match axis {
                _ if axis == lon => DEGREE * middle.cos().max(LEAST),
                _ if axis == lat => DEGREE,
                _ => 0.0,
            };
            let mut factors: Vec<f64> = (0..coords.len()).map(scale).collect();
            // What is no direction on the globe is as long as the globe's part is wide.
            let wide = 0.5 * (sizes[lon] * factors[lon] + sizes[lat] * factors[lat]);
            for axis in (0..coords.len()).filter(|a| ![lon, lat].contains(a)) {
                factors[axis] = wide * own(sizes[axis]);
            }
            let note = format!(
                "{} and {} are taken for longitude and latitude in degrees: distances are in km, at {:.1}° of latitude",
                names[lon],
                names[lat],
                middle.to_degrees()
            );
            (factors, "km".to_string(), note)
        } else if coords.len() == 1
            || !unit.is_empty() && coords.iter().all(|c| c.unit.trim() == unit)
        {
            let note = format!("distances are those of {}", names.join(", "));
            (vec![1.0; coords.len()], unit.to_string(), note)
        } else {
            let note = format!(
                "distances are in units of the box of {}: if all have one unit, state it at import",
                names.join(", ")
            );
            let factors = sizes.iter().map(|s| own(*s)).collect();
            (factors, "of the box".to_string(), note)
        };
        let lengths = sizes.iter().zip(&factors).map(|(s, f)| (s * f).powi(2));
        let diagonal = lengths.sum::<f64>().sqrt();
        Self {
            diagonal: if diagonal > 0.0 { diagonal } else { 1.0 },
            factors,
            unit,
            note,
        }
    }

    /// Coordinates as lengths.
    pub fn lengths<'a>(
        &'a self,
        place: impl Iterator<Item = f32> + 'a,
    ) -> impl Iterator<Item = f64> + 'a {
        place.zip(&self.factors).map(|(v, f)| v as f64 * f)
    }
}

/// Which coordinates are longitude and latitude: by their names, or their units.
fn on_the_globe(coords: &[Channel], ends: &[[f64; 2]]) -> Option<[usize; 2]> {
    let unit = |c: &Channel| c.unit.trim().to_lowercase();
    let degrees = |c: &Channel| DEGREES.contains(&&unit(c)[..]);
    let find = |names: &[&str], units: &[&str]| {
        coords.iter().position(|c| {
            let named = names.contains(&&c.name.to_lowercase()[..]);
            let plain = unit(c).is_empty() || degrees(c);
            units.contains(&&unit(c)[..]) || named && plain
        })
    };
    let named = find(&LONGITUDE, &EAST).zip(find(&LATITUDE, &NORTH));
    let in_degrees: Vec<usize> = (0..coords.len()).filter(|i| degrees(&coords[*i])).collect();
    let pair = match (named, &in_degrees[..]) {
        (Some((lon, lat)), _) => [lon, lat],
        (None, &[lon, lat]) => [lon, lat],
        _ => return None,
    };
    let within = |axis: usize, most: f64| ends[axis].iter().all(|v| v.abs() <= most);
    (within(pair[0], 360.0) && within(pair[1], 90.0)).then_some(pair)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel(name: &str, unit: &str) -> Channel {
        Channel {
            unit: unit.into(),
            ..Channel::named(name)
        }
    }

    #[test]
    fn coordinates_on_the_globe_are_kilometres() {
        let ends = [[40.0, 50.0], [-10.0, 20.0]];
        for coords in [
            [channel("Lat", ""), channel("LON", "")],
            [channel("y", "degrees_north"), channel("x", "°E")],
        ] {
            let distance = Distance::new(&coords, &ends);
            let lengths: Vec<f64> = distance.lengths([1.0, 1.0].into_iter()).collect();
            assert_eq!((lengths[0], &distance.unit[..]), (DEGREE, "km"));
            assert!((lengths[1] - DEGREE * 45f64.to_radians().cos()).abs() < 1e-9);
        }
        // The first of two in degrees is the longitude.
        let coords = [channel("a", "deg"), channel("b", "deg")];
        let distance = Distance::new(&coords, &[[0.0, 350.0], [-60.0, 60.0]]);
        assert!(
            distance
                .note
                .contains("a and b are taken for longitude and latitude")
        );
        // Not where numbers or units say otherwise.
        let named = [channel("lon", ""), channel("lat", "")];
        assert_eq!(
            Distance::new(&named, &[[0.0, 5000.0], [0.0, 3.0]]).unit,
            "of the box"
        );
        let metres = [channel("lon", "m"), channel("lat", "m")];
        assert_eq!(Distance::new(&metres, &ends).unit, "m");
    }

    #[test]
    fn other_coordinates_have_the_size_of_the_box_unless_units_agree() {
        let ends = [[0.0, 10.0], [5.0, 5.5]];
        let distance = Distance::new(&[channel("x", ""), channel("y", "")], &ends);
        let lengths: Vec<f64> = distance.lengths([10.0, 0.5].into_iter()).collect();
        assert_eq!(lengths, [1.0, 1.0]);
        assert!((distance.diagonal - 2f64.sqrt()).abs() < 1e-12);
        let distance = Distance::new(&[channel("x", "m"), channel("y", "m")], &ends);
        assert_eq!(
            (distance.factors, distance.unit),
            (vec![1.0; 2], "m".into())
        );
        let mixed = [channel("lon", ""), channel("lat", ""), channel("t", "h")];
        let distance = Distance::new(&mixed, &[[0.0, 10.0], [0.0, 10.0], [0.0, 24.0]]);
        let lengths: Vec<f64> = distance.lengths([10.0, 10.0, 24.0].into_iter()).collect();
        assert!((lengths[2] - 0.5 * (lengths[0] + lengths[1])).abs() < 1e-9);
    }
}
