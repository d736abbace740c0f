//! Random ABIs and random values of their types.

use fastrand::Rng;

use super::draft::{Draft, counted, varuint};

/// Every built-in type, `extended_asset` among them.
pub const BUILTINS: [&str; 36] = [
    "bool",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "int128",
    "uint128",
    "varuint32",
    "varint32",
    "float32",
    "float64",
    "float128",
    "float",
    "double",
    "time_point",
    "time_point_sec",
    "block_timestamp",
    "block_timestamp_type",
    "name",
    "bytes",
    "string",
    "checksum160",
    "checksum256",
    "checksum512",
    "public_key",
    "private_key",
    "signature",
    "symbol",
    "symbol_code",
    "asset",
    "bitset",
    "extended_asset",
];

/// Which containers typedefs may put into each other.
#[derive(Clone, Copy, PartialEq)]
pub enum Nesting {
    /// None that `rs_abieos` refuses: optionals in nothing.
    Abieos,
    /// Any.
    Any,
}

/// A random ABI without faults. A struct holds itself only by way of containers, and no container holds values that
/// take no bytes, so that any bytes can be given to any decoder.
pub fn draft(random: &mut Rng, nesting: Nesting) -> Draft {
    let mut draft = Draft::default();
    let structs = random.usize(1..6);
    let variants = random.usize(0..3);
    for i in 0..random.usize(0..5) {
        let target = kind(random, &draft, nesting, structs, variants);
        draft.types.push((format!("t{i}"), target));
    }
    for i in 0..structs {
        let base =
            if i > 0 && random.u8(..4) == 0 { format!("s{}", random.usize(..i)) } else { String::new() };
        // The first field takes bytes, whatever follows.
        let mut fields = vec![(format!("first {i}"), pick(random).to_owned())];
        for field in 0..random.usize(0..7) {
            let kind = field_kind(random, &draft, nesting, structs, variants, i);
            fields.push((format!("f{i}.{field} \"\\ü"), kind));
        }
        if random.bool() {
            for field in 0..random.usize(1..4) {
                let kind = field_kind(random, &draft, nesting, structs, variants, i);
                fields.push((format!("x{i}.{field}"), format!("{kind}$")));
            }
        }
        draft.structs.push((format!("s{i}"), base, fields));
    }
    for i in 0..variants {
        let mut types = vec![pick(random).to_owned()];
        for _ in 0..random.usize(0..4) {
            types.push(kind(random, &draft, nesting, structs, variants));
        }
        draft.variants.push((format!("v{i}"), types));
    }
    draft
}

fn pick(random: &mut Rng) -> &'static str {
    BUILTINS[random.usize(..BUILTINS.len())]
}

/// The text of a random type for a field of the struct of this number: by itself only an earlier struct lies in it.
fn field_kind(
    random: &mut Rng,
    draft: &Draft,
    nesting: Nesting,
    structs: usize,
    variants: usize,
    number: usize,
) -> String {
    let kind = kind(random, draft, nesting, structs, variants);
    match held(draft, &kind) {
        Some(held) if held >= number => format!("s{held}[]"),
        _ => kind,
    }
}

/// The struct whose value is in every value of a type.
fn held(draft: &Draft, kind: &str) -> Option<usize> {
    let kind = kind.strip_suffix("[3]").unwrap_or(kind);
    if let Some((_, target)) = draft.types.iter().find(|(typedef, _)| typedef == kind) {
        return held(draft, target);
    }
    kind.strip_prefix('s').and_then(|number| number.parse().ok())
}

/// The text of a random type.
fn kind(random: &mut Rng, draft: &Draft, nesting: Nesting, structs: usize, variants: usize) -> String {
    let (name, plain) = match random.u8(..10) {
        0 | 1 => (format!("s{}", random.usize(..structs)), true),
        2 if variants > 0 => (format!("v{}", random.usize(..variants)), true),
        3 | 4 if !draft.types.is_empty() => {
            let (name, _) = &draft.types[random.usize(..draft.types.len())];
            (name.clone(), !optional(draft, name))
        }
        _ => (pick(random).to_owned(), true),
    };
    let container = match random.u8(..8) {
        0 => "?",
        1 => "[]",
        2 => "[3]",
        _ => "",
    };
    if plain || nesting == Nesting::Any { name + container } else { name }
}

/// Whether a typedef stands for an optional.
fn optional(draft: &Draft, name: &str) -> bool {
    draft
        .types
        .iter()
        .find(|(typedef, _)| typedef == name)
        .is_some_and(|(_, target)| target.ends_with('?') || optional(draft, target))
}

/// Appends a random value of a type.
pub fn value(random: &mut Rng, draft: &Draft, kind: &str, depth: usize, out: &mut Vec<u8>) {
    let many = if depth > 6 { 0 } else { random.usize(..4) };
    if let Some(inner) = kind.strip_suffix('$') {
        value(random, draft, inner, depth, out);
    } else if let Some(inner) = kind.strip_suffix('?') {
        let there = many > 1;
        out.push(u8::from(there));
        if there {
            value(random, draft, inner, depth + 1, out);
        }
    } else if let Some(inner) = kind.strip_suffix("[]") {
        varuint(out, many);
        for _ in 0..many {
            value(random, draft, inner, depth + 1, out);
        }
    } else if let Some(inner) = kind.strip_suffix("[3]") {
        for _ in 0..3 {
            value(random, draft, inner, depth + 1, out);
        }
    } else if let Some((_, target)) = draft.types.iter().find(|(name, _)| name == kind) {
        value(random, draft, target, depth, out);
    } else if let Some((_, base, fields)) = draft.structs.iter().find(|(name, ..)| name == kind) {
        if !base.is_empty() {
            value(random, draft, base, depth + 1, out);
        }
        for (_, kind) in fields {
            value(random, draft, kind, depth + 1, out);
        }
    } else if let Some((_, types)) = draft.variants.iter().find(|(name, _)| name == kind) {
        let index = if depth > 6 { 0 } else { random.usize(..types.len()) };
        varuint(out, index);
        value(random, draft, &types[index], depth + 1, out);
    } else {
        builtin(random, kind, out);
    }
}

