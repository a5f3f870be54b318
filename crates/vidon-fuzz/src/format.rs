//! How files of each kind are taken apart for a mutation, and put together with lengths and checksums right.

use std::io::{Cursor, Read, Write};

use serde_json::{Map, Value};

/// Bytes of an archive's array at most: a member that claims more is no part of a small file.
const MOST_UNPACKED: u64 = 1 << 20;

/// A zip archive has no room for longer names.
const LONGEST_NAME: usize = 1 << 15;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Any bytes: one part.
    Plain,
    /// JSON, which may begin with its checksum.
    Json,
    /// Lines, then behind an empty line one more: each is JSON like the above.
    Lines,
    /// A CRC-32 of all that stands before it ends the file.
    Sealed,
    /// Safetensors: the configuration, the table of tensors, their bytes.
    Tensors,
    /// Parquet: the pages, and the footer that says where they are.
    Parquet,
    /// NumPy's zip archives: of each array its name, what says its shape, and its numbers.
    Npz,
}

impl Format {
    /// None where the bytes are no such file.
    pub fn parts(self, file: &[u8]) -> Option<Vec<Vec<u8>>> {
        match self {
            Format::Plain | Format::Json => Some(vec![file.to_vec()]),
            Format::Lines => {
                let (lines, note) = lines_and_note(file);
                let lines = lines.strip_suffix(b"\n").unwrap_or(lines);
                let lines = lines.split(|b| *b == b'\n');
                Some(lines.chain([note]).map(<[u8]>::to_vec).collect())
            }
            Format::Sealed => Some(vec![file.split_last_chunk::<4>()?.0.to_vec()]),
            Format::Tensors => tensor_parts(file),
            Format::Parquet => parquet_parts(file),
            Format::Npz => npz_parts(file),
        }
    }

    /// The file with these parts.
    pub fn whole(self, parts: &[Vec<u8>]) -> Vec<u8> {
        match self {
            Format::Plain => parts.concat(),
            Format::Json => sealed(parts.concat()),
            Format::Lines => {
                let Some((note, lines)) = parts.split_last() else {
                    return Vec::new();
                };
                let mut file = Vec::new();
                for line in lines {
                    file.extend(sealed(line.clone()));
                    file.push(b'\n');
                }
                file.push(b'\n');
                file.extend(sealed(note.clone()));
                file
            }
            Format::Sealed => {
                let mut file = parts.concat();
                file.extend(crc32fast::hash(&file).to_le_bytes());
                file
            }
            Format::Tensors => tensor_file(parts),
            Format::Parquet => {
                let [pages, footer] = parts else {
                    return parts.concat();
                };
                let length = (footer.len() as u32).to_le_bytes();
                [b"PAR1", &pages[..], footer, &length, b"PAR1"].concat()
            }
            Format::Npz => npz_file(parts).unwrap_or_else(|| parts.concat()),
        }
    }
}

/// Up to the end of the line before an empty one, and what stands behind that.
pub(crate) fn lines_and_note(file: &[u8]) -> (&[u8], &[u8]) {
    match file.windows(2).position(|w| w == b"\n\n") {
        Some(end) => (&file[..=end], &file[end + 2..]),
        None => (file, b""),
    }
}

/// With the right digits behind the first `"crc32":`, where there is room for them: the CRC-32 of all bytes
/// with zeros in place of the digits.
fn sealed(mut file: Vec<u8>) -> Vec<u8> {
    const KEY: &[u8] = b"crc32";
    const ROOM: usize = 8;
    let after = file.windows(KEY.len()).position(|w| w == KEY);
    let digits = after.and_then(|key| {
        let behind = &file[key + KEY.len()..];
        let between = behind.iter().position(|b| !b"\\\": ".contains(b))?;
        let start = key + KEY.len() + between;
        file.get_mut(start..start + ROOM)?.fill(b'0');
        Some(start)
    });
    if let Some(start) = digits {
        let sum = format!("{:08x}", crc32fast::hash(&file));
        file[start..start + ROOM].copy_from_slice(sum.as_bytes());
    }
    file
}

const KEY: &str = "vidon";
const METADATA: &str = "__metadata__";

fn tensor_parts(file: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (length, rest) = file.split_first_chunk::<8>()?;
    let (header, data) = rest.split_at_checked(u64::from_le_bytes(*length) as usize)?;
    let mut table: Map<String, Value> = serde_json::from_slice(header).ok()?;
    let metadata = table.remove(METADATA)?;
    let json = metadata.get(KEY)?.as_str()?.as_bytes().to_vec();
    Some(vec![json, serde_json::to_vec(&table).ok()?, data.to_vec()])
}

/// A table that is no longer JSON stands in the file as it is, behind the metadata.
fn tensor_file(parts: &[Vec<u8>]) -> Vec<u8> {
    let [json, table, data] = parts else {
        return parts.concat();
    };
    let json = String::from_utf8_lossy(json);
    let metadata = serde_json::json!({ METADATA: { KEY: json } }).to_string();
    let opened = metadata.strip_suffix('}').expect("an object");
    let rest = table.strip_prefix(b"{").unwrap_or(table);
    let comma: &[u8] = if rest.starts_with(b"}") { b"" } else { b"," };
    let mut header = [opened.as_bytes(), comma, rest].concat();
    header.resize(header.len().next_multiple_of(8), b' ');
    sealed([&(header.len() as u64).to_le_bytes(), &header[..], data].concat())
}

fn parquet_parts(file: &[u8]) -> Option<Vec<Vec<u8>>> {
    let inner = file.strip_prefix(b"PAR1")?.strip_suffix(b"PAR1")?;
    let (inner, length) = inner.split_last_chunk::<4>()?;
    let pages = inner
        .len()
        .checked_sub(u32::from_le_bytes(*length) as usize)?;
    let (pages, footer) = inner.split_at(pages);
    Some(vec![pages.to_vec(), footer.to_vec()])
}

/// What an array of NumPy begins with, before two bytes that say how long its header is.
const NPY: &[u8] = b"\x93NUMPY\x01\x00";

fn npz_parts(file: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut archive = zip::ZipArchive::new(Cursor::new(file)).ok()?;
    let mut parts = Vec::new();
    for i in 0..archive.len() {
        let member = archive.by_index(i).ok()?;
        let name = member.name().as_bytes().to_vec();
        let mut content = Vec::new();
        member.take(MOST_UNPACKED).read_to_end(&mut content).ok()?;
        let (header, numbers) = npy_parts(&content).unwrap_or((b"", &content));
        parts.extend([name, header.to_vec(), numbers.to_vec()]);
    }
    Some(parts)
}

fn npy_parts(array: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = array.strip_prefix(NPY)?.split_first_chunk::<2>()?;
    rest.split_at_checked(u16::from_le_bytes(*length) as usize)
}

/// What has no header is a file of another kind.
fn npz_file(parts: &[Vec<u8>]) -> Option<Vec<u8>> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let stored =
        zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for [name, header, numbers] in parts.as_chunks().0 {
        let mut name = String::from_utf8_lossy(name).into_owned();
        name.truncate(name.floor_char_boundary(LONGEST_NAME));
        writer.start_file(name, stored).ok()?;
        if !header.is_empty() {
            let length = (header.len() as u16).to_le_bytes();
            writer.write_all(&[NPY, &length, header].concat()).ok()?;
        }
        writer.write_all(numbers).ok()?;
    }
    Some(writer.finish().ok()?.into_inner())
}
