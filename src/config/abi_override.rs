//! ABIs that the user gives for a contract and a range of blocks, because the one on the chain is wrong.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::effective;
use super::place::Place;
use crate::base64;
use crate::cursor::Cursor;
use crate::hex;
use crate::name::Name;

/// One ABI for one contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AbiOverride {
    /// The contract.
    #[serde(serialize_with = "effective::shown")]
    pub contract: Name,
    /// The first block it holds for.
    pub from_block: u32,
    /// The last block it holds for; `None`: without end.
    pub to_block: Option<u32>,
    /// Where it was read from.
    pub file: PathBuf,
    /// The packed ABI (`abi_def`).
    #[serde(skip)]
    pub abi: Vec<u8>,
}

// === impl AbiOverride ===

impl AbiOverride {
    /// Whether it holds in this block.
    pub fn holds_in(&self, block: u32) -> bool {
        self.from_block <= block && self.to_block.is_none_or(|to| block <= to)
    }

    /// Whether there are blocks that both hold in.
    fn overlaps(&self, other: &AbiOverride) -> bool {
        self.contract == other.contract
            && (self.holds_in(other.from_block) || other.holds_in(self.from_block))
    }
}

/// Reads the list, and the files named in it from `folder`.
pub(super) fn read(list: &Place<'_>, folder: &Path) -> Vec<AbiOverride> {
    let mut overrides: Vec<AbiOverride> = Vec::new();
    for place in list.items(false) {
        place.check_keys(&["contract", "fromBlock", "toBlock", "file"]);
        let (contract, file) = (place.at("contract"), place.at("file"));
        contract.require();
        file.require();
        let from_block = place.at("fromBlock").number32(0).unwrap_or(0);
        let to_block = place.at("toBlock").number32(0);
        if to_block.is_some_and(|to| to < from_block) {
            place.problem("toBlock is below fromBlock");
        }
        let (Some(contract), Some(path)) = (contract.parsed(), file.given()) else { continue };
        let path = folder.join(&path.text);
        let abi = match load(&path) {
            Ok(abi) => abi,
            Err(error) => {
                file.problem(error);
                continue;
            }
        };
        let new = AbiOverride { contract, from_block, to_block, file: path, abi };
        if overrides.iter().any(|other| other.overlaps(&new)) {
            place.problem(format!("another ABI of {contract} is given for some of these blocks"));
        }
        overrides.push(new);
    }
    overrides
}

/// Reads a packed ABI from a file that holds it as it is, in hexadecimal digits, or in base64 (as the chain API's
/// get_raw_abi gives it).
fn load(file: &Path) -> Result<Vec<u8>, String> {
    let bytes = std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let abi = packed(&bytes).ok_or_else(|| {
        let json = bytes.trim_ascii_start().starts_with(b"{");
        let what = if json { "is an ABI in JSON" } else { "is no ABI" };
        format!(
            "{} {what}: a packed ABI (eosio::abi/1.x) is expected, in binary, hexadecimal or base64 \
             (the field `abi` of the chain API's get_raw_abi)",
            file.display()
        )
    })?;
    Ok(abi)
}

fn packed(bytes: &[u8]) -> Option<Vec<u8>> {
    if has_abi_version(bytes) {
        return Some(bytes.to_vec());
    }
    let text = std::str::from_utf8(bytes).ok()?.trim();
    // Base64 after hexadecimal: digits alone would be both.
    let from_hex = hex::parse(text).filter(|abi| has_abi_version(abi));
    from_hex.or_else(|| base64::decode(text).filter(|abi| has_abi_version(abi)))
}

fn has_abi_version(bytes: &[u8]) -> bool {
    Cursor::new(bytes).bytes().is_ok_and(|version| version.starts_with(b"eosio::abi/1."))
}

#[cfg(test)]
mod tests {
    use ::base64::Engine;
    use ::base64::engine::general_purpose::STANDARD;

    use super::*;

    // A whole ABI without types: its version and nine empty lists.
    const ABI: &[u8] = b"\x0eeosio::abi/1.2\0\0\0\0\0\0\0\0\0";

    #[test]
    fn binary_hexadecimal_and_base64_are_read() {
        let in_hex = hex::lower(ABI) + "\n";
        let in_base64 = STANDARD.encode(ABI) + "\n";
        for bytes in [ABI, in_hex.as_bytes(), in_base64.as_bytes()] {
            assert_eq!(packed(bytes).as_deref(), Some(ABI));
        }
        for bytes in [&b""[..], b"{}", b"0eff", b"\x0eeosio::abi/2.0\0", b"\xff\xff"] {
            assert_eq!(packed(bytes), None);
        }
    }
}
