//! What commands print to stdout: tables for people, JSON for programs.

use std::io::{self, Write};

use comfy_table::{CellAlignment, ContentArrangement, presets};
use rustix::termios::tcgetwinsize;
use serde::Serialize;

/// A table of plain text: a line of headings, then a line a row, columns two spaces apart.
pub(super) struct Table {
    inner: comfy_table::Table,
}

/// A column, by its heading.
#[derive(Clone, Copy)]
pub(super) enum Column {
    /// Begins at the left.
    Text(&'static str),
    /// Ends at the right.
    Number(&'static str),
}

// === impl Table ===

impl Table {
    /// A table without rows.
    pub(super) fn new(columns: &[Column]) -> Table {
        let mut inner = comfy_table::Table::new();
        inner.load_style(presets::NOTHING);
        inner.set_header(columns.iter().map(|column| match column {
            Column::Text(heading) | Column::Number(heading) => *heading,
        }));
        for (column, of) in inner.column_iter_mut().zip(columns) {
            column.set_padding((0, 2));
            if let Column::Number(_) = of {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        Table { inner }
    }

    /// Adds a row: one text for each column.
    pub(super) fn row<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.inner.add_row(cells.into_iter().map(|cell| printable(cell.as_ref())));
    }

    /// Whether there are no rows.
    pub(super) fn is_empty(&self) -> bool {
        self.inner.is_empty()
    }

    /// Writes it to stdout. What is too wide for a terminal is broken into several lines inside its column; where there is
    /// no terminal, lines are as long as they must be.
    pub(super) fn print(mut self) -> io::Result<()> {
        if let Some(width) = terminal_width() {
            self.inner.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        }
        let mut out = io::stdout().lock();
        for line in self.inner.lines() {
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Columns of the terminal that stdout is; `None` if it is none.
fn terminal_width() -> Option<u16> {
    tcgetwinsize(io::stdout()).ok().map(|size| size.ws_col).filter(|columns| *columns > 0)
}

/// Names and messages come from outside: what could move a terminal's cursor is shown escaped.
pub(super) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// A number with its thousands set apart.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// A number of bytes in the unit that suits it.
pub(super) fn bytes(count: u64) -> String {
    match count {
        0..10_000 => format!("{count} bytes"),
        10_000..1_000_000 => format!("{:.1} kB", count as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", count as f64 / 1e6),
        _ => format!("{:.1} GB", count as f64 / 1e9),
    }
}

/// Writes one JSON document to stdout, for `--json`.
pub(super) fn print_json(document: &impl Serialize) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, document)?;
    writeln!(out)
}

/// Writes one line of NDJSON to stdout, for `--json` of lists that can be long.
pub(super) fn print_json_line(document: &impl Serialize) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, document)?;
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_at_the_right_and_texts_begin_at_the_left() {
        let mut table =
            Table::new(&[Column::Text("contract"), Column::Number("versions"), Column::Text("last")]);
        assert!(table.is_empty());
        table.row(["eosio", "7", "a"]);
        table.row(["eosio.token", "12345", "b"]);
        let lines: Vec<String> = table.inner.lines().map(|line| line.trim_end().to_owned()).collect();
        assert_eq!(
            lines,
            ["contract     versions  last", "eosio               7  a", "eosio.token     12345  b"]
        );
    }

    #[test]
    fn large_numbers_are_told_in_groups_and_units() {
        let cases = [(0, "0"), (999, "999"), (1000, "1,000"), (12_345_678, "12,345,678")];
        for (number, text) in cases {
            assert_eq!(grouped(number), text);
        }
        let cases = [(9_999, "9999 bytes"), (12_340, "12.3 kB"), (5_200_000, "5.2 MB"), (1 << 31, "2.1 GB")];
        for (count, text) in cases {
            assert_eq!(bytes(count), text);
        }
    }

    #[test]
    fn what_would_move_the_cursor_is_escaped() {
        assert_eq!(printable("a\u{1b}[2Jb\nä"), "a\\u{1b}[2Jb\\nä");
    }
}
