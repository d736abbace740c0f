//! Walk over `transaction_trace[]`.

use crate::block::Checksum;
use crate::cursor::{Cursor, CursorError};
use crate::name::Name;
use crate::ship::protocol::WalkVariants;

type Result<T> = std::result::Result<T, CursorError>;

/// A failed deferred transaction is nested in the trace of its error handler; nodeos nests one
/// level. A frame that claims more than this is broken.
const MAX_NESTED_TRACES: u32 = 8;

/// `transaction_status` of a transaction that took effect.
const EXECUTED: u8 = 0;

/// Where bytes stand in the traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    at: u32,
    len: u32,
}

/// An action that took effect: it has a receipt, and its transaction was executed.
#[derive(Debug, Clone, Copy)]
pub struct ActionTrace {
    /// Place in the transaction, from 1.
    pub ordinal: u32,
    /// Ordinal of the action that sent this one or asked for the notification; 0: none.
    pub creator: u32,
    /// The receipt.
    pub receipt: Receipt,
    /// Who ran it: the contract itself, or a notified account.
    pub receiver: Name,
    /// The contract.
    pub account: Name,
    /// The action's name.
    pub name: Name,
    /// Packed `permission_level[]`; see [`authorization`].
    pub authorization: Span,
    /// The packed arguments.
    pub data: Span,
    /// Whether it is a context-free action.
    pub context_free: bool,
    /// The packed return value (empty before `action_trace_v1`).
    pub return_value: Span,
}

/// `action_receipt_v0`.
#[derive(Debug, Clone, Copy)]
pub struct Receipt {
    /// Who ran the action.
    pub receiver: Name,
    /// Digest of the action.
    pub act_digest: Span,
    /// Place among all actions of the chain.
    pub global_sequence: u64,
    /// Place among the receiver's actions.
    pub recv_sequence: u64,
    /// Packed `account_auth_sequence[]`; see [`auth_sequence`].
    pub auth_sequence: Span,
    /// How often the contract's code was set.
    pub code_sequence: u32,
    /// How often the contract's ABI was set.
    pub abi_sequence: u32,
}

/// Appends the actions of every transaction that was executed to `actions`, those with a receipt, in order of their
/// ordinals, and calls `each` with the transaction's id and the place of its first action, then the last one there is.
pub fn transactions(
    traces: &[u8],
    variants: &WalkVariants,
    actions: &mut Vec<ActionTrace>,
    mut each: impl FnMut(Checksum, &[ActionTrace], usize),
) -> Result<()> {
    if u32::try_from(traces.len()).is_err() {
        return Cursor::invalid(
            0,
            format!("{} bytes of traces in one block, more than 4 GiB,", traces.len()),
        );
    }
    let mut cursor = Cursor::new(traces);
    for _ in 0..cursor.count(1)? {
        let first = actions.len();
        let id = transaction(&mut cursor, variants, actions, 0)?;
        if first < actions.len() {
            each(id, actions, first);
        }
    }
    end(&cursor, "traces")
}

/// The levels of a packed `permission_level[]` that the walk has checked: actor and permission.
pub fn authorization(packed: &[u8]) -> impl Iterator<Item = (Name, Name)> + '_ {
    pairs(packed).map(|(actor, permission)| (Name(actor), Name(permission)))
}

/// The entries of a packed `account_auth_sequence[]` that the walk has checked.
pub fn auth_sequence(packed: &[u8]) -> impl Iterator<Item = (Name, u64)> + '_ {
    pairs(packed).map(|(account, sequence)| (Name(account), sequence))
}

/// The items, 16 bytes each, behind the array's length.
fn pairs(packed: &[u8]) -> impl Iterator<Item = (u64, u64)> + '_ {
    let items = &packed[packed.len() - packed.len() / 16 * 16..];
    items.as_chunks::<16>().0.iter().map(|item| {
        let (first, second) = item.split_at(8);
        let read = |half: &[u8]| half.try_into().map_or(0, u64::from_le_bytes);
        (read(first), read(second))
    })
}

// === impl Span ===

impl Span {
    #[inline(always)]
    fn between(from: usize, cursor: &Cursor<'_>) -> Span {
        // `transactions` has checked that every offset fits.
        Span { at: from as u32, len: (cursor.at() - from) as u32 }
    }

    /// The bytes, out of the traces that were walked.
    #[inline]
    pub fn of(self, traces: &[u8]) -> &[u8] {
        let from = self.at as usize;
        traces.get(from..from + self.len as usize).unwrap_or_default()
    }

    /// `len` of the bytes, from the `from`th on.
    pub fn part(self, from: usize, len: usize) -> Span {
        let from = from.min(self.len());
        Span { at: self.at + from as u32, len: len.min(self.len() - from) as u32 }
    }

    /// How many bytes there are.
    #[inline]
    pub fn len(self) -> usize {
        self.len as usize
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }
}

fn transaction(
    cursor: &mut Cursor<'_>,
    variants: &WalkVariants,
    actions: &mut Vec<ActionTrace>,
    depth: u32,
) -> Result<Checksum> {
    variant(cursor, variants.transaction_trace_v0, "transaction_trace")?;
    let id = cursor.checksum()?;
    let status = cursor.u8()?;
    cursor.skip(4)?; // cpu_usage_us
    cursor.varuint32()?; // net_usage_words
    cursor.skip(8 + 8)?; // elapsed, net_usage
    cursor.bool()?; // scheduled
    let takes_effect = depth == 0 && status == EXECUTED;
    for _ in 0..cursor.count(1)? {
        if let Some(trace) = action(cursor, variants)?
            && takes_effect
        {
            actions.push(trace);
        }
    }
    optional(cursor, |c| c.skip(16))?; // account_ram_delta
    optional(cursor, |c| c.bytes().map(drop))?; // except
    optional(cursor, |c| c.skip(8))?; // error_code
    let at = cursor.at();
    if cursor.bool()? {
        if depth == MAX_NESTED_TRACES {
            return Cursor::invalid(at, "failed transactions nested too deep");
        }
        // What a failed transaction did was undone, whatever the status of the trace around it.
        transaction(cursor, variants, actions, depth + 1)?;
    }
    optional(cursor, |c| partial(c, variants))?;
    Ok(id)
}

