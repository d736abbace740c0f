//! Which table rows are events, and the accounts' ABIs among them.

use rustc_hash::FxHashSet;

use super::{EVENT_BYTES, Plan, RowRun, Selection, Table};
use crate::cursor::{Cursor, CursorError};
use crate::name::Name;
use crate::ship::protocol::Protocol;
use crate::walk::{AccountRow, ContractRow, Row, Rows, tables};

/// The SHiP tables, by what the start of their rows says about which row it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableKind {
    /// `contract_row`: code, scope, table, primary key; the rows of contracts.
    ContractRow,
    /// `contract_index…`: the same four.
    ContractIndex,
    /// So many names (`account`: 1, `permission`: 2, `contract_table`: 3).
    Names(u8),
    /// `code`: two bytes of virtual machine, then the code's hash.
    Code,
    /// `generated_transaction`: the sender, and its 128-bit id.
    GeneratedTransaction,
    /// `global_property`: its one row is called `global`.
    GlobalProperty,
    /// A table of one row, called by the table's name.
    Singleton,
}

/// The bytes at the start of a row that tell it from the others of its table, and zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RowKey([u8; 40]);

// === impl TableKind ===

impl TableKind {
    /// The kind of the SHiP table of that name; one that is not known has rows named by the table alone.
    pub fn of(table: &str) -> TableKind {
        match table {
            "contract_row" => TableKind::ContractRow,
            "contract_index64"
            | "contract_index128"
            | "contract_index256"
            | "contract_index_double"
            | "contract_index_long_double" => TableKind::ContractIndex,
            "account" | "account_metadata" | "resource_limits" | "resource_usage" => TableKind::Names(1),
            "permission" => TableKind::Names(2),
            "permission_link" | "contract_table" => TableKind::Names(3),
            "code" => TableKind::Code,
            "generated_transaction" => TableKind::GeneratedTransaction,
            "global_property" => TableKind::GlobalProperty,
            _ => TableKind::Singleton,
        }
    }

    /// How many bytes behind the row's variant index tell which row it is.
    fn key_len(self) -> usize {
        match self {
            TableKind::ContractRow | TableKind::ContractIndex => 32,
            TableKind::Names(n) => 8 * n as usize,
            TableKind::Code => 2 + 32,
            TableKind::GeneratedTransaction => 8 + 16,
            TableKind::GlobalProperty | TableKind::Singleton => 0,
        }
    }

    /// Whether the row is long enough.
    #[inline]
    fn check(self, row: &[u8]) -> Result<(), CursorError> {
        let mut cursor = Cursor::new(row);
        cursor.varuint32()?;
        cursor.skip(self.key_len() as u64)
    }

    /// What tells which row it is.
    pub fn key(self, row: &[u8]) -> Result<RowKey, CursorError> {
        let mut cursor = Cursor::new(row);
        cursor.varuint32()?;
        let bytes = cursor.take(self.key_len() as u64)?;
        let mut padded = [0; 40];
        padded[..bytes.len()].copy_from_slice(bytes);
        Ok(RowKey(padded))
    }
}

impl Plan {
    /// Notes the rows to publish: those of contracts first, each run with the bytes it holds.
    pub(super) fn add_rows(
        &mut self,
        protocol: &Protocol,
        selection: &Selection,
        deltas: &[u8],
    ) -> Result<Vec<(RowRun, usize)>, CursorError> {
        let mut of_contracts = Vec::new();
        let mut native = Vec::new();
        tables(deltas, &protocol.walk, |table| {
            let kind = TableKind::of(table.name);
            let index = self.tables.len() as u32;
            let mut removed: FxHashSet<RowKey> = FxHashSet::default();
            let rows = if kind == TableKind::ContractRow {
                let out = selection.deltas.then_some(&mut of_contracts);
                self.contract_rows(selection, Runs::new(index, selection, table.rows, out), &mut removed)?
            } else {
                let wanted = selection.native_deltas && selection.filter.native_delta(table.name);
                let runs = Runs::new(index, selection, table.rows, wanted.then_some(&mut native));
                self.native_rows(kind, table.name == "account", runs, &mut removed)?
            };
            self.tables.push(Table { kind, name: table.name.to_owned(), removed });
            Ok(rows)
        })?;
        of_contracts.append(&mut native);
        Ok(of_contracts)
    }

