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
    /// Lines, then behind an empty line JSON like the above.
    LinesAndJson,
    /// A CRC-32 of all that stands before it ends the file.
    Sealed,
    /// Safetensors: the configuration, the table of tensors, their bytes.
    Tensors,
    /// Parquet: the pages, and the footer that says where they are.
    Parquet,
    /// Zip: names and contents of its files.
    Zip,
}

impl Format {
    /// None where the bytes are no such file.
    pub fn parts(self, file: &[u8]) -> Option<Vec<Vec<u8>>> {
        match self {
            Format::Plain | Format::Json => Some(vec![file.to_vec()]),
            Format::LinesAndJson => {
                let (lines, json) = lines_and_json(file);
                Some(vec![lines.to_vec(), json.to_vec()])
            }
            Format::Sealed => Some(vec![file.split_last_chunk::<4>()?.0.to_vec()]),
            Format::Tensors => tensor_parts(file),
            Format::Parquet => parquet_parts(file),
            Format::Zip => zip_parts(file),
        }
    }

    /// The file with these parts.
    pub fn whole(self, parts: &[Vec<u8>]) -> Vec<u8> {
        match self {
            Format::Plain => parts.concat(),
            Format::Json => sealed(parts.concat()),
            Format::LinesAndJson => {
                let json = parts[1..].concat();
                [&parts[0], &b"\n"[..], &sealed(json)].concat()
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
            Format::Zip => zip_file(parts).unwrap_or_else(|| parts.concat()),
        }
    }
}

/// Up to the end of the line before an empty one, and what stands behind that.
pub(crate) fn lines_and_json(file: &[u8]) -> (&[u8], &[u8]) {
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

fn zip_parts(file: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut archive = zip::ZipArchive::new(Cursor::new(file)).ok()?;
    let mut parts = Vec::new();
    for i in 0..archive.len() {
        let member = archive.by_index(i).ok()?;
        let name = member.name().as_bytes().to_vec();
        let mut content = Vec::new();
        member.take(MOST_UNPACKED).read_to_end(&mut content).ok()?;
        parts.extend([name, content]);
    }
    Some(parts)
}

fn zip_file(parts: &[Vec<u8>]) -> Option<Vec<u8>> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let stored =
        zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for pair in parts.chunks_exact(2) {
        let mut name = String::from_utf8_lossy(&pair[0]).into_owned();
        name.truncate(name.floor_char_boundary(LONGEST_NAME));
        writer.start_file(name, stored).ok()?;
        writer.write_all(&pair[1]).ok()?;
    }
    Some(writer.finish().ok()?.into_inner())
}
