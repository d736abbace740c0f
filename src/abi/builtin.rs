//! Values of the built-in types.

use super::decode::lend;
use super::input::{Fault, Input};
use super::program::{Builtin, Plain, SHORT};
use super::style::Style;
use super::{key, text, value};
use crate::number;
use crate::out::Out;

type Step = Result<(), Fault>;

/// Appends a field. What is short and frequent is inlined, the others are called.
#[inline(always)]
pub(super) fn field<S: Style>(
    field: &Plain,
    input: &mut Input<'_>,
    out: &mut Out,
    repaired: &mut bool,
) -> Step {
    let mut room = out.room();
    room.chunk(&field.key, usize::from(field.length).min(SHORT));
    match field.builtin {
        Builtin::Name => text::name(&mut room, input.u64()?),
        Builtin::Asset => {
            let bytes = input.u128()?;
            let (amount, symbol) = (bytes as i64, (bytes >> 64) as u64);
            if !value::short_asset(&mut room, amount, symbol) {
                room.end();
                *repaired |= out.lend(|out| value::asset::<S>(out, amount, symbol));
                return Ok(());
            }
        }
        Builtin::String => {
            let bytes = input.bytes()?;
            if !text::short_string(&mut room, bytes) {
                room.end();
                *repaired |= out.lend(|out| S::string(out, bytes));
                return Ok(());
            }
        }
        Builtin::Uint64 => S::uint64(&mut room, input.u64()?),
        Builtin::Uint32 => number::unsigned(&mut room, input.u32()?.into()),
        Builtin::Uint16 => number::unsigned(&mut room, input.u16()?.into()),
        Builtin::Uint8 => number::byte(&mut room, input.u8()?),
        Builtin::Bool => S::boolean(&mut room, input.u8()?),
        Builtin::Int64 => S::int64(&mut room, input.u64()? as i64),
        Builtin::Int32 => number::signed(&mut room, (input.u32()? as i32).into()),
        Builtin::Int16 => number::signed(&mut room, (input.u16()? as i16).into()),
        Builtin::Int8 => number::signed(&mut room, (input.u8()? as i8).into()),
        Builtin::Varuint32 => number::unsigned(&mut room, input.varuint32()?.into()),
        Builtin::Varint32 => {
            // Zigzag: the lowest bit is the sign.
            let bits = input.varuint32()?;
            number::signed(&mut room, ((bits >> 1) as i32 ^ -((bits & 1) as i32)).into());
        }
        _ => {
            room.end();
            return lend(input, out, |input, out| long::<S>(field.builtin, input, out, repaired));
        }
    }
    room.end();
    Ok(())
}

/// Appends a value without a key.
#[inline(never)]
pub(super) fn single<S: Style>(
    builtin: Builtin,
    input: &mut Input<'_>,
    out: &mut Out,
    repaired: &mut bool,
) -> Step {
    field::<S>(&Plain { key: [0; SHORT], length: 0, builtin }, input, out, repaired)
}

/// Appends a value that is long or rare.
#[inline(never)]
fn long<S: Style>(builtin: Builtin, input: &mut Input<'_>, out: &mut Out, repaired: &mut bool) -> Step {
    match builtin {
        Builtin::Bytes => S::hex(out, input.bytes()?),
        Builtin::Checksum256 => S::hex(out, &input.array::<32>()?),
        Builtin::Int128 => S::int128(out, input.u128()? as i128),
        Builtin::Uint128 => S::uint128(out, input.u128()?),
        Builtin::Float32 => S::float32(out, f32::from_bits(input.u32()?)),
        Builtin::Float64 => S::float64(out, f64::from_bits(input.u64()?)),
        Builtin::Float128 => S::float128(out, &input.array()?),
        Builtin::TimePoint => S::time_point(out, input.u64()? as i64),
        Builtin::TimePointSec => S::time_point_sec(out, input.u32()?),
        Builtin::BlockTimestamp => value::time(out, value::slot(input.u32()?)),
        Builtin::Checksum160 => S::hex(out, &input.array::<20>()?),
        Builtin::Checksum512 => S::hex(out, &input.array::<64>()?),
        Builtin::PublicKey => key::public::<S>(input, out)?,
        Builtin::PrivateKey => key::private(input, out)?,
        Builtin::Signature => key::signature::<S>(input, out)?,
        Builtin::Symbol => *repaired |= value::symbol::<S>(out, input.u64()?),
        Builtin::SymbolCode => *repaired |= S::symbol_code(out, input.u64()?),
        Builtin::Bitset => {
            let mut count = 0;
            let bits = input.counted(|bits| {
                count = bits;
                bits.div_ceil(8)
            })?;
            value::bitset(out, count, bits);
        }
        // All others are short.
        _ => {}
    }
    Ok(())
}
