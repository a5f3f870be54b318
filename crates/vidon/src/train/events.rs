//! TensorBoard event files: scalars over steps.
//!
//! A file is a sequence of records `length u64, masked CRC-32C of it, data, masked CRC-32C of the data`; the
//! data is a protocol buffer `Event { double wall_time = 1; int64 step = 2; string file_version = 3; Summary
//! summary = 5; }` with `Summary { repeated Value value = 1; }` and `Value { string tag = 1; float
//! simple_value = 2; }`.

use std::io::{Result, Write};

/// Starts a file.
pub(crate) fn write_header(out: &mut dyn Write, time: f64) -> Result<()> {
    let mut event = field_f64(1, time);
    event.extend(field_bytes(3, b"brain.Event:2"));
    write_record(out, &event)
}

/// Values of one step.
pub(crate) fn write_scalars(
    out: &mut dyn Write,
    time: f64,
    step: u64,
    scalars: &[(&str, f64)],
) -> Result<()> {
    let mut summary = Vec::new();
    for (tag, value) in scalars {
        let mut one = field_bytes(1, tag.as_bytes());
        one.push(2 << 3 | 5);
        one.extend((*value as f32).to_le_bytes());
        summary.extend(field_bytes(1, &one));
    }
    let mut event = field_f64(1, time);
    event.push(2 << 3);
    event.extend(varint(step));
    event.extend(field_bytes(5, &summary));
    write_record(out, &event)
}

fn write_record(out: &mut dyn Write, data: &[u8]) -> Result<()> {
    let length = (data.len() as u64).to_le_bytes();
    out.write_all(&length)?;
    out.write_all(&masked_crc(&length).to_le_bytes())?;
    out.write_all(data)?;
    out.write_all(&masked_crc(data).to_le_bytes())
}

fn field_f64(number: u8, value: f64) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 1];
    bytes.extend(value.to_le_bytes());
    bytes
}

fn field_bytes(number: u8, data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    bytes.extend(varint(data.len() as u64));
    bytes.extend(data);
    bytes
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn masked_crc(data: &[u8]) -> u32 {
    crc32c(data).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Castagnoli's CRC-32, a bit at a time: the files are small.
fn crc32c(data: &[u8]) -> u32 {
    !data.iter().fold(!0u32, |mut crc, byte| {
        crc ^= *byte as u32;
        for _ in 0..8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
        }
        crc
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_and_records_are_those_of_the_format() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(varint(300), [0xac, 0x02]);
        let mut file = Vec::new();
        write_scalars(&mut file, 1.0, 300, &[("loss", 0.5)]).unwrap();
        let data = &file[12..file.len() - 4];
        assert_eq!(
            u64::from_le_bytes(file[..8].try_into().unwrap()) as usize,
            data.len()
        );
        let mut wanted = vec![0x09];
        wanted.extend(1.0f64.to_le_bytes());
        wanted.extend([0x10, 0xac, 0x02, 0x2a, 13, 0x0a, 11, 0x0a, 4]);
        wanted.extend(b"loss");
        wanted.push(0x15);
        wanted.extend(0.5f32.to_le_bytes());
        assert_eq!(data, wanted);
    }
}
