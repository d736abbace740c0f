//! What names a block: its number and its id.

use std::fmt;
use std::str::FromStr;

use crate::hex;

/// A SHA-256 sum: a block, transaction or chain id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Checksum(pub [u8; 32]);

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::lower(&self.0))
    }
}

impl fmt::Debug for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A text that is not 64 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no id: 64 hexadecimal digits are expected")]
pub struct ChecksumError(String);

impl FromStr for Checksum {
    type Err = ChecksumError;

    fn from_str(text: &str) -> Result<Checksum, ChecksumError> {
        hex::parse(text)
            .and_then(|bytes| bytes.try_into().ok())
            .map(Checksum)
            .ok_or_else(|| ChecksumError(text.to_owned()))
    }
}

/// A block by number and id (SHiP's `block_position`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Position {
    /// The block's number.
    pub num: u32,
    /// The block's id.
    pub id: Checksum,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.num, self.id)
    }
}
