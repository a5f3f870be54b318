//! Files that can tell whether they are whole.
//!
//! They are, or begin with, JSON whose first member is `"crc32"`: eight hexadecimal digits, the CRC-32 of all
//! bytes with zeros in place of the digits. Whatever else reads such a file need not know; whatever writes
//! one (`python/halve.py`) puts zeros there, computes the checksum, and puts it in their place.

use std::ops::Range;

use serde::Serialize;
use serde::de::DeserializeOwned;

const KEY: &[u8] = b"crc32";
const ROOM: &str = "00000000";

/// A structure with room for a checksum before its own members.
#[derive(Serialize)]
struct WithRoom<'a, T> {
    crc32: &'static str,
    #[serde(flatten)]
    content: &'a T,
}

/// JSON on one line, with zeros where [`seal`] will put the checksum.
pub(crate) fn with_room(content: &impl Serialize) -> String {
    let content = WithRoom {
        crc32: ROOM,
        content,
    };
    serde_json::to_string(&content).expect("plain JSON")
}

/// Puts the checksum in its place.
pub(crate) fn seal(bytes: &mut [u8]) {
    let place = place(bytes).expect("there is room for the checksum");
    let sum = digits(bytes, &place);
    bytes[place].copy_from_slice(sum.as_bytes());
}

/// What is wrong with bytes that were sealed.
pub(crate) fn check(bytes: &[u8]) -> Result<(), &'static str> {
    match place(bytes) {
        Some(place) if bytes[place.clone()] == *digits(bytes, &place).as_bytes() => Ok(()),
        Some(_) => Err("is damaged: its checksum is not that of its content"),
        None => Err("is damaged, or was not written by this program: it has no checksum"),
    }
}

/// JSON on one line that says whether it is whole.
pub(crate) fn to_json(content: &impl Serialize) -> String {
    let mut bytes = with_room(content).into_bytes();
    seal(&mut bytes);
    String::from_utf8(bytes).expect("digits in place of digits")
}

/// What [`to_json`] wrote.
pub(crate) fn from_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    check(bytes)?;
    serde_json::from_slice(bytes).map_err(|e| format!("cannot be read: {e}"))
}

/// The checksum's digits. JSON inside of JSON has backslashes before its quotes.
fn place(bytes: &[u8]) -> Option<Range<usize>> {
    let after = bytes.windows(KEY.len()).position(|w| w == KEY)? + KEY.len();
    let between = bytes[after..].iter().position(|b| !b"\\\": ".contains(b))?;
    let start = after + between;
    (start + ROOM.len() <= bytes.len()).then_some(start..start + ROOM.len())
}

fn digits(bytes: &[u8], place: &Range<usize>) -> String {
    let mut crc = crc32fast::Hasher::new();
    for part in [&bytes[..place.start], ROOM.as_bytes(), &bytes[place.end..]] {
        crc.update(part);
    }
    format!("{:08x}", crc.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::{Best, Metric};

    /// The same bytes as `zlib.crc32` in Python gives, and any flipped bit is found.
    #[test]
    fn any_flipped_bit_is_damage() {
        let best = Best {
            step: 40,
            error: 0.125,
            metric: Metric::Rmse,
        };
        let text = to_json(&best);
        assert_eq!(
            text,
            r#"{"crc32":"ce519d06","step":40,"error":0.125,"metric":"rmse"}"#
        );
        assert_eq!(from_json::<Best>(text.as_bytes()), Ok(best));
        for bit in 0..8 * text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let error = from_json::<Best>(&bytes).unwrap_err();
            assert!(error.contains("is damaged"), "bit {bit}: {error}");
        }
        assert!(from_json::<Best>(b"{}").is_err() && from_json::<Best>(b"crc32").is_err());
    }
}
