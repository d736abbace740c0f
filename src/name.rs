//! Antelope names: 64-bit integers that read as up to 13 characters of `.1-5a-z`.

use crate::out::Out;
use std::fmt;
use std::str::FromStr;

/// An account, action, table, scope or permission name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Name(pub u64);

/// Why a text is no name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// More than 13 characters.
    #[error("`{0}` is not an Antelope name: it has more than 13 characters")]
    TooLong(String),
    /// A character outside `.1-5a-z`, or outside `.1-5a-j` in the 13th place.
    #[error("`{text}` is not an Antelope name: character {place} (`{character}`) is not one of {allowed}")]
    BadCharacter {
        /// The whole text.
        text: String,
        /// 1-based place of the character.
        place: usize,
        /// The character.
        character: char,
        /// The characters allowed there.
        allowed: &'static str,
    },
    /// A dot at the end: it would be lost, as names are padded with dots.
    #[error("`{0}` is not an Antelope name: it ends in a dot")]
    TrailingDot(String),
}

const ALPHABET: &[u8; 32] = b".12345abcdefghijklmnopqrstuvwxyz";

/// Two characters, ten bits, at a time.
static PAIRS: [[u8; 2]; 1024] = {
    let mut table = [[0; 2]; 1024];
    let mut i = 0;
    while i < table.len() {
        table[i] = [ALPHABET[i >> 5], ALPHABET[i & 31]];
        i += 1;
    }
    table
};

// === impl Name ===

impl Name {
    /// A name known at compile time.
    ///
    /// # Panics
    /// At compile time, if the text is no name.
    pub const fn literal(text: &str) -> Name {
        let bytes = text.as_bytes();
        assert!(bytes.len() <= 13, "a name has at most 13 characters");
        let mut value = 0u64;
        let mut i = 0;
        while i < bytes.len() {
            match symbol(bytes[i]) {
                Some(s) if i < 12 => value |= s << (59 - 5 * i),
                Some(s) if s < 16 => value |= s,
                _ => panic!("not a name"),
            }
            i += 1;
        }
        Name(value)
    }

    /// Appends the name's characters, without trailing dots, to `out`.
    #[inline]
    pub fn write_to(self, out: &mut Out) {
        let (text, len) = self.characters();
        out.chunk(&text.to_le_bytes(), len);
    }

    /// The characters, the first in the lowest byte, and how many of them count. They are put together in a register: from
    /// memory, reading as one what was written in pieces would wait.
    #[inline]
    pub(crate) fn characters(self) -> (u128, usize) {
        // Twelve symbols of five bits from the top, then one of four bits.
        let pair = |i: u32| {
            let pair = PAIRS[(self.0 >> (54 - 10 * i)) as usize & 1023];
            u128::from(u16::from_le_bytes(pair)) << (16 * i)
        };
        let last = u128::from(ALPHABET[self.0 as usize & 15]) << 96;
        let text = pair(0) | pair(1) | pair(2) | pair(3) | pair(4) | pair(5) | last;
        // Dots at the end are padding: the lowest bit set tells the last character.
        let len = match self.0 & 15 {
            0 => 12 - ((self.0 >> 4).trailing_zeros().min(60) / 5) as usize,
            _ => 13,
        };
        (text, len)
    }
}

const fn symbol(c: u8) -> Option<u64> {
    match c {
        b'.' => Some(0),
        b'1'..=b'5' => Some((c - b'1') as u64 + 1),
        b'a'..=b'z' => Some((c - b'a') as u64 + 6),
        _ => None,
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Name, NameError> {
        let mut value = 0u64;
        for (i, character) in text.chars().enumerate() {
            if i >= 13 {
                return Err(NameError::TooLong(text.to_owned()));
            }
            let bits = u8::try_from(character).ok().and_then(symbol);
            match bits {
                Some(s) if i < 12 => value |= s << (59 - 5 * i),
                Some(s) if s < 16 => value |= s,
                _ => {
                    return Err(NameError::BadCharacter {
                        text: text.to_owned(),
                        place: i + 1,
                        character,
                        allowed: if i < 12 {
                            "`.`, `1` to `5`, `a` to `z`"
                        } else {
                            "`.`, `1` to `5`, `a` to `j`"
                        },
                    });
                }
            }
        }
        if text.ends_with('.') {
            return Err(NameError::TrailingDot(text.to_owned()));
        }
        Ok(Name(value))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (text, len) = self.characters();
        f.pad(std::str::from_utf8(&text.to_le_bytes()[..len]).unwrap_or_default())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values_read_both_ways() {
        // Values from nodeos' own tests (libraries/chain: name_tests) and the SHiP recordings.
        for (text, value) in [
            ("", 0u64),
            ("a", 0x3000000000000000),
            ("eosio", 0x5530ea0000000000),
            ("eosio.token", 0x5530ea033482a600),
            ("zzzzzzzzzzzzj", u64::MAX),
            (".1", 1 << 54),
            ("............1", 1),
        ] {
            assert_eq!(text.parse::<Name>(), Ok(Name(value)), "{text}");
            assert_eq!(Name(value).to_string(), text);
            assert_eq!(Out::text(|out| Name(value).write_to(out)), text);
        }
        assert_eq!(Name::literal("eosio.token"), Name(0x5530ea033482a600));
    }

    #[test]
    fn texts_that_are_no_names_are_refused_with_the_character() {
        for (text, part) in [
            ("Alice", "character 1 (`A`)"),
            ("bob6", "character 4 (`6`)"),
            ("zzzzzzzzzzzzk", "character 13 (`k`)"),
            ("aaaaaaaaaaaaaa", "more than 13"),
            ("alice.", "ends in a dot"),
            ("größe", "character 3 (`ö`)"),
        ] {
            let error = text.parse::<Name>().expect_err(text).to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
