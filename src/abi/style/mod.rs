//! How values are written as JSON: in one of two styles, which consumers choose between (`json` in the
//! configuration). What both write alike is in [`super::text`] and [`super::value`].

mod abieos;
mod wharfkit;

pub(super) use abieos::Abieos;
pub(super) use wharfkit::Wharfkit;

use crate::out::{Out, Room};

/// The styles, to be chosen when an ABI is compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Json {
    /// [`Abieos`].
    #[default]
    Abieos,
    /// [`Wharfkit`].
    Wharfkit,
}

/// What differs between the styles. Functions that return `bool` say whether a `?` stands for bytes that are no text.
pub(super) trait Style {
    /// What is written for an extension that the bytes end before. Without it the field is left out, and that only at
    /// the end of the whole value: an extension missing elsewhere is an error.
    const MISSING: Option<&'static [u8; 4]>;

    /// Whether the lengths inside a WebAuthn key or signature count as they were sent, or in their shortest form.
    const WEBAUTHN_AS_SENT: bool;

    /// Appends a character of a string: one below a space, `"`, `\` or DEL.
    fn escape(out: &mut Out, byte: u8);

    /// Appends a string; bytes that are no text become `?`.
    fn string(out: &mut Out, bytes: &[u8]) -> bool;

    /// Appends a `bool`.
    fn boolean(room: &mut Room, byte: u8);

    /// Appends an `int64`.
    fn int64(room: &mut Room, value: i64);

    /// Appends a `uint64`.
    fn uint64(room: &mut Room, value: u64);

    /// Appends an `int128`.
    fn int128(out: &mut Out, value: i128);

    /// Appends a `uint128`.
    fn uint128(out: &mut Out, value: u128);

    /// Appends bytes or a checksum.
    fn hex(out: &mut Out, bytes: &[u8]);

    /// Appends a `float32`.
    fn float32(out: &mut Out, value: f32);

    /// Appends a `float64`.
    fn float64(out: &mut Out, value: f64);

    /// Appends a `float128`.
    fn float128(out: &mut Out, bytes: &[u8; 16]);

    /// Appends a `time_point`: microseconds since 1970.
    fn time_point(out: &mut Out, microseconds: i64);

    /// Appends a `time_point_sec`.
    fn time_point_sec(out: &mut Out, seconds: u32);

    /// Appends a `symbol_code`.
    fn symbol_code(out: &mut Out, value: u64) -> bool;
}