fn builtin(random: &mut Rng, kind: &str, out: &mut Vec<u8>) {
    match kind {
        "bool" => out.push(random.u8(..3)),
        "int8" | "uint8" => bytes(random, 1, out),
        "int16" | "uint16" => bytes(random, 2, out),
        "int32" | "uint32" | "time_point_sec" | "block_timestamp" | "block_timestamp_type" => {
            bytes(random, 4, out)
        }
        "int64" | "uint64" | "name" => bytes(random, 8, out),
        "int128" | "uint128" | "float128" => bytes(random, 16, out),
        "checksum160" => bytes(random, 20, out),
        "checksum256" => bytes(random, 32, out),
        "checksum512" => bytes(random, 64, out),
        "varuint32" | "varint32" => {
            let bits = random.u32(..32);
            varuint(out, random.u32(..) as usize >> bits);
        }
        "float" | "float32" => {
            let special =
                [0.0, -0.0, 1.0, 0.1, 16_777_216.0, f32::NAN, f32::INFINITY, f32::MAX, f32::MIN_POSITIVE];
            let value = if random.bool() {
                special[random.usize(..special.len())]
            } else {
                f32::from_bits(random.u32(..))
            };
            out.extend_from_slice(&value.to_le_bytes());
        }
        "double" | "float64" => {
            let special = [
                0.0,
                -0.0,
                1e15,
                1e16,
                1e22,
                1e23,
                1e-5,
                -1e-7,
                f64::NAN,
                f64::NEG_INFINITY,
                f64::MAX,
                5e-324,
            ];
            let value = match random.u8(..3) {
                0 => special[random.usize(..special.len())],
                1 => f64::from(random.i32(..)) / 10f64.powi(random.i32(0..20)),
                _ => f64::from_bits(random.u64(..)),
            };
            out.extend_from_slice(&value.to_le_bytes());
        }
        // The years that have four digits.
        "time_point" => out.extend_from_slice(&random.u64(..253_402_300_800_000_000).to_le_bytes()),
        "bytes" => {
            let length = random.usize(..20);
            varuint(out, length);
            bytes(random, length, out);
        }
        "string" => {
            let text: String = (0..random.usize(..30)).map(|_| character(random)).collect();
            counted(out, text.as_bytes());
        }
        "symbol_code" => out.extend_from_slice(&code(random)),
        "symbol" => symbol(random, out),
        "asset" => {
            let bits = random.u32(..64);
            out.extend_from_slice(&(random.i64(..) >> bits).to_le_bytes());
            symbol(random, out);
        }
        "extended_asset" => {
            builtin(random, "asset", out);
            bytes(random, 8, out);
        }
        "public_key" => {
            let kind = random.u8(..3);
            out.push(kind);
            bytes(random, 33, out);
            if kind == 2 {
                bytes(random, 1, out);
                builtin(random, "string", out);
            }
        }
        "private_key" => {
            out.push(random.u8(..2));
            bytes(random, 32, out);
        }
        "signature" => {
            let kind = random.u8(..3);
            out.push(kind);
            bytes(random, 65, out);
            if kind == 2 {
                builtin(random, "bytes", out);
                builtin(random, "string", out);
            }
        }
        "bitset" => {
            let bits = random.usize(..40);
            varuint(out, bits);
            bytes(random, bits.div_ceil(8), out);
        }
        _ => panic!("no type `{kind}`"),
    }
}

fn bytes(random: &mut Rng, count: usize, out: &mut Vec<u8>) {
    // Zeros and ones are where the special cases are.
    let fill = [0, 0xff, 0][random.usize(..3)];
    let odd = random.bool();
    out.extend((0..count).map(|_| if odd { random.u8(..) } else { fill }));
}

fn character(random: &mut Rng) -> char {
    match random.u8(..4) {
        0 => ['"', '\\', '\n', '\r', '\t', '\u{8}', '\u{c}', '\0', '\u{7f}', '/', '\u{80}', 'ß', '🙂']
            [random.usize(..13)],
        _ => random.char('a'..='~'),
    }
}

/// Characters of a symbol: ASCII only.
fn code(random: &mut Rng) -> [u8; 8] {
    let mut code = [0; 8];
    for byte in &mut code[..random.usize(..=7)] {
        *byte = if random.u8(..10) == 0 { random.u8(..0x80) } else { random.u8(b'A'..=b'Z') };
    }
    code
}

fn symbol(random: &mut Rng, out: &mut Vec<u8>) {
    out.push(if random.u8(..10) == 0 { random.u8(..) } else { random.u8(..19) });
    out.extend_from_slice(&code(random)[..7]);
}

/// Changes bytes here and there.
pub fn mutate(random: &mut Rng, bytes: &mut Vec<u8>) {
    for _ in 0..random.usize(1..4) {
        let place = random.usize(..=bytes.len());
        match random.u8(..5) {
            0 => bytes.truncate(place),
            1 if place < bytes.len() => bytes[place] ^= 1 << random.u8(..8),
            2 if place < bytes.len() => bytes[place] = [0, 1, 0x7f, 0x80, 0xff][random.usize(..5)],
            3 if place < bytes.len() => drop(bytes.remove(place)),
            _ => bytes.insert(place, random.u8(..)),
        }
    }
}