#[inline]
fn action(cursor: &mut Cursor<'_>, variants: &WalkVariants) -> Result<Option<ActionTrace>> {
    let at = cursor.at();
    let version = cursor.varuint32()?;
    let has_return_value = if Some(version) == variants.action_trace_v1 {
        true
    } else if Some(version) == variants.action_trace_v0 {
        false
    } else {
        return Cursor::invalid(at, format!("action_trace of unknown variant {version}"));
    };
    let ordinal = cursor.varuint32()?;
    let creator = cursor.varuint32()?;
    let receipt = if cursor.bool()? { Some(receipt(cursor, variants)?) } else { None };
    let receiver = cursor.name()?;
    let account = cursor.name()?;
    let name = cursor.name()?;
    let authorization = array(cursor, 16)?;
    let data = bytes(cursor)?;
    let context_free = cursor.bool()?;
    cursor.skip(8)?; // elapsed
    cursor.bytes()?; // console: any bytes, not needed
    array(cursor, 16)?; // account_ram_deltas
    optional(cursor, |c| c.bytes().map(drop))?; // except
    optional(cursor, |c| c.skip(8))?; // error_code
    let return_value = if has_return_value { bytes(cursor)? } else { Span::default() };
    Ok(receipt.map(|receipt| ActionTrace {
        ordinal,
        creator,
        receipt,
        receiver,
        account,
        name,
        authorization,
        data,
        context_free,
        return_value,
    }))
}

#[inline]
fn receipt(cursor: &mut Cursor<'_>, variants: &WalkVariants) -> Result<Receipt> {
    variant(cursor, variants.action_receipt_v0, "action_receipt")?;
    Ok(Receipt {
        receiver: cursor.name()?,
        act_digest: digest(cursor)?,
        global_sequence: cursor.u64()?,
        recv_sequence: cursor.u64()?,
        auth_sequence: array(cursor, 16)?,
        code_sequence: cursor.varuint32()?,
        abi_sequence: cursor.varuint32()?,
    })
}

fn partial(cursor: &mut Cursor<'_>, variants: &WalkVariants) -> Result<()> {
    variant(cursor, variants.partial_transaction_v0, "partial_transaction")?;
    cursor.skip(4 + 2 + 4)?; // expiration, ref_block_num, ref_block_prefix
    cursor.varuint32()?; // max_net_usage_words
    cursor.skip(1)?; // max_cpu_usage_ms
    cursor.varuint32()?; // delay_sec
    for _ in 0..cursor.count(3)? {
        cursor.skip(2)?; // transaction_extensions
        cursor.bytes()?;
    }
    for _ in 0..cursor.count(66)? {
        signature(cursor)?;
    }
    for _ in 0..cursor.count(1)? {
        cursor.bytes()?; // context_free_data
    }
    Ok(())
}

/// K1 and R1 signatures have 65 bytes; a WebAuthn one has the authenticator's data and the client's JSON behind them.
fn signature(cursor: &mut Cursor<'_>) -> Result<()> {
    let at = cursor.at();
    let kind = cursor.u8()?;
    cursor.skip(65)?;
    match kind {
        0 | 1 => Ok(()),
        2 => {
            cursor.bytes()?;
            cursor.bytes().map(drop)
        }
        other => Cursor::invalid(at, format!("signature of unknown kind {other}")),
    }
}

#[inline(always)]
pub(super) fn variant(cursor: &mut Cursor<'_>, known: u32, name: &str) -> Result<()> {
    let at = cursor.at();
    let version = cursor.varuint32()?;
    if version != known {
        return Cursor::invalid(at, format!("{name} of unknown variant {version}"));
    }
    Ok(())
}

/// An array of items of `size` bytes, with its length before it.
#[inline(always)]
fn array(cursor: &mut Cursor<'_>, size: u64) -> Result<Span> {
    let from = cursor.at();
    let count = cursor.count(size)?;
    cursor.skip(u64::from(count) * size)?;
    Ok(Span::between(from, cursor))
}

#[inline(always)]
fn bytes(cursor: &mut Cursor<'_>) -> Result<Span> {
    let len = cursor.bytes()?.len();
    Ok(Span::between(cursor.at() - len, cursor))
}

#[inline(always)]
fn digest(cursor: &mut Cursor<'_>) -> Result<Span> {
    cursor.skip(32)?;
    Ok(Span::between(cursor.at() - 32, cursor))
}

#[inline(always)]
fn optional<'a>(cursor: &mut Cursor<'a>, read: impl FnOnce(&mut Cursor<'a>) -> Result<()>) -> Result<()> {
    if cursor.bool()? { read(cursor) } else { Ok(()) }
}

#[inline(always)]
pub(super) fn end(cursor: &Cursor<'_>, what: &str) -> Result<()> {
    match cursor.left() {
        0 => Ok(()),
        left => Cursor::invalid(cursor.at(), format!("{left} bytes behind the end of the {what}")),
    }
}
