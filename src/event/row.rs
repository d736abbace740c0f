//! Events of kind `delta`: rows of contracts.

use super::Block;
use super::action::write_name;
use super::decoded::{Subject, SubjectKind};
use super::sink::Sink;
use crate::out::Out;
use crate::plan::{RowRun, Table, TableKind};
use crate::resp::decimal;
use crate::walk::{ContractRow, Row, Rows};

impl Block {
    /// Writes the rows of a run that pass the filters.
    pub(super) fn write_rows(&self, run: &RowRun, sink: &mut Sink) {
        let Some(table) = self.plan.tables.get(run.table as usize) else { return };
        let mut rows = Rows::starting_at(&self.plan.deltas, run.at, run.rows);
        // The plan has walked the same rows: an error cannot come here.
        while let Ok(Some(row)) = rows.next() {
            match table.kind {
                TableKind::ContractRow => {
                    let Ok(fields) = ContractRow::read(row.data) else { return };
                    if self.filter.delta(fields.code, fields.scope, fields.table) {
                        self.write_contract_row(table, row, &fields, sink);
                    }
                }
                _ => self.write_native_row(table, row, sink),
            }
        }
    }

    fn write_contract_row(&self, table: &Table, row: Row<'_>, fields: &ContractRow<'_>, sink: &mut Sink) {
        sink.begin(&self.envelope.delta);
        let out = &mut sink.out;
        write_name(out, b"", fields.code);
        write_name(out, b":", fields.scope);
        write_name(out, b":", fields.table);
        out.push(b':');
        decimal(out, fields.primary_key);
        write_twin(table, row, out);
        sink.end_id();
        let out = &mut sink.out;
        out.append(&self.envelope.fields);
        write_name(out, b",\"code\":\"", fields.code);
        write_name(out, b"\",\"scope\":\"", fields.scope);
        write_name(out, b"\",\"table\":\"", fields.table);
        out.append(b"\",\"primary_key\":\"");
        decimal(out, fields.primary_key);
        write_name(out, b"\",\"payer\":\"", fields.payer);
        out.push(b'"');
        let subject =
            Subject { contract: fields.code, kind: SubjectKind::Row(fields.table), bytes: fields.value };
        let failure = self.style.write_row_value(subject, self.abis.get(&fields.code), out);
        write_present(row, out);
        sink.end(failure.as_ref());
    }
}

/// Marks a row that was removed and made again in the same block.
pub(super) fn write_twin(table: &Table, row: Row<'_>, out: &mut Out) {
    if row.present
        && !table.removed.is_empty()
        && table.kind.key(row.data).is_ok_and(|key| table.removed.contains(&key))
    {
        out.append(b":1");
    }
}

/// Closes the event.
pub(super) fn write_present(row: Row<'_>, out: &mut Out) {
    out.append(if row.present { b",\"present\":true}" } else { b",\"present\":false}" });
}
