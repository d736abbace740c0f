//! Running a program over packed bytes.
//!
//! What is under way lies on a stack of its own, not on the thread's: nesting costs bytes that are counted, never a
//! crash. The stack also tells the path to a field when something is wrong, so that nothing is kept for that while all is well.

use std::cell::RefCell;
use std::fmt::Write;
use std::marker::PhantomData;

use super::input::{Fault, Input};
use super::out::Out;
use super::program::{Builtin, Node, NodeId, Program};
use super::style::{Abieos, Json, Style, Wharfkit};
use super::{DecodeError, Decoded, Reason, key, number, text, value};

/// How many structs, how many arrays and how many variants may lie in each other, each kind counted by itself: a
/// tree whose nodes hold arrays of nodes is read to 512 nodes deep.
pub(super) const LEVELS: u16 = 512;

/// JSON that may be written whatever the bytes.
pub(super) const FREE_TEXT: usize = 16 << 10;

/// JSON that may be written for each byte of data, beside [`FREE_TEXT`]: values that take no bytes (structs without
/// fields, and arrays of them) would else make gigabytes out of nothing.
pub(super) const TEXT_PER_BYTE: usize = 128;

/// JSON of one value, at most: Redis takes no string above 512 MB, and one action must not fill the memory.
pub(super) const MOST_TEXT: usize = 64 << 20;

/// Memory that a thread keeps for the next value's JSON.
const KEPT: usize = 1 << 20;

/// What a run works with. It is kept between runs: no allocation a value.
#[derive(Default)]
struct Desk {
    /// What the value being read lies in, the outermost first.
    stack: Vec<Frame>,
    out: Out,
}

thread_local! {
    static DESK: RefCell<Desk> = RefCell::default();
}

/// Reads a value of type `root` from the start of `data` and appends it to `out` as JSON.
pub(super) fn decode(
    program: &Program,
    root: NodeId,
    data: &[u8],
    out: &mut Vec<u8>,
    levels: u16,
) -> Result<Decoded, DecodeError> {
    match program.json {
        Json::Abieos => decode_as::<Abieos>(program, root, data, out, levels),
        Json::Wharfkit => decode_as::<Wharfkit>(program, root, data, out, levels),
    }
}

fn decode_as<S: Style>(
    program: &Program,
    root: NodeId,
    data: &[u8],
    vec: &mut Vec<u8>,
    levels: u16,
) -> Result<Decoded, DecodeError> {
    // What comes out of the closure fits into registers: a result does not.
    let mut failed = None;
    let (consumed, repaired) = DESK.with_borrow_mut(|Desk { stack, out }| {
        let most = MOST_TEXT.min(data.len().saturating_mul(TEXT_PER_BYTE).saturating_add(FREE_TEXT));
        let mut run = Run::<S> {
            program,
            input: Input::new(data),
            stack,
            depth: [0; 3],
            levels,
            most,
            repaired: false,
            style: PhantomData,
        };
        match run.value(root, out) {
            Ok(()) => vec.extend_from_slice(out.written()),
            Err(fault) => failed = Some(run.error(fault, data.len())),
        }
        run.stack.clear();
        out.clear(KEPT);
        (data.len() - run.input.left(), run.repaired)
    });
    match failed {
        None => Ok(Decoded { consumed, repaired }),
        Some(error) => Err(error),
    }
}

/// One value being read.
struct Run<'a, S> {
    program: &'a Program,
    input: Input<'a>,
    /// What the value being read lies in, the outermost first.
    stack: &'a mut Vec<Frame>,
    /// How many structs, arrays and variants are on the stack.
    depth: [u16; 3],
    levels: u16,
    /// Length of the output that is not exceeded.
    most: usize,
    repaired: bool,
    style: PhantomData<S>,
}

/// Something begun and not yet closed.
#[derive(Clone, Copy)]
enum Frame {
    Struct {
        /// The field to read next, and the one behind the last.
        next: u32,
        end: u32,
        /// Where its JSON begins.
        open: usize,
        /// Whether extensions may be missing here.
        extensions: bool,
    },
    Array {
        item: NodeId,
        /// Items begun.
        begun: u32,
        count: u32,
    },
    Variant,
}

const STRUCT: usize = 0;
const ARRAY: usize = 1;
const VARIANT: usize = 2;

type Step = Result<(), Fault>;

// === impl Run ===

