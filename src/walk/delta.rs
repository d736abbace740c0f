//! Walk over `table_delta[]`.

use super::trace::{end, variant};
use crate::cursor::{Cursor, CursorError};
use crate::name::Name;
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

/// A row of `contract_row`: `contract_row_v0`.
pub struct ContractRow<'a> {
    /// The contract.
    pub code: Name,
    /// The scope within its table.
    pub scope: Name,
    /// The table.
    pub table: Name,
    /// The key within table and scope.
    pub primary_key: u64,
    /// Who pays for it.
    pub payer: Name,
    /// The row, packed as the contract's ABI says.
    pub value: &'a [u8],
}

/// A row of `account`: what `account_v0` says of an ABI.
pub struct AccountRow<'a> {
    /// The account.
    pub name: Name,
    /// Its packed ABI; empty for none.
    pub abi: &'a [u8],
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

// === impl ContractRow ===

impl<'a> ContractRow<'a> {
    /// Reads a row to its end.
    #[inline]
    pub fn read(row: &'a [u8]) -> Result<ContractRow<'a>> {
        let mut cursor = Cursor::new(row);
        // No other version is known: `ship::protocol` refuses a node that has one.
        variant(&mut cursor, 0, "contract_row")?;
        let row = ContractRow {
            code: cursor.name()?,
            scope: cursor.name()?,
            table: cursor.name()?,
            primary_key: cursor.u64()?,
            payer: cursor.name()?,
            value: cursor.bytes()?,
        };
        end(&cursor, "row")?;
        Ok(row)
    }
}

// === impl AccountRow ===

impl<'a> AccountRow<'a> {
    /// Reads a row to its end.
    pub fn read(row: &'a [u8]) -> Result<AccountRow<'a>> {
        let mut cursor = Cursor::new(row);
        variant(&mut cursor, 0, "account")?;
        let name = cursor.name()?;
        cursor.skip(4)?; // creation_date
        let abi = cursor.bytes()?;
        end(&cursor, "row")?;
        Ok(AccountRow { name, abi })
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_to_its_end_or_not_at_all() {
        let mut row = vec![0; 1 + 5 * 8];
        row[1..9].copy_from_slice(&Name::literal("eosio.token").0.to_le_bytes());
        row.extend_from_slice(&[2, 7, 8]);
        let read = ContractRow::read(&row).expect("a row");
        assert_eq!((read.code, read.value), (Name::literal("eosio.token"), &[7, 8][..]));
        for (change, part) in [
            (&row[..43], "2 bytes needed at byte 42, 1 left"),
            (&[&row[..], &[0]].concat()[..], "1 bytes behind the end of the row at byte 44"),
            (&[&[1], &row[1..]].concat()[..], "contract_row of unknown variant 1 at byte 0"),
        ] {
            let error = ContractRow::read(change).map(|row| row.code).expect_err("no row").to_string();
            assert_eq!(error, part);
        }
        let mut account = vec![0; 1 + 8 + 4];
        account.extend_from_slice(&[1, 9]);
        assert_eq!(AccountRow::read(&account).map(|row| row.abi), Ok(&[9][..]));
        assert!(AccountRow::read(&account[..14]).is_err());
    }
}