    fn contract_rows<'a>(
        &mut self,
        selection: &Selection,
        mut runs: Runs<'a, '_>,
        removed: &mut FxHashSet<RowKey>,
    ) -> Result<Rows<'a>, CursorError> {
        // Rows of one contract mostly stand together.
        let mut together: Option<(Name, u32)> = None;
        while let Some((at, row)) = runs.next()? {
            let ContractRow { code, scope, table, .. } =
                ContractRow::read(row.data).map_err(|e| in_row(at, &e))?;
            if runs.out.is_none() || !selection.filter.delta(code, scope, table) {
                continue;
            }
            runs.entry();
            if !row.present {
                removed.insert(TableKind::ContractRow.key(row.data)?);
            }
            match &mut together {
                Some((of, count)) if *of == code => *count += 1,
                _ => {
                    if let Some((of, count)) = together.replace((code, 1)) {
                        self.contract(of).has_rows(count);
                    }
                }
            }
        }
        if let Some((of, count)) = together {
            self.contract(of).has_rows(count);
        }
        Ok(runs.finish())
    }

    fn native_rows<'a>(
        &mut self,
        kind: TableKind,
        accounts: bool,
        mut runs: Runs<'a, '_>,
        removed: &mut FxHashSet<RowKey>,
    ) -> Result<Rows<'a>, CursorError> {
        while let Some((at, row)) = runs.next()? {
            kind.check(row.data).map_err(|e| in_row(at, &e))?;
            if accounts && row.present {
                let AccountRow { name, abi } = AccountRow::read(row.data).map_err(|e| in_row(at, &e))?;
                // It ends the row.
                let end = runs.rows.at();
                self.account_rows.push((name, end - abi.len()..end));
            }
            if runs.out.is_none() {
                continue;
            }
            runs.entry();
            if !row.present {
                removed.insert(kind.key(row.data)?);
            }
        }
        Ok(runs.finish())
    }
}

#[cold]
fn in_row(at: usize, error: &CursorError) -> CursorError {
    CursorError::Invalid { at, what: format!("a row that does not read ({error})") }
}

/// Reads a table's rows and cuts them into runs of about one part's bytes.
struct Runs<'a, 'o> {
    rows: Rows<'a>,
    out: Option<&'o mut Vec<(RowRun, usize)>>,
    limit: usize,
    open: RowRun,
}

impl<'a, 'o> Runs<'a, 'o> {
    fn new(
        table: u32,
        selection: &Selection,
        rows: Rows<'a>,
        out: Option<&'o mut Vec<(RowRun, usize)>>,
    ) -> Runs<'a, 'o> {
        let open = RowRun { table, at: rows.at(), rows: 0, entries: 0 };
        Runs { rows, out, limit: selection.part_bytes, open }
    }

    /// The next row and its offset.
    fn next(&mut self) -> Result<Option<(usize, Row<'a>)>, CursorError> {
        let at = self.rows.at();
        if self.open.entries > 0 && self.bytes(at) > self.limit {
            self.close(at);
        }
        let row = self.rows.next()?;
        self.open.rows += u32::from(row.is_some());
        Ok(row.map(|row| (at, row)))
    }

    /// Counts the row read last as an event.
    fn entry(&mut self) {
        self.open.entries += 1;
    }

    /// What the open run is made of, if it ends at `at`.
    fn bytes(&self, at: usize) -> usize {
        at - self.open.at + self.open.entries as usize * EVENT_BYTES
    }

    fn close(&mut self, at: usize) {
        let bytes = self.bytes(at);
        let table = self.open.table;
        let run = std::mem::replace(&mut self.open, RowRun { table, at, rows: 0, entries: 0 });
        if let Some(out) = &mut self.out
            && run.entries > 0
        {
            out.push((run, bytes));
        }
    }

    fn finish(mut self) -> Rows<'a> {
        self.close(self.rows.at());
        self.rows
    }
}
