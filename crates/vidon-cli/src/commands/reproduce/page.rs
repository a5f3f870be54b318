//! A page of headings, text, tables and figures, as Markdown and as HTML that needs no other file.

use std::path::{Path, PathBuf};

use vidon::files::{plain_file, write_file};
use vidon::input;

use crate::failure::Result;

/// A part of a page.
pub enum Block {
    Title(String),
    Heading(String),
    Text(String),
    /// A cell is some lines; where there are several, the first stands out.
    Table {
        head: Vec<String>,
        rows: Vec<Vec<Vec<String>>>,
    },
    /// A PNG, found from the folder of the page.
    Figure {
        file: PathBuf,
        words: String,
    },
}

/// Writes `<name>.md` and `<name>.html` into a folder.
pub fn write_page(folder: &Path, name: &str, blocks: &[Block]) -> Result<()> {
    let markdown: Vec<String> = blocks.iter().map(markdown).collect();
    let text = markdown.join("\n\n") + "\n";
    let page = plain_file(folder, format!("{name}.md"))?;
    write_file(&page, |out| out.write_all(text.as_bytes()))?;
    let mut pictures = Vec::new();
    for block in blocks {
        if let Block::Figure { file, .. } = block {
            pictures.push(base64(&input::read(&plain_file(folder, file)?)?));
        }
    }
    let page = plain_file(folder, format!("{name}.html"))?;
    write_file(&page, |out| {
        write!(out, "{HEAD}")?;
        let mut pictures = pictures.iter();
        for block in blocks {
            match block {
                Block::Figure { words, .. } => {
                    let data = pictures.next().expect("one for every figure");
                    let words = escaped(words);
                    writeln!(
                        out,
                        "<figure><img alt=\"{words}\" src=\"data:image/png;base64,{data}\"><figcaption>{words}</figcaption></figure>"
                    )?;
                }
                _ => writeln!(out, "{}", html(block))?,
            }
        }
        Ok(())
    })?;
    Ok(())
}

fn markdown(block: &Block) -> String {
    let line = |cells: &[String]| format!("| {} |", cells.join(" | "));
    match block {
        Block::Title(words) => format!("# {}", plain(words)),
        Block::Heading(words) => format!("## {}", plain(words)),
        Block::Text(words) => plain(words),
        Block::Figure { file, words } => {
            let words = plain(words);
            // Links have slashes on every system.
            let parts: Vec<_> = file.iter().map(|p| p.to_string_lossy()).collect();
            format!("![{words}]({})\n\n{words}", parts.join("/"))
        }
        Block::Table { head, rows } => {
            let rule = format!("|{}", "---|".repeat(head.len()));
            let rows = rows.iter().map(|row| {
                let cells: Vec<String> = row
                    .iter()
                    .map(|c| {
                        let cell: Vec<String> = c.iter().map(|l| plain(l)).collect();
                        lines(&cell, |first| format!("**{first}**"))
                    })
                    .collect();
                line(&cells)
            });
            let head: Vec<String> = head.iter().map(|h| plain(h)).collect();
            let all: Vec<String> = [line(&head), rule].into_iter().chain(rows).collect();
            all.join("\n")
        }
    }
}

fn html(block: &Block) -> String {
    match block {
        Block::Title(words) => format!("<h1>{}</h1>", escaped(words)),
        Block::Heading(words) => format!("<h2>{}</h2>", escaped(words)),
        Block::Text(words) => format!("<p>{}</p>", escaped(words)),
        Block::Figure { .. } => unreachable!("figures need their bytes"),
        Block::Table { head, rows } => {
            let head: String = head
                .iter()
                .map(|h| format!("<th>{}</th>", escaped(h)))
                .collect();
            let cell = |cell: &Vec<String>| {
                let cell: Vec<String> = cell.iter().map(|l| escaped(l)).collect();
                let text = lines(&cell, |first| format!("<strong>{first}</strong>"));
                format!("<td>{text}</td>")
            };
            let rows = rows.iter().map(|row| {
                let cells: String = row.iter().map(cell).collect();
                format!("<tr>{cells}</tr>\n")
            });
            let rows: String = rows.collect();
            format!("<div class=\"wide\"><table>\n<tr>{head}</tr>\n{rows}</table></div>")
        }
    }
}

fn lines(cell: &[String], stand_out: impl Fn(&str) -> String) -> String {
    match cell {
        [first, rest @ ..] if !rest.is_empty() => {
            format!("{}<br>{}", stand_out(first), rest.join("<br>"))
        }
        _ => cell.concat(),
    }
}

/// Words as Markdown shows them and no others: a run's folder may come from anywhere.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    for c in escaped(text).chars() {
        match c {
            '|' | '[' | ']' | '`' | '\\' => plain += &format!("&#{};", c as u32),
            c if c.is_control() => plain.push(' '),
            c => plain.push(c),
        }
    }
    plain
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

/// Bytes as the text that a page can carry.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let mut number = [0; 4];
        number[1..1 + three.len()].copy_from_slice(three);
        let number = u32::from_be_bytes(number);
        for place in 0..4 {
            let digit = DIGITS[(number >> (18 - 6 * place)) as usize & 63];
            text.push(match place <= three.len() {
                true => digit as char,
                false => '=',
            });
        }
    }
    text
}

const HEAD: &str = r#"<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>vidon: reproduction</title>
<style>
:root { color-scheme: light dark; --line: #ccc; --faint: #f4f4f4; }
@media (prefers-color-scheme: dark) { :root { --line: #555; --faint: #2a2a2a; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { border: 1px solid var(--line); padding: .4rem .8rem; text-align: left; vertical-align: top; }
th { background: var(--faint); }
figure { margin: 1.5rem 0; }
img { max-width: 100%; max-height: 90vh; background: white; }
figcaption { opacity: .75; }
</style>
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_base64() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&[255, 254, 253]), "//79");
    }

    #[test]
    fn words_of_a_run_stay_words() {
        let machine = "<script>x</script> | [a](b)\n# c";
        for page in [markdown, html] {
            let page = page(&Block::Text(machine.into()));
            assert!(!page.contains("<script>"), "{page}");
        }
        let page = markdown(&Block::Text(machine.into()));
        assert!(!page.contains(['|', '[', '\n']), "{page}");
    }

    #[test]
    fn a_table_is_the_same_in_both_tongues() {
        let table = Block::Table {
            head: vec!["a".into(), "b".into()],
            rows: vec![vec![vec!["x".into()], vec!["1 < 2".into(), "so".into()]]],
        };
        assert_eq!(
            markdown(&table),
            "| a | b |\n|---|---|\n| x | **1 &lt; 2**<br>so |"
        );
        let html = html(&table);
        assert!(
            html.contains("<td>x</td><td><strong>1 &lt; 2</strong><br>so</td>"),
            "{html}"
        );
    }
}
