//! Decoding an event anew whose data could not be decoded when its block was published: the bytes are in the event itself.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Style;
use super::decoded::{Failure, Subject, SubjectKind};
use crate::block::Checksum;
use crate::hex;
use crate::history::{InForce, Version};
use crate::name::Name;
use crate::out::Out;
use crate::plan::Selection;

/// Stands last in an event that is published again.
pub const REPLAYED: &str = ",\"replayed\":true}";

/// An event taken apart.
pub struct Past<'a> {
    /// Its JSON.
    text: &'a str,
    /// Its fields.
    fields: Fields<'a>,
    /// What its block says of it, and what there is to decode.
    what: What,
}

/// The fields of an event that are needed here, of whatever kind.
#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    event_id: Cow<'a, str>,
    #[serde(borrow)]
    chain_id: Cow<'a, str>,
    #[serde(default)]
    block_num: u32,
    #[serde(borrow, default)]
    block_id: Cow<'a, str>,
    #[serde(borrow, default)]
    account: Cow<'a, str>,
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    receiver: Cow<'a, str>,
    #[serde(borrow, default)]
    notified: Vec<Cow<'a, str>>,
    #[serde(borrow, default)]
    global_sequence: Cow<'a, str>,
    #[serde(borrow, default)]
    code: Cow<'a, str>,
    #[serde(borrow, default)]
    scope: Cow<'a, str>,
    #[serde(borrow, default)]
    table: Cow<'a, str>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    value: Option<&'a RawValue>,
    #[serde(borrow)]
    raw: Option<Cow<'a, str>>,
    #[serde(borrow)]
    decode_error: Option<&'a RawValue>,
    #[serde(borrow)]
    return_value_raw: Option<&'a RawValue>,
    #[serde(default)]
    replayed: bool,
}

/// What an event is about.
enum What {
    Action {
        account: Name,
        name: Name,
        receiver: Name,
        notified: Vec<Name>,
        global_sequence: u64,
    },
    Row {
        code: Name,
        scope: Name,
        table: Name,
    },
    Native,
    /// `fork` or `block`.
    Control,
}

/// Why an event cannot be taken apart.
#[derive(Debug, thiserror::Error)]
pub enum PastError {
    /// It is no event of this program's.
    #[error("it holds no event as this program writes them: {0}")]
    Foreign(String),
    /// It is of another chain.
    #[error("its event is of chain {0}")]
    OtherChain(String),
}

/// Why an event cannot be decoded now either.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StillUndecoded {
    /// As in `decode_error`.
    pub reason: &'static str,
    /// What and where.
    pub message: String,
    /// Block of the ABI that failed, if there is one.
    pub abi_block: Option<u32>,
}

// === impl Past ===

