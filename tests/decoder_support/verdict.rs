//! Which differences to `rs_abieos` are right.

use parser::abi::{DecodeError, Decoded, Reason};
use serde::Deserialize;
use serde_json::Value;

/// What the two results are to each other, or `None` if that is not right.
pub fn verdict(
    own: &Result<Decoded, DecodeError>,
    own_text: &str,
    theirs: &Result<String, String>,
) -> Option<&'static str> {
    let bad_text = |message: &String| message.contains("Invalid encoding in string");
    match (own, theirs) {
        (Ok(own), Ok(theirs)) if own_text == theirs => (!own.repaired).then_some("equal"),
        (Ok(own), Ok(theirs)) => {
            let mut repaired = false;
            alike(&json(own_text.as_bytes()), &json(theirs.as_bytes()), &mut repaired)?;
            (own.repaired == repaired).then_some("year or symbol")
        }
        // It refuses text that is not UTF-8, also within WebAuthn's keys, where nothing is to repair.
        (Ok(own), Err(message)) => {
            let accounted = own.repaired || own_text.contains("_WA_");
            (bad_text(message) && accounted).then_some("repaired")
        }
        (Err(_), Ok(_)) => None,
        (Err(_), Err(message)) if bad_text(message) => Some("refused further on"),
        (Err(own), Err(message)) => {
            let truncated = message.contains("read datastream");
            (truncated == (own.reason == Reason::Truncated)).then_some("refused")
        }
    }
}

/// Equal but for years of more than four digits, and for symbols whose bytes `rs_abieos` takes for Latin-1.
fn alike(own: &Value, theirs: &Value, repaired: &mut bool) -> Option<()> {
    match (own, theirs) {
        (Value::String(own), Value::String(theirs)) if own != theirs => {
            let latin: Option<Vec<u8>> = theirs.chars().map(|c| u8::try_from(c).ok()).collect();
            let marks = |bytes: &[u8]| -> String {
                let chunks = bytes.utf8_chunks();
                chunks.map(|chunk| chunk.valid().to_owned() + &"?".repeat(chunk.invalid().len())).collect()
            };
            if latin.as_deref().is_some_and(|bytes| marks(bytes) == *own) {
                *repaired |= latin.is_some_and(|bytes| std::str::from_utf8(&bytes).is_err());
                return Some(());
            }
            // `YYYY-MM-DDTHH:MM:SS.mmm`, after 9999 or before 1970.
            let shape = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "0");
            let (year, rest) = theirs.split_once('-')?;
            let far = year.parse::<u32>().is_ok_and(|year| year > 9999);
            (far && shape(own) == format!("0000-{}", shape(rest))).then_some(())
        }
        (Value::Array(own), Value::Array(theirs)) if own.len() == theirs.len() => {
            own.iter().zip(theirs).try_for_each(|(own, theirs)| alike(own, theirs, repaired))
        }
        (Value::Object(own), Value::Object(theirs)) if own.len() == theirs.len() => {
            own.iter().zip(theirs).try_for_each(|((key, own), (their_key, theirs))| {
                (key == their_key).then(|| alike(own, theirs, repaired))?
            })
        }
        _ => (own == theirs).then_some(()),
    }
}

/// Parsed JSON, however deep.
pub fn json(bytes: &[u8]) -> Value {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    deserializer.disable_recursion_limit();
    Value::deserialize(&mut deserializer).expect("JSON")
}
