//! Events of kind `native-delta`: rows of the node's own tables.

use crate::out::Out;
use sha2::{Digest, Sha256};

use super::action::write_name;
use super::decoded::{Failure, Reason, write_failure};
use super::row::{write_present, write_twin};
use super::sink::Sink;
use super::{Block, RowType};
use crate::abi::{self, Deserializer, block_timestamp};
use crate::cursor::{Cursor, CursorError};
use crate::hex;
use crate::name::Name;
use crate::plan::{Table, TableKind};
use crate::resp::decimal;
use crate::walk::Row;

impl Block {
    pub(super) fn write_native_row(&self, table: &Table, row: Row<'_>, sink: &mut Sink) {
        let mut cursor = Cursor::new(row.data);
        // The plan has read as far as the row's key.
        let Ok(variant) = cursor.varuint32() else { return };
        let body = &row.data[cursor.at()..];
        let mut key = Out::with_room(256);
        if write_lookup_key(table, &mut cursor, &mut key).is_err() {
            return;
        }
        let row_type = self.ship.tables.get(&table.name).and_then(|types| types.get(variant as usize));

        sink.begin(&self.envelope.native);
        let out = &mut sink.out;
        out.append(table.name.as_bytes());
        out.push(b':');
        out.append(&key);
        write_twin(table, row, out);
        sink.end_id();
        let out = &mut sink.out;
        out.append(&self.envelope.fields);
        out.append(b",\"table\":\"");
        out.append(table.name.as_bytes());
        out.append(b"\",\"lookup_key\":\"");
        out.append(&key);
        out.append(b"\",\"version\":\"");
        out.append(row_type.map_or(&b""[..], |row_type| row_type.version.as_bytes()));
        out.append(b"\",\"data\":");
        let failure = self.write_native_data(table, row_type, body, out);
        write_present(row, out);
        sink.end(failure.as_ref());
    }

    fn write_native_data<'a>(
        &self,
        table: &Table,
        row_type: Option<&'a RowType>,
        body: &'a [u8],
        out: &mut Out,
    ) -> Option<Failure<'a>> {
        let version = row_type.map_or("", |row_type| row_type.version.as_str());
        if !self.style.code_bytes {
            let start = out.len();
            let written = match version {
                "account_v0" => write_account(body, out),
                "code_v0" => write_code(body, self.style.deserializer, out),
                _ => Ok(false),
            };
            match written {
                Ok(true) => return None,
                // What is cut short is left to the decoder, whose message says more.
                Ok(false) | Err(_) => out.truncate(start),
            }
        }
        let (reason, message) = match row_type {
            None => (Reason::UnknownType, format!("{}: a row of an unknown version", table.name)),
            Some(row_type) => match self.ship.abi.decode(row_type.id, body, out) {
                Ok(decoded) if decoded.consumed == body.len() => return None,
                Ok(decoded) => {
                    out.append(b",\"trailing\":\"");
                    hex::write_lower(out, &body[decoded.consumed..]);
                    out.push(b'"');
                    return None;
                }
                Err(error) => {
                    let reason = match error.reason {
                        abi::Reason::Truncated => Reason::Truncated,
                        abi::Reason::Invalid => Reason::Invalid,
                    };
                    (reason, format!("{} (type {version}): {error}", table.name))
                }
            },
        };
        let failure = Failure {
            reason,
            message,
            contract: Name::default(),
            type_name: version,
            raw: body,
            abi_block: None,
            dead_letter: true,
        };
        Some(write_failure(failure, out))
    }
}

/// Writes what names the row, from the fields at its start.
fn write_lookup_key(table: &Table, cursor: &mut Cursor<'_>, out: &mut Out) -> Result<(), CursorError> {
    match table.kind {
        TableKind::Names(count) => write_names(count, cursor, out)?,
        TableKind::ContractIndex | TableKind::ContractRow => {
            write_names(3, cursor, out)?;
            out.push(b':');
            decimal(out, cursor.u64()?);
        }
        TableKind::Code => {
            cursor.skip(2)?; // vm_type, vm_version
            hex::write_lower(out, cursor.take(32)?);
        }
        TableKind::GeneratedTransaction => {
            write_names(1, cursor, out)?;
            out.push(b':');
            let (low, high) = (cursor.u64()?, cursor.u64()?);
            let id = u128::from(high) << 64 | u128::from(low);
            out.append(itoa::Buffer::new().format(id).as_bytes());
        }
        TableKind::GlobalProperty => out.append(b"global"),
        TableKind::Singleton => out.append(table.name.as_bytes()),
    }
    Ok(())
}

fn write_names(count: u8, cursor: &mut Cursor<'_>, out: &mut Out) -> Result<(), CursorError> {
    for i in 0..count {
        write_name(out, if i == 0 { b"" } else { b":" }, cursor.name()?);
    }
    Ok(())
}

/// `account_v0` with its ABI's size and hash; false where it has not just these fields.
fn write_account(body: &[u8], out: &mut Out) -> Result<bool, CursorError> {
    let mut cursor = Cursor::new(body);
    write_name(out, b"{\"name\":\"", cursor.name()?);
    out.append(b"\",\"creation_date\":");
    out.append(&block_timestamp(cursor.u32()?));
    out.append(b",\"abi\":");
    write_size_and_hash(cursor.bytes()?, out);
    out.push(b'}');
    Ok(cursor.left() == 0)
}

/// `code_v0` with its code's size and hash; false where it has not just these fields.
fn write_code(body: &[u8], style: Deserializer, out: &mut Out) -> Result<bool, CursorError> {
    let mut cursor = Cursor::new(body);
    out.append(b"{\"vm_type\":");
    decimal(out, cursor.u8()?.into());
    out.append(b",\"vm_version\":");
    decimal(out, cursor.u8()?.into());
    out.append(b",\"code_hash\":\"");
    let hash = cursor.take(32)?;
    match style {
        Deserializer::Wharfkit => hex::write_lower(out, hash),
        Deserializer::Compiled | Deserializer::Abieos => hex::write_upper(out, hash),
    }
    out.append(b"\",\"code\":");
    write_size_and_hash(cursor.bytes()?, out);
    out.push(b'}');
    Ok(cursor.left() == 0)
}

fn write_size_and_hash(bytes: &[u8], out: &mut Out) {
    out.append(b"{\"size\":");
    decimal(out, bytes.len() as u64);
    out.append(b",\"sha256\":\"");
    hex::write_lower(out, &Sha256::digest(bytes));
    out.append(b"\"}");
}
