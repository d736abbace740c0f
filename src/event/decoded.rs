//! What the ABI makes of bytes, and what is said where it makes nothing of them.

use super::Style;
use crate::abi::{self, Abi, Decoded, TypeId};
use crate::hex;
use crate::history::{InForce, Says, Version};
use crate::name::Name;
use crate::out::Out;
use crate::resp::decimal;

/// Why bytes could not be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The contract is known to have no ABI.
    NoAbi,
    /// No ABI of the contract is known here.
    AbiUnknown,
    /// What was set as the contract's ABI is none.
    BadAbi,
    /// The ABI says nothing of this action or table.
    UnknownType,
    /// The bytes end too early.
    Truncated,
    /// The bytes cannot mean this.
    Invalid,
}

/// Bytes that could not be decoded.
pub(super) struct Failure<'a> {
    pub(super) reason: Reason,
    /// Contract, type, field path, offset.
    pub(super) message: String,
    pub(super) contract: Name,
    /// Empty when not known.
    pub(super) type_name: &'a str,
    pub(super) raw: &'a [u8],
    /// Block of the ABI that failed.
    pub(super) abi_block: Option<u32>,
    /// Whether it goes to the dead letters.
    pub(super) dead_letter: bool,
}

/// What is to be decoded.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) contract: Name,
    pub(super) kind: SubjectKind,
    pub(super) bytes: &'a [u8],
}

/// Whose type is asked of the ABI.
#[derive(Clone, Copy)]
pub(super) enum SubjectKind {
    Action(Name),
    Row(Name),
}

// === impl Reason ===

impl Reason {
    /// All of them, each at the place of its number.
    pub const ALL: [Reason; 6] = [
        Reason::NoAbi,
        Reason::AbiUnknown,
        Reason::BadAbi,
        Reason::UnknownType,
        Reason::Truncated,
        Reason::Invalid,
    ];

    /// As in `decode_error` and in dead letters.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::NoAbi => "no_abi",
            Reason::AbiUnknown => "abi_unknown",
            Reason::BadAbi => "bad_abi",
            Reason::UnknownType => "unknown_type",
            Reason::Truncated => "truncated",
            Reason::Invalid => "invalid",
        }
    }
}

// === impl Style ===