impl<S: Style> Run<'_, S> {
    fn value(&mut self, root: NodeId, out: &mut Out) -> Step {
        let mut node = root;
        // Extensions may be missing at the end of the whole value only: not in arrays, nor in a field with others behind it.
        let mut extensions = true;
        loop {
            match self.program.nodes[node as usize] {
                Node::Builtin(builtin) => self.single(builtin, out)?,
                Node::Optional(inner) => {
                    if self.input.u8()? != 0 {
                        node = inner;
                        continue;
                    }
                    out.fixed(b"null");
                }
                Node::Struct { first, end } => {
                    self.enter(STRUCT, out)?;
                    if let Some(field) = self.structure(first, end, out.len(), extensions, out)? {
                        (node, extensions) = field;
                        continue;
                    }
                }
                Node::Array(item) => {
                    let count = self.input.varuint32()?;
                    self.array(item, count, out)?;
                }
                Node::Fixed(item, count) => self.array(item, count, out)?,
                Node::Variant { first, end } => {
                    let start = self.input;
                    let index = self.input.varuint32()?;
                    if index >= end - first {
                        self.input = start;
                        return Err(Fault::Variant);
                    }
                    self.enter(VARIANT, out)?;
                    self.stack.push(Frame::Variant);
                    let alternative = self.program.alternatives[(first + index) as usize];
                    self.program.write(alternative.tag, out);
                    node = alternative.node;
                    continue;
                }
            }
            match self.next(out)? {
                Some(following) => (node, extensions) = following,
                None => return Ok(()),
            }
        }
    }

    /// Goes on with what the value just written lies in: the next value to read, or none if all is done.
    fn next(&mut self, out: &mut Out) -> Result<Option<(NodeId, bool)>, Fault> {
        while let Some(frame) = self.stack.pop() {
            match frame {
                Frame::Struct { next, end, open, extensions } => {
                    let field = self.structure(next, end, open, extensions, out)?;
                    if field.is_some() {
                        return Ok(field);
                    }
                }
                Frame::Array { item, begun, count } => {
                    if begun < count {
                        self.stack.push(Frame::Array { item, begun: begun + 1, count });
                        if begun > 0 {
                            out.push(b',');
                            self.check_size(out)?;
                        }
                        return Ok(Some((item, false)));
                    }
                    out.push(b']');
                    self.depth[ARRAY] -= 1;
                }
                Frame::Variant => {
                    out.push(b']');
                    self.depth[VARIANT] -= 1;
                }
            }
        }
        Ok(None)
    }

    /// Writes the fields from `next` on, up to the first that is not built in: gives that one, its key written, and
    /// what is left to the stack. Without any the struct is done.
    #[inline]
    fn structure(
        &mut self,
        next: u32,
        end: u32,
        open: usize,
        extensions: bool,
        out: &mut Out,
    ) -> Result<Option<(NodeId, bool)>, Fault> {
        let program = self.program;
        let mut at = next;
        for field in &program.fields[next as usize..end as usize] {
            at += 1;
            if field.extension && self.input.is_empty() {
                if let Some(missing) = S::MISSING {
                    program.write(field.key, out);
                    out.fixed(missing);
                    continue;
                }
                if extensions {
                    continue;
                }
            }
            program.write(field.key, out);
            let Some(builtin) = field.builtin else {
                self.stack.push(Frame::Struct { next: at, end, open, extensions });
                return Ok(Some((field.node, extensions && at == end)));
            };
            if let Err(fault) = self.builtin(builtin, out) {
                // For the path to the field.
                self.stack.push(Frame::Struct { next: at, end, open, extensions });
                return Err(fault);
            }
        }
        // Each key begins with a comma: the first one becomes the brace.
        out.put(open, b'{');
        out.push(b'}');
        self.depth[STRUCT] -= 1;
        Ok(None)
    }

    /// Begins an array; one of a built-in type is read at once.
    fn array(&mut self, item: NodeId, count: u32, out: &mut Out) -> Step {
        self.enter(ARRAY, out)?;
        out.push(b'[');
        let Node::Builtin(builtin) = self.program.nodes[item as usize] else {
            self.stack.push(Frame::Array { item, begun: 0, count });
            return Ok(());
        };
        if builtin == Builtin::Uint8 && count as usize <= self.input.left() {
            number::bytes(out, self.input.take(count as usize)?);
        } else {
            for i in 0..count {
                if i > 0 {
                    out.push(b',');
                }
                if let Err(fault) = self.single(builtin, out) {
                    self.stack.push(Frame::Array { item, begun: i + 1, count });
                    return Err(fault);
                }
            }
        }
        out.push(b']');
        self.depth[ARRAY] -= 1;
        Ok(())
    }

    #[inline]
    fn enter(&mut self, kind: usize, out: &Out) -> Step {
        self.depth[kind] += 1;
        if self.depth[kind] > self.levels {
            return Err(Fault::Depth);
        }
        self.check_size(out)
    }

    #[inline]
    fn check_size(&self, out: &Out) -> Step {
        if out.len() > self.most { Err(Fault::Size) } else { Ok(()) }
    }

    #[inline(always)]
    fn builtin(&mut self, builtin: Builtin, out: &mut Out) -> Step {
        let input = &mut self.input;
        match builtin {
            Builtin::Name => text::name(out, input.u64()?),
            Builtin::Asset => {
                let bytes = input.u128()?;
                self.repaired |= value::asset::<S>(out, bytes as i64, (bytes >> 64) as u64);
            }
            Builtin::String => self.repaired |= S::string(out, input.bytes()?),
            Builtin::Uint64 => S::uint64(out, input.u64()?),
            Builtin::Uint32 => number::unsigned(out, input.u32()?.into()),
            Builtin::Uint8 => number::byte(out, input.u8()?),
            Builtin::Bool => S::boolean(out, input.u8()?),
            Builtin::Bytes => S::hex(out, input.bytes()?),
            Builtin::Checksum256 => S::hex(out, &input.array::<32>()?),
            Builtin::Int8 => number::signed(out, (input.u8()? as i8).into()),
            Builtin::Int16 => number::signed(out, (input.u16()? as i16).into()),
            Builtin::Uint16 => number::unsigned(out, input.u16()?.into()),
            Builtin::Int32 => number::signed(out, (input.u32()? as i32).into()),
            Builtin::Int64 => S::int64(out, input.u64()? as i64),
            Builtin::Int128 => S::int128(out, input.u128()? as i128),
            Builtin::Uint128 => S::uint128(out, input.u128()?),
            Builtin::Varuint32 => number::unsigned(out, input.varuint32()?.into()),
            Builtin::Varint32 => {
                // Zigzag: the lowest bit is the sign.
                let bits = input.varuint32()?;
                number::signed(out, ((bits >> 1) as i32 ^ -((bits & 1) as i32)).into());
            }
            Builtin::Float32 => S::float32(out, f32::from_bits(input.u32()?)),
            Builtin::Float64 => S::float64(out, f64::from_bits(input.u64()?)),
            Builtin::Float128 => S::float128(out, &input.array()?),
            Builtin::TimePoint => S::time_point(out, input.u64()? as i64),
            Builtin::TimePointSec => S::time_point_sec(out, input.u32()?),
            Builtin::BlockTimestamp => value::time(out, value::slot(input.u32()?)),
            Builtin::Checksum160 => S::hex(out, &input.array::<20>()?),
            Builtin::Checksum512 => S::hex(out, &input.array::<64>()?),
            Builtin::PublicKey => key::public::<S>(input, out)?,
            Builtin::PrivateKey => key::private(input, out)?,
            Builtin::Signature => key::signature::<S>(input, out)?,
            Builtin::Symbol => self.repaired |= value::symbol::<S>(out, input.u64()?),
            Builtin::SymbolCode => self.repaired |= S::symbol_code(out, input.u64()?),
            Builtin::Bitset => {
                let mut count = 0;
                let bits = input.counted(|bits| {
                    count = bits;
                    bits.div_ceil(8)
                })?;
                value::bitset(out, count, bits);
            }
        }
        Ok(())
    }

    /// As [`Run::builtin`], for where speed is not all.
    #[inline(never)]
    fn single(&mut self, builtin: Builtin, out: &mut Out) -> Step {
        self.builtin(builtin, out)
    }

    /// The error to `fault`, at the place where the run stopped.
    #[cold]
    fn error(&self, fault: Fault, length: usize) -> DecodeError {
        let reason = match fault {
            Fault::Truncated => Reason::Truncated,
            _ => Reason::Invalid,
        };
        let message = match fault {
            Fault::Depth => format!("nested deeper than {} levels", self.levels),
            _ => self.input.explain(fault),
        };
        DecodeError { reason, path: self.path(), offset: length - self.input.left(), message }
    }

    /// The field being read: `"quantity"`, `"list[3].key"`.
    fn path(&self) -> String {
        let mut path = String::new();
        for frame in self.stack.iter() {
            match *frame {
                Frame::Struct { next, .. } => {
                    // The key is rendered: `,"name":`.
                    let key = next.checked_sub(1).map(|i| self.program.fields[i as usize].key);
                    let key = key.map(|key| self.program.text(key)).unwrap_or_default();
                    let name = key.get(2..key.len().saturating_sub(2)).unwrap_or_default();
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.push_str(&String::from_utf8_lossy(name));
                }
                Frame::Array { begun, .. } => {
                    // Writing to a String cannot fail.
                    let _ = write!(path, "[{}]", begun.saturating_sub(1));
                }
                Frame::Variant => {}
            }
        }
        path
    }
}
