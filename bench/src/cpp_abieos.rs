//! C++ abieos behind its C interface, which is the only way to it: hence the unsafe calls, here alone.
#![allow(unsafe_code)]

use parser::out::Out;
use std::ffi::CStr;

use anyhow::{Result, ensure};
use rs_abieos::cpp_oracle;

/// A context with ABIs; each stands for a contract named by its place.
pub struct CppAbieos(*mut cpp_oracle::abieos_context);

// === impl CppAbieos ===

impl CppAbieos {
    /// Reads packed ABIs.
    pub fn new<'a>(abis: impl Iterator<Item = &'a [u8]>) -> Result<CppAbieos> {
        // SAFETY: takes nothing; what it gives is destroyed once, in `drop`.
        let cpp = CppAbieos(unsafe { cpp_oracle::abieos_create() });
        ensure!(!cpp.0.is_null(), "C++ abieos has no memory");
        for (index, abi) in abis.enumerate() {
            // SAFETY: the context is valid, and the pointer with its length is that of a slice, which is only read.
            let read = unsafe {
                cpp_oracle::abieos_set_abi_bin(cpp.0, index as u64, abi.as_ptr().cast(), abi.len())
            };
            ensure!(read == 1, "C++ abieos refuses an ABI");
        }
        Ok(cpp)
    }

    /// Appends the JSON; nothing where that fails.
    pub fn decode(&self, abi: usize, type_name: &CStr, data: &[u8], out: &mut Out) {
        // SAFETY: the context is valid, the name ends with a zero, and data's pointer and length are a slice's. The text
        // belongs to the context until the next call and is copied before.
        unsafe {
            let json = cpp_oracle::abieos_bin_to_json(
                self.0,
                abi as u64,
                type_name.as_ptr(),
                data.as_ptr().cast(),
                data.len(),
            );
            if !json.is_null() {
                out.append(CStr::from_ptr(json).to_bytes());
            }
        }
    }
}

impl Drop for CppAbieos {
    fn drop(&mut self) {
        // SAFETY: created in `new`, and destroyed nowhere else.
        unsafe { cpp_oracle::abieos_destroy(self.0) }
    }
}
