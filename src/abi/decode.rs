//! Running a program over packed bytes.
//!
//! What is under way lies on a stack of its own, not on the thread's: nesting costs bytes that are counted, never a
//! crash. The stack also tells the path to a field when something is wrong, so that nothing is kept for that while all is well.

use std::cell::Cell;
use std::fmt::Write;
use std::marker::PhantomData;

use super::input::{Fault, Input};
use super::program::{Builtin, Node, NodeId, Program};
use super::style::{Abieos, Json, Style, Wharfkit};
use super::{DecodeError, Decoded, Reason, builtin};
use crate::number;
use crate::out::Out;

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

thread_local! {
    /// The stack of the run before, to be used again.
    static STACK: Cell<Vec<Frame>> = const { Cell::new(Vec::new()) };
}

/// Reads a value of type `root` from the start of `data` and appends it to `out` as JSON.
pub(super) fn decode(
    program: &Program,
    root: NodeId,
    data: &[u8],
    out: &mut Out,
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
    out: &mut Out,
    levels: u16,
) -> Result<Decoded, DecodeError> {
    let most = MOST_TEXT.min(data.len().saturating_mul(TEXT_PER_BYTE).saturating_add(FREE_TEXT));
    let from = out.len();
    let mut run = Run::<S> {
        program,
        stack: Vec::new(),
        depth: [0; 3],
        levels,
        most: from + most,
        repaired: false,
        style: PhantomData,
    };
    let (input, result) = run.value(root, Input::new(data), out);
    // Each returned for itself: a result put together first would be waited for.
    if let Err(fault) = result {
        out.truncate(from);
        return Err(run.error(fault, &input, data.len()));
    }
    if run.stack.capacity() > 0 {
        STACK.set(run.stack);
    }
    Ok(Decoded { consumed: data.len() - input.left(), repaired: run.repaired })
}

/// One value being read.
struct Run<'a, S> {
    program: &'a Program,
    /// What the value being read lies in, the outermost first.
    stack: Vec<Frame>,
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
    Struct(Fields),
    Array {
        item: NodeId,
        /// Items begun.
        begun: u32,
        count: u32,
    },
    Variant,
}

/// What is left of a struct.
#[derive(Clone, Copy)]
struct Fields {
    /// The field to read next, and the one behind the last.
    next: u32,
    end: u32,
    /// Where its JSON begins.
    open: usize,
    /// Whether extensions may be missing here.
    extensions: bool,
}

const STRUCT: usize = 0;
const ARRAY: usize = 1;
const VARIANT: usize = 2;

type Step = Result<(), Fault>;

/// Lends where to read and to write to something that is called: see [`Out::lend`].
#[inline(always)]
pub(super) fn lend<'i, R>(
    input: &mut Input<'i>,
    out: &mut Out,
    call: impl FnOnce(&mut Input<'i>, &mut Out) -> R,
) -> R {
    let mut lent = *input;
    let result = out.lend(|out| call(&mut lent, out));
    *input = lent;
    result
}

// === impl Run ===

