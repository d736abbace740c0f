//! Base64, as the ABI history holds it, and read as nodeos writes it.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// nodeos up to Leap 4 puts one `=` behind every text, whatever its length: padding says nothing.
const ENGINE: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone),
);

/// The bytes of `text`, with any number of `=` at its end; `None` where it is no base64.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    ENGINE.decode(text.trim_end_matches('=')).ok()
}

/// Appends `bytes`, padded as RFC 4648 says.
pub fn encode(bytes: &[u8], out: &mut String) {
    ENGINE.encode_string(bytes, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_padding_is_read_and_the_right_one_written() {
        for text in ["Zg", "Zg=", "Zg==", "Zg==="] {
            assert_eq!(decode(text).as_deref(), Some(&b"f"[..]), "{text}");
        }
        assert_eq!(decode("=").as_deref(), Some(&b""[..]));
        assert_eq!(decode("Z*"), None);
        let mut out = String::from("1:");
        encode(b"f", &mut out);
        assert_eq!(out, "1:Zg==");
    }
}
