//! The decoder against `rs_abieos`: the same verdict and the same bytes, but for what the contract asks beyond it; each
//! such difference is told from a fault here.

mod decoder_support;

use std::collections::BTreeMap;

use decoder_support::contracts::Contracts;
use decoder_support::draft::Draft;
use decoder_support::generate::{self, BUILTINS, Nesting};
use decoder_support::verdict::verdict;
use decoder_support::{Capture, captures, json};
use fastrand::Rng;
use parser::abi::{Abi, Decoded, Deserializer};
use parser::out::Out;
use rs_abieos::AbiHandle;

/// How often each difference was met.
type Met = BTreeMap<&'static str, usize>;

/// Decodes with both and compares; panics on a difference that is none of the known ones.
fn compare(abi: &Abi, abieos: &mut AbiHandle, kind: &str, data: &[u8], met: &mut Met) {
    let id = abi.type_named(kind).unwrap_or_else(|| panic!("no type `{kind}`"));
    let mut out = Out::default();
    out.append(b"before");
    let own = abi.decode(id, data, &mut out);
    let own_text = std::str::from_utf8(out.strip_prefix(b"before").expect("what was there")).expect("text");
    if own.is_err() {
        assert_eq!(own_text, "", "something was left behind");
    }
    let theirs = abieos.bin_to_json(kind, data).map_err(|error| error.to_string());
    let about = || format!("{kind} {data:02x?}\nown {own:?} {own_text}\nabieos {theirs:?}");
    *met.entry(verdict(&own, own_text, &theirs).unwrap_or_else(|| panic!("{}", about()))).or_default() += 1;
}

fn both(draft: &Draft) -> (Abi, AbiHandle) {
    let packed = draft.packed();
    let abi = Abi::from_binary(&packed, Deserializer::Compiled)
        .unwrap_or_else(|error| panic!("{error}: {draft:?}"));
    (abi, AbiHandle::from_bin(&packed).unwrap_or_else(|error| panic!("{error}: {draft:?}")))
}

#[test]
fn every_builtin_type() {
    let mut random = Rng::with_seed(1);
    let mut draft = Draft::default();
    for kind in BUILTINS {
        draft = draft.typedef(&format!("a {kind}"), kind);
        for container in ["?", "[]", "[3]"] {
            draft = draft.typedef(&format!("a {kind}{container}!"), &format!("{kind}{container}"));
        }
    }
    let (abi, mut abieos) = both(&draft);
    let mut met = Met::new();
    for (kind, target) in &draft.types {
        for _ in 0..150 {
            let mut data = Vec::new();
            generate::value(&mut random, &draft, target, 0, &mut data);
            compare(&abi, &mut abieos, kind, &data, &mut met);
            assert_eq!(met.keys().copied().collect::<Vec<_>>(), ["equal"]);
        }
    }
    for (kind, target) in &draft.types {
        for _ in 0..150 {
            let mut data = Vec::new();
            generate::value(&mut random, &draft, target, 0, &mut data);
            generate::mutate(&mut random, &mut data);
            compare(&abi, &mut abieos, kind, &data, &mut met);
        }
    }
    println!("{met:?}");
}

#[test]
fn generated_abis_and_values() {
    let mut met = Met::new();
    for seed in 0..400 {
        let mut random = Rng::with_seed(seed);
        let draft = generate::draft(&mut random, Nesting::Abieos);
        let (abi, mut abieos) = both(&draft);
        let kinds: Vec<&str> = draft
            .structs
            .iter()
            .map(|(name, ..)| name)
            .chain(draft.variants.iter().map(|(name, _)| name))
            .chain(draft.types.iter().map(|(name, _)| name))
            .map(String::as_str)
            .collect();
        for kind in kinds {
            for _ in 0..6 {
                let mut data = Vec::new();
                generate::value(&mut random, &draft, kind, 0, &mut data);
                compare(&abi, &mut abieos, kind, &data, &mut met);
                for _ in 0..6 {
                    let mut data = data.clone();
                    generate::mutate(&mut random, &mut data);
                    compare(&abi, &mut abieos, kind, &data, &mut met);
                }
                // Extensions left out, and cut in the middle.
                let cut = random.usize(..=data.len());
                compare(&abi, &mut abieos, kind, &data[..cut], &mut met);
            }
        }
    }
    println!("{met:?}");
    assert!(met["equal"] > 10_000 && met["refused"] > 5_000, "{met:?}");
}

