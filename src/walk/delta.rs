//! Walk over `table_delta[]`.

use super::trace::{end, variant};
use crate::cursor::{Cursor, CursorError};
use crate::ship::protocol::WalkVariants;

type Result<T> = std::result::Result<T, CursorError>;

/// One table's changes: `table_delta_v0`.
pub struct Table<'a> {
    /// The table's name, such as `contract_row`.
    pub name: &'a str,
    /// Its rows.
    pub rows: Rows<'a>,
}

/// Rows still to be read.
#[derive(Clone)]
pub struct Rows<'a> {
    cursor: Cursor<'a>,
    left: u32,
}

/// One row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row<'a> {
    /// False: the row was removed, and `data` is what it was.
    pub present: bool,
    /// The row, packed as the variant its table's name stands for.
    pub data: &'a [u8],
}

/// Calls `each` with every table; `each` must return the rows it was given, read to their end.
pub fn tables<'a>(
    deltas: &'a [u8],
    variants: &WalkVariants,
    mut each: impl FnMut(Table<'a>) -> Result<Rows<'a>>,
) -> Result<()> {
    let mut cursor = Cursor::new(deltas);
    for _ in 0..cursor.count(3)? {
        variant(&mut cursor, variants.table_delta_v0, "table_delta")?;
        let at = cursor.at();
        let name = cursor.bytes()?;
        // It stands in events as it is.
        let plain = |&byte: &u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
        let (true, Ok(name)) = (name.iter().all(plain), std::str::from_utf8(name)) else {
            return Cursor::invalid(at, "a table's name is no plain text");
        };
        let left = cursor.count(2)?;
        let mut rows = each(Table { name, rows: Rows { cursor, left } })?;
        while rows.next()?.is_some() {}
        cursor = rows.cursor;
    }
    end(&cursor, "deltas")
}

// === impl Rows ===

impl<'a> Rows<'a> {
    /// `count` rows that start at byte `at` of the deltas.
    pub fn starting_at(deltas: &'a [u8], at: usize, count: u32) -> Rows<'a> {
        Rows { cursor: Cursor::starting_at(deltas, at), left: count }
    }

    /// The next row.
    #[inline]
    #[allow(clippy::should_implement_trait)] // An iterator of results would hide that an error ends it.
    pub fn next(&mut self) -> Result<Option<Row<'a>>> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        Ok(Some(Row { present: self.cursor.bool()?, data: self.cursor.bytes()? }))
    }

    /// Offset in the deltas of the next row.
    pub fn at(&self) -> usize {
        self.cursor.at()
    }
}
