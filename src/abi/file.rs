//! ABIs as people keep them: packed bytes, hexadecimal digits, base64 or JSON; and their JSON as abieos writes it.

use rs_abieos::Abieos;
use serde_json::Value;

use super::BadAbi;
use super::def::Definition;
use crate::{base64, hex};

/// How every packed ABI goes on behind the length of its version.
const MARK: &[u8] = b"eosio::abi/";

/// The packed ABI that a file holds: JSON (an ABI itself, or an answer of get_abi or get_raw_abi), hexadecimal digits,
/// base64, or the packed bytes as they are. Whether these are a valid ABI is not checked.
pub fn read(contents: &[u8]) -> Result<Vec<u8>, BadAbi> {
    let text = std::str::from_utf8(contents).map(str::trim).unwrap_or_default();
    if text.starts_with('{') {
        return from_json(text);
    }
    if let Some(bytes) = hex::parse(text).filter(|bytes| !bytes.is_empty()) {
        return Ok(bytes);
    }
    match base64::decode(text) {
        Some(bytes) if is_packed(&bytes) => Ok(bytes),
        _ => Ok(contents.to_vec()),
    }
}

/// The packed ABI that a JSON text describes.
pub fn from_json(text: &str) -> Result<Vec<u8>, BadAbi> {
    let value: Value = serde_json::from_str(text).map_err(|error| BadAbi(format!("not JSON: {error}")))?;
    let pack = |json: &str| {
        let packed = Abieos::new().abi_json_to_bin(json);
        packed.map_err(|error| BadAbi(format!("not an ABI in JSON: {error}")))
    };
    match value.get("abi") {
        // Written anew: rs_abieos does not read characters in two `\u` escapes.
        None => pack(&value.to_string()),
        Some(Value::String(inner)) if inner.trim_start().starts_with('{') => pack(inner),
        Some(Value::String(inner)) => {
            base64::decode(inner).ok_or_else(|| BadAbi("`abi` is neither base64 nor JSON".to_owned()))
        }
        Some(inner) => pack(&inner.to_string()),
    }
}

/// A packed ABI as JSON, as abieos writes it.
pub fn to_json(packed: &[u8]) -> Result<Value, BadAbi> {
    // Bytes behind the known parts are allowed, but abieos refuses them.
    let known = Definition::length(packed).and_then(|length| packed.get(..length)).unwrap_or(packed);
    let json = Abieos::new().abi_bin_to_json(known).map_err(|error| BadAbi(error.to_string()))?;
    serde_json::from_str(&json).map_err(|error| BadAbi(format!("its JSON does not read: {error}")))
}

fn is_packed(bytes: &[u8]) -> bool {
    bytes.get(1..=MARK.len()) == Some(MARK)
}