/// ABIs that only this decoder takes: what is read must be the whole value.
#[test]
fn generated_abis_with_containers_in_containers() {
    let mut refused = 0;
    for seed in 0..400 {
        let mut random = Rng::with_seed(seed);
        let draft = generate::draft(&mut random, Nesting::Any);
        let packed = draft.packed();
        let abi = Abi::from_binary(&packed, Deserializer::Compiled).expect("an ABI");
        refused += usize::from(AbiHandle::from_bin(&packed).is_err());
        for id in abi.types() {
            for _ in 0..4 {
                let mut data = Vec::new();
                generate::value(&mut random, &draft, abi.type_name(id), 0, &mut data);
                let mut out = Out::default();
                let decoded = abi.decode(id, &data, &mut out).expect("a value");
                assert_eq!(decoded, Decoded { consumed: data.len(), repaired: false });
                json(&out);
            }
        }
    }
    assert!(refused > 20, "{refused} were beyond rs_abieos");
}

#[test]
fn mutated_abis() {
    let mut known = Met::new();
    for seed in 0..300 {
        let mut random = Rng::with_seed(seed);
        let draft = generate::draft(&mut random, Nesting::Abieos);
        for _ in 0..40 {
            let mut packed = draft.packed();
            if random.bool() {
                // One letter for another, mostly in a name.
                let place = random.usize(..packed.len());
                packed[place] ^= 1 << random.u8(..3);
            } else {
                generate::mutate(&mut random, &mut packed);
            }
            let own = Abi::from_binary(&packed, Deserializer::Compiled).map_err(|error| error.to_string());
            let theirs = AbiHandle::from_bin(&packed).map_err(|error| error.to_string());
            let verdict = match (&own, &theirs) {
                (Ok(_), Ok(_)) => "both",
                (Err(_), Err(_)) => "neither",
                // Text that is not UTF-8, in Ricardian contracts as well; containers in containers by typedef;
                // bytes after the end, which it takes for a part of its own.
                (Ok(_), Err(message)) if message.contains("Invalid encoding") => "not UTF-8",
                (Ok(_), Err(message)) if message.contains("nesting") => "containers",
                (Ok(_), Err(message)) if message.contains("read datastream") => "bytes after the end",
                (Err(message), Ok(_)) if message.contains("directly") => "direct nesting",
                (Err(message), Ok(_)) if message.contains("version") => "version 2",
                _ => panic!("{:?}\n{theirs:?}\n{packed:02x?}", own.map(drop), theirs = theirs.map(drop)),
            };
            *known.entry(verdict).or_default() += 1;
        }
    }
    println!("{known:?}");
    assert!(known["both"] > 500 && known["neither"] > 500, "{known:?}");
}

/// All actions, rows and return values with all ABIs of their contracts, and the node's own rows.
#[test]
fn recordings() {
    let Some(directory) = captures() else { return };
    let mut met = Met::new();
    for (name, frames) in [("mixed", usize::MAX), ("spring", usize::MAX), ("fork", 200), ("load", 60)] {
        let mut capture = Capture::open(directory.join(format!("{name}.shipcap.zst")));
        capture.frames.truncate(frames);
        let ship = Abi::from_json(&capture.ship_abi, Deserializer::Compiled).expect("the node's ABI");
        let mut ship_abieos = AbiHandle::from_json(&capture.ship_abi).expect("the node's ABI");
        for frame in &capture.frames {
            compare(&ship, &mut ship_abieos, "result", frame, &mut met);
        }
        let mut contracts = Contracts::default();
        for block in capture.blocks() {
            for (table, data) in &block.native {
                compare(&ship, &mut ship_abieos, table, data, &mut met);
            }
            contracts.add(block);
        }
        for contract in contracts.all() {
            for bytes in &contract.abis {
                if let (Ok(abi), Ok(mut abieos)) =
                    (Abi::from_binary(bytes, Deserializer::Compiled), AbiHandle::from_bin(bytes))
                {
                    for (kind, data) in contract.typed(&abi) {
                        compare(&abi, &mut abieos, kind, data, &mut met);
                    }
                }
            }
        }
    }
    println!("{met:?}");
    if met.values().sum::<usize>() > 0 {
        assert!(met["equal"] > 50_000, "{met:?}");
    }
}