impl Style {
    /// Writes an action's arguments and what belongs to them, from `"data":` on.
    #[inline]
    pub(super) fn write_action_data<'a>(
        &self,
        subject: Subject<'a>,
        version: Option<&'a Version>,
        out: &mut Out,
    ) -> Option<Failure<'a>> {
        out.append(b",\"data\":");
        match self.decode(subject, version, out) {
            Ok(decoded) => {
                write_rest(subject.bytes, decoded, out);
                None
            }
            Err(failure) => Some(write_failure(failure, out)),
        }
    }

    /// Writes a row's value and what belongs to it, from `"value":` on. The newest version is
    /// tried first, then the one before: rows are not rewritten when the ABI changes.
    #[inline]
    pub(super) fn write_row_value<'a>(
        &self,
        subject: Subject<'a>,
        in_force: Option<&'a InForce>,
        out: &mut Out,
    ) -> Option<Failure<'a>> {
        out.append(b",\"value\":");
        let start = out.len();
        let newest = self.decode(subject, in_force.and_then(InForce::newest), out);
        if let Ok(decoded) = newest
            && decoded.consumed == subject.bytes.len()
        {
            write_rest(subject.bytes, decoded, out);
            return None;
        }
        self.write_with_previous(subject, in_force, newest, start, out)
    }

    #[cold]
    fn write_with_previous<'a>(
        &self,
        subject: Subject<'a>,
        in_force: Option<&'a InForce>,
        newest: Result<Decoded, Failure<'a>>,
        start: usize,
        out: &mut Out,
    ) -> Option<Failure<'a>> {
        if let Some(previous) = in_force.and_then(InForce::previous) {
            let end = out.len();
            if let Ok(decoded) = self.decode(subject, Some(previous), out) {
                if newest.is_err() || decoded.consumed == subject.bytes.len() {
                    out.replace(start..end, b"");
                    write_rest(subject.bytes, decoded, out);
                    out.append(b",\"abi_block\":");
                    decimal(out, previous.since.block.into());
                    return None;
                }
                out.truncate(end);
            }
        }
        match newest {
            Ok(decoded) => {
                write_rest(subject.bytes, decoded, out);
                None
            }
            Err(failure) => Some(write_failure(failure, out)),
        }
    }

    /// Writes the value alone; nothing where that fails.
    #[inline]
    fn decode<'a>(
        &self,
        subject: Subject<'a>,
        version: Option<&'a Version>,
        out: &mut Out,
    ) -> Result<Decoded, Failure<'a>> {
        let Some(version) = version else {
            return Err(self.failure(
                subject,
                None,
                Reason::AbiUnknown,
                "",
                "its ABI is not in the history".into(),
            ));
        };
        let abi = match version.says(self.deserializer) {
            Says::Abi(abi) => abi,
            Says::None => {
                return Err(self.failure(
                    subject,
                    Some(version),
                    Reason::NoAbi,
                    "",
                    "the contract has no ABI".into(),
                ));
            }
            Says::Bad(bad) => {
                return Err(self.failure(subject, Some(version), Reason::BadAbi, "", bad.to_string()));
            }
        };
        let Some(id) = subject.kind.type_in(abi) else {
            let message = "the ABI does not name it".into();
            return Err(self.failure(subject, Some(version), Reason::UnknownType, "", message));
        };
        abi.decode(id, subject.bytes, out).map_err(|error| {
            let reason = match error.reason {
                abi::Reason::Truncated => Reason::Truncated,
                abi::Reason::Invalid => Reason::Invalid,
            };
            self.failure(subject, Some(version), reason, abi.type_name(id), error.to_string())
        })
    }

    #[cold]
    fn failure<'a>(
        &self,
        subject: Subject<'a>,
        version: Option<&Version>,
        reason: Reason,
        type_name: &'a str,
        what: String,
    ) -> Failure<'a> {
        let (kind, name) = match subject.kind {
            SubjectKind::Action(name) => ("action", name),
            SubjectKind::Row(name) => ("table", name),
        };
        let of_type = if type_name.is_empty() { String::new() } else { format!(" (type {type_name})") };
        Failure {
            reason,
            message: format!("{} {kind} {name}{of_type}: {what}", subject.contract),
            contract: subject.contract,
            type_name,
            raw: subject.bytes,
            abi_block: version.map(|version| version.since.block),
            dead_letter: reason != Reason::NoAbi || self.no_abi_dead_letters,
        }
    }
}

impl SubjectKind {
    fn type_in(self, abi: &Abi) -> Option<TypeId> {
        match self {
            SubjectKind::Action(name) => abi.action_type(name),
            SubjectKind::Row(name) => abi.table_type(name),
        }
    }
}

/// Adds the bytes behind the value, and all of them where the value shows only part of them.
#[inline]
fn write_rest(bytes: &[u8], decoded: Decoded, out: &mut Out) {
    if let Some(trailing) = bytes.get(decoded.consumed..)
        && !trailing.is_empty()
    {
        out.append(b",\"trailing\":\"");
        hex::write_lower(out, trailing);
        out.push(b'"');
    }
    if decoded.repaired {
        write_raw(bytes, out);
    }
}

fn write_raw(bytes: &[u8], out: &mut Out) {
    out.append(b",\"raw\":\"");
    hex::write_lower(out, bytes);
    out.push(b'"');
}

/// Writes `{}` for the value, the bytes, and why.
#[cold]
pub(super) fn write_failure<'a>(failure: Failure<'a>, out: &mut Out) -> Failure<'a> {
    out.append(b"{}");
    write_raw(failure.raw, out);
    out.append(b",\"decode_error\":{\"reason\":\"");
    out.append(failure.reason.as_str().as_bytes());
    out.append(b"\",\"message\":");
    // Writing text to a Vec cannot fail.
    let _ = serde_json::to_writer(&mut *out, &failure.message);
    out.push(b'}');
    failure
}
