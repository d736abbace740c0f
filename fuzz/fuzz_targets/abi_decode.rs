//! Any bytes as an ABI, any bytes as its values: no crash, no endless work, and what `rs_abieos` says of the same.
//!
//! The input is the length of the ABI (two bytes, little-endian), the ABI, and the data to read as each of its types.
//! `scripts/fuzz-seed` makes a corpus of recorded ABIs and values. On a stable toolchain:
//!
//! ```text
//! scripts/fuzz-seed ../shared/captures
//! RUSTC_BOOTSTRAP=1 cargo fuzz run abi_decode -s none -- -max_len=8192 -max_total_time=600
//! ```

#![no_main]

use std::collections::HashSet;

use libfuzzer_sys::fuzz_target;
use parser::abi::{Abi, Deserializer};
use parser::out::Out;
use rs_abieos::{AbiHandle, Abieos};

#[path = "../../tests/decoder_support/verdict.rs"]
mod verdict;

/// Types of one ABI that are tried.
const TYPES: usize = 64;

fuzz_target!(|input: &[u8]| {
    let Some((length, rest)) = input.split_first_chunk() else { return };
    let (packed, data) = rest.split_at(rest.len().min(usize::from(u16::from_le_bytes(*length))));
    let Ok(abi) = Abi::from_binary(packed, Deserializer::Compiled) else { return };
    let mut abieos = AbiHandle::from_bin(packed).ok();
    for id in abi.types().take(TYPES) {
        let mut out = Out::default();
        let own = abi.decode(id, data, &mut out);
        let text = std::str::from_utf8(&out).expect("JSON is text");
        if let Ok(decoded) = &own {
            assert!(decoded.consumed <= data.len());
            verdict::json(&out);
        }
        // Values that rs_abieos would crash on, or work at without end.
        let beyond = own.as_ref().is_err_and(|error| {
            ["nested deeper", "too much text", "more than 16384"]
                .iter()
                .any(|limit| error.message.starts_with(limit))
        });
        if let (Some(abieos), false) = (&mut abieos, beyond) {
            let theirs = abieos.bin_to_json(abi.type_name(id), data).map_err(|error| error.to_string());
            if verdict::verdict(&own, text, &theirs).is_none() && !beyond_comparing(packed) {
                panic!("{} {data:02x?}\nown {own:?} {text}\nabieos {theirs:?}", abi.type_name(id));
            }
        }
    }
});

/// Whether a struct's base is named by a typedef: `rs_abieos` then takes the base for empty if its name sorts behind.
/// Or whether a struct has two fields of one name: parsed JSON has only one of them left to compare.
fn beyond_comparing(packed: &[u8]) -> bool {
    let Ok(json) = Abieos::new().abi_bin_to_json(packed) else { return true };
    let abi = verdict::json(json.as_bytes());
    let items = |part: &str| abi[part].as_array().cloned().unwrap_or_default();
    let typedefs: Vec<_> = items("types").iter().map(|typedef| typedef["new_type_name"].clone()).collect();
    let structs = items("structs");
    structs.iter().any(|of| {
        let mut names = HashSet::new();
        let mut twice = false;
        let mut at = Some(of);
        // `rs_abieos` has accepted the ABI: no base is its own.
        while let Some(part) = at {
            let fields = part["fields"].as_array().into_iter().flatten();
            twice |= fields.map(|field| field["name"].to_string()).any(|name| !names.insert(name));
            at = structs.iter().find(|base| base["name"] == part["base"]);
        }
        twice || typedefs.contains(&of["base"])
    })
}