impl<'a> Past<'a> {
    /// Reads an event of that chain.
    pub fn read(text: &'a str, chain_id: &Checksum) -> Result<Past<'a>, PastError> {
        let fields: Fields<'a> =
            serde_json::from_str(text).map_err(|error| PastError::Foreign(error.to_string()))?;
        if fields.chain_id != chain_id.to_string() {
            return Err(PastError::OtherChain(fields.chain_id.into_owned()));
        }
        let what = match &*fields.kind {
            "action" => What::Action {
                account: name(&fields.account)?,
                name: name(&fields.name)?,
                receiver: name(&fields.receiver)?,
                notified: fields.notified.iter().map(|notified| name(notified)).collect::<Result<_, _>>()?,
                global_sequence: fields
                    .global_sequence
                    .parse()
                    .map_err(|_| PastError::Foreign("`global_sequence` is no number".into()))?,
            },
            "delta" => What::Row {
                code: name(&fields.code)?,
                scope: name(&fields.scope)?,
                table: name(&fields.table)?,
            },
            "native-delta" => What::Native,
            "fork" | "block" => What::Control,
            other => return Err(PastError::Foreign(format!("`{other}` is no kind of event"))),
        };
        Ok(Past { text, fields, what })
    }

    /// Its kind.
    pub fn kind(&self) -> &str {
        &self.fields.kind
    }

    /// Its id.
    pub fn event_id(&self) -> &str {
        &self.fields.event_id
    }

    /// Its block's number; 0 for a `fork`.
    pub fn block_num(&self) -> u32 {
        self.fields.block_num
    }

    /// Its block's id.
    pub fn block_id(&self) -> &str {
        &self.fields.block_id
    }

    /// The contract whose ABI it is decoded with.
    pub fn contract(&self) -> Option<Name> {
        match self.what {
            What::Action { account, .. } => Some(account),
            What::Row { code, .. } => Some(code),
            What::Native | What::Control => None,
        }
    }

    /// The action or table.
    pub fn subject(&self) -> &str {
        if self.fields.name.is_empty() { &self.fields.table } else { &self.fields.name }
    }

    /// Whether it is a `fork` or `block` event: those say where in the stream something happened, and mean nothing elsewhere.
    pub fn is_control(&self) -> bool {
        matches!(self.what, What::Control)
    }

    /// Whether its data was not decoded.
    pub fn is_undecoded(&self) -> bool {
        self.fields.decode_error.is_some()
    }

    /// Whether it would be published with these settings.
    pub fn passes(&self, selection: &Selection) -> bool {
        let filter = &selection.filter;
        match &self.what {
            What::Action { account, name, receiver, notified, .. } => {
                selection.actions && filter.action(*account, *name, *receiver, notified)
            }
            What::Row { code, scope, table } => selection.deltas && filter.delta(*code, *scope, *table),
            What::Native => selection.native_deltas && filter.native_delta(&self.fields.table),
            What::Control => true,
        }
    }

    /// The version of the ABI that it is decoded with, as far as that is known before decoding: for an action the one in
    /// force when it ran, for a row the one at its block's end.
    pub fn version<'v>(&self, in_force: &'v InForce) -> Option<&'v Version> {
        match self.what {
            What::Action { global_sequence, .. } => in_force.at(global_sequence),
            _ => in_force.newest(),
        }
    }

    /// The same event as it was published, with `replayed` at its end.
    pub fn as_it_is(&self) -> String {
        if self.fields.replayed {
            return self.text.to_owned();
        }
        let end = self.text.trim_end().len() - 1;
        format!("{}{REPLAYED}", &self.text[..end])
    }

    /// The event as it is written now, with `replayed` at its end, where its data can be decoded with these ABIs.
    pub fn decode(&self, style: &Style, in_force: &InForce) -> Result<String, Undecodable> {
        let bytes = self.bytes()?;
        let mut out = Out::with_room(self.text.len() + 256);
        let failure = match self.what {
            What::Action { account, name, global_sequence, .. } => {
                let version = in_force.at(global_sequence);
                let (before, after) = self.around(self.fields.data, "data")?;
                let subject = Subject { contract: account, kind: SubjectKind::Action(name), bytes: &bytes };
                out.append(before.as_bytes());
                let failure = style.write_action_data(subject, version, &mut out);
                match self.returned()? {
                    // It stands last.
                    Some((at, returned)) if failure.is_none() => {
                        let until = at.checked_sub(self.text.len() - after.len());
                        let kept = until.and_then(|until| after.get(..until));
                        out.append(kept.ok_or_else(misplaced)?.as_bytes());
                        style.write_return_value(name, &returned, version, &mut out);
                        out.push(b'}');
                    }
                    _ => out.append(after.as_bytes()),
                }
                still(failure)
            }
            What::Row { code, table, .. } => {
                let (before, after) = self.around(self.fields.value, "value")?;
                let subject = Subject { contract: code, kind: SubjectKind::Row(table), bytes: &bytes };
                out.append(before.as_bytes());
                let failure = style.write_row_value(subject, Some(in_force), &mut out);
                out.append(after.as_bytes());
                still(failure)
            }
            What::Native => return Err(Undecodable::Native),
            What::Control => return Err(PastError::Foreign("a fork or block has no data".into()).into()),
        };
        if let Some(failure) = failure {
            return Err(Undecodable::Still(failure));
        }
        out.truncate(out.len() - 1);
        out.append(REPLAYED.as_bytes());
        String::from_utf8(out.to_vec()).map_err(|error| PastError::Foreign(error.to_string()).into())
    }

    fn bytes(&self) -> Result<Vec<u8>, PastError> {
        let raw = self.fields.raw.as_deref();
        raw.and_then(hex::parse).ok_or_else(|| PastError::Foreign("its `raw` is no hexadecimal text".into()))
    }

    /// What stands before `,"data":` (or `value`) and behind `decode_error`.
    fn around(&self, value: Option<&RawValue>, name: &str) -> Result<(&'a str, &'a str), PastError> {
        let start = format!(",\"{name}\":");
        let (Some(value), Some(error)) = (value, self.fields.decode_error) else {
            return Err(PastError::Foreign(format!("it lacks `{name}` or `decode_error`")));
        };
        let before = self.text.get(..self.offset(value)).and_then(|text| text.strip_suffix(start.as_str()));
        let after = self.text.get(self.offset(error) + error.get().len()..);
        before.zip(after).ok_or_else(misplaced)
    }

    /// Where an undecoded return value's field begins, and its bytes.
    fn returned(&self) -> Result<Option<(usize, Vec<u8>)>, PastError> {
        let Some(value) = self.fields.return_value_raw else { return Ok(None) };
        let bytes = hex::parse(value.get().trim_matches('"')).ok_or_else(misplaced)?;
        let at = self.offset(value).checked_sub(",\"return_value_raw\":".len());
        Ok(Some((at.ok_or_else(misplaced)?, bytes)))
    }

    /// Where in the text a part of it stands.
    fn offset(&self, part: &RawValue) -> usize {
        (part.get().as_ptr() as usize).wrapping_sub(self.text.as_ptr() as usize)
    }
}

/// Why [`Past::decode`] gives nothing.
#[derive(Debug)]
pub enum Undecodable {
    /// The event cannot be taken apart.
    Past(PastError),
    /// It is a row of the node's own tables: those are read with that node's ABI, which is not kept.
    Native,
    /// Its data still cannot be decoded.
    Still(StillUndecoded),
}

impl From<PastError> for Undecodable {
    fn from(error: PastError) -> Undecodable {
        Undecodable::Past(error)
    }
}

fn still(failure: Option<Failure<'_>>) -> Option<StillUndecoded> {
    failure.map(|failure| StillUndecoded {
        reason: failure.reason.as_str(),
        message: failure.message,
        abi_block: failure.abi_block,
    })
}

fn name(text: &str) -> Result<Name, PastError> {
    text.parse().map_err(|error: crate::name::NameError| PastError::Foreign(error.to_string()))
}

fn misplaced() -> PastError {
    PastError::Foreign("its fields are not where they belong".into())
}
