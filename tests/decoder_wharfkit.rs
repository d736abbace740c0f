//! `json: wharfkit`: what @wharfkit/antelope gives, byte for byte where it gives the value that was sent.

mod decoder_support;

use std::collections::BTreeMap;

use decoder_support::contracts::Contracts;
use decoder_support::draft::Draft;
use decoder_support::generate::{self, Nesting};
use decoder_support::wharfkit::Library;
use decoder_support::{Capture, captures};
use fastrand::Rng;
use parser::abi::{Abi, DecodeError, Decoded, Deserializer};
use parser::hex;
use parser::out::Out;
use serde_json::{Value, json};

/// The table's types and bytes of which the library makes nothing, or not what was sent, and what is written for them:
/// what abieos reads, in the library's style.
const BEYOND: [(&str, &str, &str); 19] = [
    // Beyond what a JavaScript date can be.
    ("time_point", "f401602b3972e777", r#""+275760-09-13T00:00:00.001""#),
    ("time_point", "ffffffffffffff7f", r#""+294247-01-10T04:00:54.776""#),
    ("time_point", "0000000000000080", r#""-290308-12-21T19:59:05.224""#),
    // No text.
    ("string", "01ff", r#""?""#),
    ("string", "0361c328", r#""a?(""#),
    ("string", "04efbbbfff", r#""?""#),
    // No symbols.
    ("symbol", "13454f5300000000", r#""19,EOS""#),
    ("symbol", "04656f7300000000", r#""4,eos""#),
    ("symbol", "0441004200000000", r#""4,A\u0000B""#),
    ("symbol", "04411f0000000000", r#""4,A\u001f""#),
    ("symbol_code", "4541ff0000000000", r#""EA?""#),
    ("symbol_code", "4541620000000000", r#""EAb""#),
    ("asset", "010000000000000013454f5300000000", r#""0.0000000000000000001 EOS""#),
    ("asset", "01000000000000000265227300000000", r#""0.01 e\"s""#),
    // Read as if their number was in front.
    ("uint8[2]", "0102", "[1,2]"),
    // Types it does not know.
    ("block_timestamp", "01000000", r#""2000-01-01T00:00:00.500""#),
    ("double", "000000000000e03f", r#""0.5""#),
    (
        "private_key",
        "000101010101010101010101010101010101010101010101010101010101010101",
        r#""PVT_K1_SeLqn3UAUoRymWmwW7axrzJK7JfNaBR2cHCryA6cFsfExCcS""#,
    ),
    ("asset", "ffffffffffffffffff454f5300000000", ""),
];

fn decode(abi: &Abi, kind: &str, data: &[u8]) -> (Result<Decoded, DecodeError>, String) {
    let id = abi.type_named(kind).unwrap_or_else(|| panic!("no type `{kind}`"));
    let mut out = Out::default();
    let result = abi.decode(id, data, &mut out);
    (result, String::from_utf8(out.to_vec()).expect("JSON is text"))
}

#[test]
fn the_edges_of_every_type() {
    let table = include_str!("data/wharfkit.ndjson");
    let lines: Vec<Value> = table.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let (head, lines) = lines.split_first().expect("a table");
    let mut definition = head["abi"].clone();
    // Every type of the table by a name of its own.
    let typedefs = definition["types"].as_array_mut().expect("typedefs");
    let mut kinds: Vec<&str> = lines.iter().map(|line| line["type"].as_str().expect("a type")).collect();
    kinds.dedup();
    typedefs.extend(kinds.iter().map(|kind| json!({"new_type_name": format!("a {kind}"), "type": kind})));
    let abi = Abi::from_json(&definition.to_string(), Deserializer::Wharfkit).expect("an ABI");

    let mut beyond = 0;
    for line in lines {
        let (kind, data) = (line["type"].as_str().expect("a type"), line["data"].as_str().expect("bytes"));
        let bytes = hex::parse(data).expect("hex");
        let (result, text) = decode(&abi, &format!("a {kind}"), &bytes);
        let decoded = result.unwrap_or_else(|error| panic!("{line}: {error}"));
        assert_eq!(decoded.consumed, bytes.len(), "{line}");
        let expected = match BEYOND.iter().find(|(beyond, bytes, _)| (*beyond, *bytes) == (kind, data)) {
            Some((.., expected)) => {
                beyond += 1;
                if expected.is_empty() {
                    format!("\"-0.{}1 EOS\"", "0".repeat(254))
                } else {
                    (*expected).to_owned()
                }
            }
            None => line["json"].as_str().unwrap_or_else(|| panic!("{line}")).to_owned(),
        };
        assert_eq!(text, expected, "{line}");
        assert_eq!(decoded.repaired, kind != "either" && text.contains('?'), "{line}");
    }
    assert_eq!(beyond, BEYOND.len());
}

/// What the two results are to each other, or `None` if that is not right.
fn verdict(
    own: &Result<Decoded, DecodeError>,
    text: &str,
    theirs: &Result<String, String>,
) -> Option<&'static str> {
    match (own, theirs) {
        (Ok(_), Ok(theirs)) if text == theirs => Some("equal"),
        // Where a JavaScript object has no place for a field of its own.
        (Ok(_), Ok(_)) => text.contains(r#""__proto__":"#).then_some("a field `__proto__`"),
        (Err(_), Err(_)) => Some("refused"),
        (Ok(own), Err(message)) => {
            let known = [
                ("not valid for encoding utf-8", own.repaired),
                ("Invalid asset symbol", true),
                ("Invalid time value", true),
                ("up to 53 bits", true),
                ("Maximum decoding depth exceeded", true),
                // An index or kind of more bytes than it needs.
                ("Unknown variant idx", true),
                ("Unknown curve type", true),
                // A base named by a typedef.
                ("Invalid struct fields", true),
            ];
            known.iter().find(|(part, holds)| *holds && message.contains(part)).map(|(part, _)| *part)
        }
        // A number of more than five bytes, of which it keeps some bits.
        (Err(error), Ok(_)) => error.message.contains("more than five bytes").then_some("long number"),
    }
}

/// How often each was met.
type Met = BTreeMap<&'static str, usize>;

fn compare(abi: &Abi, library: &mut Library, asked: &[(&str, &[u8])], met: &mut Met) {
    let answers = library.ask(asked);
    for ((kind, data), theirs) in asked.iter().zip(answers) {
        let (own, text) = decode(abi, kind, data);
        let about = || format!("{kind} {}\nown {own:?}\n{text}\nlibrary\n{theirs:?}", hex::lower(data));
        *met.entry(verdict(&own, &text, &theirs).unwrap_or_else(|| panic!("{}", about()))).or_default() += 1;
    }
}

/// Types that the library does not know or misreads are replaced by others.
fn known_to_the_library(draft: &mut Draft) {
    let replace = |kind: &mut String| {
        for (from, to) in [
            ("[3]", "[]"),
            ("block_timestamp_type", "block_timestamp"),
            ("block_timestamp", "block_timestamp_type"),
            ("private_key", "public_key"),
            ("bitset", "bytes"),
            ("double", "float64"),
        ] {
            *kind = kind.replace(from, to);
        }
        if kind.starts_with("float") && !kind.starts_with(|c: char| c.is_ascii_digit()) {
            let rest = kind["float".len()..].to_owned();
            if !rest.starts_with(|c: char| c.is_ascii_digit()) {
                *kind = format!("float32{rest}");
            }
        }
    };
    draft.types.iter_mut().for_each(|(_, kind)| replace(kind));
    draft.structs.iter_mut().flat_map(|(.., fields)| fields).for_each(|(_, kind)| replace(kind));
    draft.variants.iter_mut().flat_map(|(_, kinds)| kinds).for_each(replace);
}

#[test]
fn generated_abis_and_values() {
    let Some(mut library) = Library::start() else { return };
    let mut met = Met::new();
    for seed in 0..150 {
        let mut random = Rng::with_seed(seed);
        let mut draft = generate::draft(&mut random, Nesting::Any);
        known_to_the_library(&mut draft);
        let packed = draft.packed();
        let abi = Abi::from_binary(&packed, Deserializer::Wharfkit).expect("an ABI");
        library.packed_abi(&packed);
        let mut asked: Vec<(&str, Vec<u8>)> = Vec::new();
        for id in abi.types() {
            for _ in 0..6 {
                let mut data = Vec::new();
                generate::value(&mut random, &draft, abi.type_name(id), 0, &mut data);
                let mut mutated = data.clone();
                generate::mutate(&mut random, &mut mutated);
                let cut = data[..random.usize(..=data.len())].to_vec();
                asked.extend([data, mutated, cut].map(|data| (abi.type_name(id), data)));
            }
        }
        let asked: Vec<(&str, &[u8])> = asked.iter().map(|(kind, data)| (*kind, &data[..])).collect();
        compare(&abi, &mut library, &asked, &mut met);
    }
    println!("{met:?}");
    assert!(met["equal"] > 5_000, "{met:?}");
}

/// All actions, rows and return values with all ABIs of their contracts, and the node's own rows.
fn recording(library: &mut Library, mut capture: Capture, frames: usize, met: &mut Met) {
    capture.frames.truncate(frames);
    let ship = Abi::from_json(&capture.ship_abi, Deserializer::Wharfkit).expect("the node's ABI");
    let mut contracts = Contracts::default();
    library.abi(&capture.ship_abi);
    for block in capture.blocks() {
        let native: Vec<(&str, &[u8])> =
            block.native.iter().map(|(table, data)| (&table[..], &data[..])).collect();
        compare(&ship, library, &native, met);
        contracts.add(block);
    }
    for contract in contracts.all() {
        for bytes in &contract.abis {
            let Ok(abi) = Abi::from_binary(bytes, Deserializer::Wharfkit) else { continue };
            // It reads arrays of fixed size as if their number was in front.
            let fixed = bytes.windows(2).any(|pair| pair[0] == b'[' && pair[1].is_ascii_digit());
            let asked: Vec<(&str, &[u8])> = contract.typed(&abi).collect();
            if fixed {
                *met.entry("fixed arrays").or_default() += asked.len();
                continue;
            }
            library.packed_abi(bytes);
            compare(&abi, library, &asked, met);
        }
    }
}

#[test]
fn recordings() {
    let Some(mut library) = Library::start() else { return };
    let bundled = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data");
    let mut met = Met::new();
    for name in ["mixed-100", "fork-240"] {
        let capture = Capture::open(format!("{bundled}/{name}.shipcap.zst").into());
        recording(&mut library, capture, usize::MAX, &mut met);
    }
    if let Some(directory) = captures() {
        for (name, frames) in [("mixed", usize::MAX), ("spring", usize::MAX), ("load", 40)] {
            let capture = Capture::open(directory.join(format!("{name}.shipcap.zst")));
            recording(&mut library, capture, frames, &mut met);
        }
    }
    println!("{met:?}");
    assert!(met["equal"] > 8_000, "{met:?}");
}

/// Takes many minutes: the library decodes some thousand values a second.
#[test]
#[ignore = "hundreds of thousands of values"]
fn all_of_the_large_recordings() {
    let (Some(mut library), Some(directory)) = (Library::start(), captures()) else { return };
    for name in ["fork", "load"] {
        let mut met = Met::new();
        let capture = Capture::open(directory.join(format!("{name}.shipcap.zst")));
        recording(&mut library, capture, usize::MAX, &mut met);
        println!("{name}: {met:?}");
    }
}