impl<S: Style> Run<'_, S> {
    /// Reads a value, and gives what is left of the input.
    ///
    /// Where to read and where to write change with every piece. So that both stay in registers, all that changes them
    /// often is inlined here, and the rest is lent a copy.
    #[inline(always)]
    fn value<'i>(&mut self, root: NodeId, from: Input<'i>, to: &mut Out) -> (Input<'i>, Step) {
        let (mut input, mut out) = (from, std::mem::take(to));
        let step = self.walk(root, &mut input, &mut out);
        *to = out;
        (input, step)
    }

    #[inline(always)]
    fn walk(&mut self, root: NodeId, input: &mut Input<'_>, out: &mut Out) -> Step {
        let mut node = root;
        // Extensions may be missing at the end of the whole value only: not in arrays, nor in a field with others behind it.
        let mut extensions = true;
        'value: loop {
            let mut fields = None;
            // Structs first, as most are: a jump by kind takes longer.
            if let Node::Struct { first, end } = self.program.nodes[node as usize] {
                self.enter(STRUCT, out)?;
                fields = Some(Fields { next: first, end, open: out.len(), extensions });
            } else if let Some(inner) = self.other(node, input, out)? {
                node = inner;
                continue;
            }
            // Goes on with what the value just written lies in.
            loop {
                if let Some(fields) = fields.take()
                    && let Some(field) = self.fields(fields, input, out)?
                {
                    (node, extensions) = field;
                    continue 'value;
                }
                if self.stack.is_empty() {
                    return Ok(());
                }
                match self.stack.pop() {
                    Some(Frame::Struct(rest)) => fields = Some(rest),
                    Some(Frame::Array { item, begun, count }) if begun < count => {
                        self.push(Frame::Array { item, begun: begun + 1, count });
                        if begun > 0 {
                            out.push(b',');
                            self.check_size(out)?;
                        }
                        (node, extensions) = (item, false);
                        continue 'value;
                    }
                    Some(Frame::Array { .. }) => {
                        out.push(b']');
                        self.depth[ARRAY] -= 1;
                    }
                    Some(Frame::Variant) => {
                        out.push(b']');
                        self.depth[VARIANT] -= 1;
                    }
                    None => {}
                }
            }
        }
    }

    /// A value that is no struct: writes it, or gives what is to be read for it.
    #[inline(always)]
    fn other(&mut self, node: NodeId, input: &mut Input<'_>, out: &mut Out) -> Result<Option<NodeId>, Fault> {
        match self.program.nodes[node as usize] {
            Node::Struct { .. } => {}
            Node::Builtin(builtin) => {
                let repaired = &mut self.repaired;
                lend(input, out, |input, out| builtin::single::<S>(builtin, input, out, repaired))?;
            }
            Node::Optional(inner) => {
                if input.u8()? != 0 {
                    return Ok(Some(inner));
                }
                out.append(b"null");
            }
            Node::Array(item) => {
                let count = input.varuint32()?;
                self.array(item, count, input, out)?;
            }
            Node::Fixed(item, count) => self.array(item, count, input, out)?,
            Node::Variant { first, end } => {
                let start = *input;
                let index = input.varuint32()?;
                if index >= end - first {
                    *input = start;
                    return Err(Fault::Variant);
                }
                self.enter(VARIANT, out)?;
                self.push(Frame::Variant);
                let alternative = self.program.alternatives[(first + index) as usize];
                self.program.write(alternative.tag, out);
                return Ok(Some(alternative.node));
            }
        }
        Ok(None)
    }

    /// Writes fields up to the first that is not plain: gives that one, its key written, and what is left to the stack.
    /// Without any the struct is done.
    #[inline(always)]
    fn fields(
        &mut self,
        fields: Fields,
        input: &mut Input<'_>,
        out: &mut Out,
    ) -> Result<Option<(NodeId, bool)>, Fault> {
        let Fields { next, end, open, extensions } = fields;
        let mut rest = self.program.fields[next as usize..end as usize].iter();
        while let Some(field) = rest.next() {
            if let Some(plain) = &field.plain {
                if let Err(fault) = builtin::field::<S>(plain, input, out, &mut self.repaired) {
                    // For the path to the field.
                    self.push(Frame::Struct(Fields { next: end - rest.len() as u32, ..fields }));
                    return Err(fault);
                }
                continue;
            }
            if field.extension && input.is_empty() {
                if let Some(missing) = S::MISSING {
                    self.program.write(field.key, out);
                    out.append(missing);
                    continue;
                }
                if extensions {
                    continue;
                }
            }
            self.program.write(field.key, out);
            self.push(Frame::Struct(Fields { next: end - rest.len() as u32, ..fields }));
            return Ok(Some((field.node, extensions && rest.len() == 0)));
        }
        // Each key begins with a comma: the first one becomes the brace.
        if open == out.len() {
            out.push(b'{');
        } else {
            out[open] = b'{';
        }
        out.push(b'}');
        self.depth[STRUCT] -= 1;
        Ok(None)
    }

    /// Lays something begun on the stack.
    #[inline(always)]
    fn push(&mut self, frame: Frame) {
        if self.stack.capacity() == 0 {
            self.stack = STACK.take();
        }
        self.stack.push(frame);
    }

    /// Begins an array; one of a built-in type is read at once.
    #[inline(always)]
    fn array(&mut self, item: NodeId, count: u32, input: &mut Input<'_>, out: &mut Out) -> Step {
        self.enter(ARRAY, out)?;
        out.push(b'[');
        match self.program.nodes[item as usize] {
            Node::Builtin(builtin) => {
                lend(input, out, |input, out| self.builtins(builtin, count, input, out))
            }
            _ => {
                self.push(Frame::Array { item, begun: 0, count });
                Ok(())
            }
        }
    }

    /// The items and the end of an array of a built-in type.
    #[inline(never)]
    fn builtins(&mut self, builtin: Builtin, count: u32, input: &mut Input<'_>, out: &mut Out) -> Step {
        if builtin == Builtin::Uint8 && count as usize <= input.left() {
            number::bytes(out, input.take(count as usize)?);
        } else {
            for i in 0..count {
                if i > 0 {
                    out.push(b',');
                }
                if let Err(fault) = builtin::single::<S>(builtin, input, out, &mut self.repaired) {
                    // For the path to the item.
                    self.push(Frame::Array { item: 0, begun: i + 1, count });
                    return Err(fault);
                }
            }
        }
        out.push(b']');
        self.depth[ARRAY] -= 1;
        Ok(())
    }

    /// Counts another struct, array or variant.
    #[inline(always)]
    fn enter(&mut self, kind: usize, out: &Out) -> Step {
        self.depth[kind] += 1;
        if self.depth[kind] > self.levels {
            return Err(Fault::Depth);
        }
        self.check_size(out)
    }

    #[inline(always)]
    fn check_size(&self, out: &Out) -> Step {
        if out.len() > self.most { Err(Fault::Size) } else { Ok(()) }
    }

    /// The error to `fault`, at the place where the run stopped.
    #[cold]
    fn error(&self, fault: Fault, input: &Input, length: usize) -> DecodeError {
        let reason = match fault {
            Fault::Truncated(_) => Reason::Truncated,
            _ => Reason::Invalid,
        };
        let message = match fault {
            Fault::Depth => format!("nested deeper than {} levels", self.levels),
            _ => input.explain(fault),
        };
        DecodeError { reason, path: self.path(), offset: length - input.left(), message }
    }

    /// The field being read: `"quantity"`, `"list[3].key"`.
    fn path(&self) -> String {
        let mut path = String::new();
        for frame in self.stack.iter() {
            match *frame {
                Frame::Struct(Fields { next, .. }) => {
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
