//! The decoder against C++ abieos, the second witness beside `rs_abieos`: the same values and the same refusals. Built where clang
//! and libclang are installed, with the feature `cpp-oracle`.

#[path = "../src/cpp_abieos.rs"]
mod cpp_abieos;
#[path = "../../tests/decoder_support/mod.rs"]
mod decoder_support;

use std::collections::BTreeMap;
use std::ffi::CString;

use cpp_abieos::CppAbieos;
use decoder_support::contracts::Contracts;
use decoder_support::generate::{self, Nesting};
use decoder_support::{Capture, json};
use fastrand::Rng;
use parser::abi::{Abi, Deserializer};
use parser::out::Out;

/// How often each was met.
type Met = BTreeMap<&'static str, usize>;

/// Decodes with both and compares.
fn compare(abi: &Abi, cpp: &CppAbieos, kind: &str, data: &[u8], met: &mut Met) {
    let id = abi.type_named(kind).unwrap_or_else(|| panic!("no type `{kind}`"));
    let (mut own, mut theirs) = (Out::default(), Out::default());
    let decoded = abi.decode(id, data, &mut own);
    cpp.decode(0, &CString::new(kind).expect("a name"), data, &mut theirs);
    let about = || {
        let text = String::from_utf8_lossy;
        format!("{kind} {data:02x?}\nown {decoded:?} {}\nC++ {}", text(&own), text(&theirs))
    };
    let verdict = match (&decoded, theirs.is_empty()) {
        (Ok(_), false) if own[..] == theirs[..] => "equal",
        // It escapes line breaks and tabulators by their numbers, and takes the even one of two floats equally near.
        (Ok(_), false) if json(&own) == json(&theirs) => "equal values",
        (Err(_), true) => "refused",
        // It takes no bytes behind a value.
        (Ok(decoded), true) if decoded.consumed < data.len() => "trailing bytes",
        _ => panic!("{}", about()),
    };
    *met.entry(verdict).or_default() += 1;
}

fn both(packed: &[u8]) -> Option<(Abi, CppAbieos)> {
    let abi = Abi::from_binary(packed, Deserializer::Compiled).ok()?;
    Some((abi, CppAbieos::new([packed].into_iter()).ok()?))
}

#[test]
fn generated_abis_and_values() {
    let (mut met, mut compared) = (Met::new(), 0);
    for seed in 0..500 {
        let mut random = Rng::with_seed(seed);
        let draft = generate::draft(&mut random, Nesting::Abieos);
        // It knows no arrays of fixed size, for one.
        let Some((abi, cpp)) = both(&draft.packed()) else { continue };
        compared += 1;
        for id in abi.types() {
            for _ in 0..6 {
                let mut data = Vec::new();
                generate::value(&mut random, &draft, abi.type_name(id), 0, &mut data);
                compare(&abi, &cpp, abi.type_name(id), &data, &mut met);
                let cut = random.usize(..=data.len());
                compare(&abi, &cpp, abi.type_name(id), &data[..cut], &mut met);
            }
        }
    }
    println!("{compared} ABIs: {met:?}");
    assert!(compared > 100 && met["equal"] > 4_000 && met["refused"] > 4_000, "{compared} ABIs: {met:?}");
}

/// All actions, rows and return values of the bundled recordings.
#[test]
fn recordings() {
    let mut met = Met::new();
    for name in ["mixed-100", "fork-240"] {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data");
        let capture = Capture::open(format!("{directory}/{name}.shipcap.zst").into());
        let mut contracts = Contracts::default();
        capture.blocks().for_each(|block| contracts.add(block));
        for contract in contracts.all() {
            for (abi, cpp) in contract.abis.iter().filter_map(|bytes| both(bytes)) {
                for (kind, data) in contract.typed(&abi) {
                    compare(&abi, &cpp, kind, data, &mut met);
                }
            }
        }
    }
    println!("{met:?}");
    assert!(met["equal"] > 1_000, "{met:?}");
}
