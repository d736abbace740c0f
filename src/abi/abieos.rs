//! Decoding with `rs_abieos`, for comparison.

use crate::out::Out;
use std::sync::{Mutex, PoisonError};

use rs_abieos::AbiHandle;

use super::{BadAbi, DecodeError, Decoded, Reason};

/// How deep values may be nested here: `rs_abieos` reads them by recursion, without a limit of its own.
pub(super) const LEVELS: u16 = 64;

/// An ABI as `rs_abieos` holds it. A handle decodes for one thread at a time, so each thread takes one or parses
/// the ABI anew.
pub(super) struct Handles {
    bytes: Box<[u8]>,
    idle: Mutex<Vec<AbiHandle>>,
}

// === impl Handles ===

impl Handles {
    pub fn new(bytes: &[u8]) -> Result<Handles, BadAbi> {
        let first = parse(bytes).map_err(|message| BadAbi(format!("rs_abieos: {message}")))?;
        Ok(Handles { bytes: bytes.into(), idle: Mutex::new(vec![first]) })
    }

    /// Appends the value to `out`. `rs_abieos` does not tell how far it read: everything counts as read.
    pub fn decode(&self, type_name: &str, data: &[u8], out: &mut Out) -> Result<Decoded, DecodeError> {
        let idle = self.idle().pop();
        let result = match idle.map_or_else(|| parse(&self.bytes), Ok) {
            Ok(mut handle) => {
                let result = handle.bin_to_json(type_name, data).map_err(|error| error.to_string());
                self.idle().push(handle);
                result
            }
            Err(message) => Err(message),
        };
        match result {
            Ok(json) => {
                out.append(json.as_bytes());
                Ok(Decoded { consumed: data.len(), repaired: false })
            }
            Err(message) => {
                let truncated = message.contains("read datastream");
                let reason = if truncated { Reason::Truncated } else { Reason::Invalid };
                Err(DecodeError { reason, path: String::new(), offset: 0, message })
            }
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<AbiHandle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn parse(bytes: &[u8]) -> Result<AbiHandle, String> {
    AbiHandle::from_bin(bytes).map_err(|error| error.to_string())
}
