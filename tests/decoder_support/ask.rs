//! Short ways to compile and decode.

use parser::abi::{Abi, DecodeError, Decoded, Deserializer};
use parser::name::Name;
use parser::out::Out;

use super::draft::Draft;

pub fn compiled(draft: &Draft) -> Abi {
    Abi::from_binary(&draft.packed(), Deserializer::Compiled)
        .unwrap_or_else(|error| panic!("{error}: {draft:?}"))
}

pub fn refusal(draft: &Draft) -> String {
    Abi::from_binary(&draft.packed(), Deserializer::Compiled).expect_err("refused").to_string()
}

pub fn decode(abi: &Abi, kind: &str, data: &[u8]) -> Result<(String, Decoded), DecodeError> {
    let id = abi.type_named(kind).unwrap_or_else(|| panic!("no type `{kind}`"));
    let mut out = Out::default();
    let decoded = abi.decode(id, data, &mut out)?;
    Ok((String::from_utf8(out.to_vec()).expect("text"), decoded))
}

pub fn text_of(abi: &Abi, kind: &str, data: &[u8]) -> String {
    let (text, decoded) = decode(abi, kind, data).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(decoded, Decoded { consumed: data.len(), repaired: false });
    text
}

pub fn error_of(abi: &Abi, kind: &str, data: &[u8]) -> DecodeError {
    decode(abi, kind, data).expect_err("refused")
}

/// `eosio.token`'s transfer of the recordings (block 18, global sequence 236), its memo not UTF-8.
pub const TRANSFER: &str = "0000000000855c340000000000000e3d0200000000000000045359530000000001ff";

pub fn token() -> Draft {
    Draft::default()
        .structure(
            "transfer",
            "",
            &[("from", "name"), ("to", "name"), ("quantity", "asset"), ("memo", "string")],
        )
        .action(Name::literal("transfer"), "transfer")
}
