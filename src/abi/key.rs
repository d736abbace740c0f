//! Keys and signatures: base58 with a RIPEMD-160 check over the bytes and the kind's two letters.

use ripemd::{Digest, Ripemd160};

use super::input::{Fault, Input};
use super::style::Style;
use crate::out::Out;

/// Longest WebAuthn key or signature that is read. Base58 takes a time that grows with the square of the length;
/// nodeos itself takes no signature of more bytes by default (`maximum_variable_signature_length`).
pub(super) const LONGEST: usize = 16_384;

type Result<T> = std::result::Result<T, Fault>;

/// Reads a `public_key`: of curve K1 or R1, or WebAuthn's with its presence byte and relying party.
pub(super) fn public<S: Style>(input: &mut Input, out: &mut Out) -> Result<()> {
    read::<33>(input, out, b"PUB", |input, body| {
        body.push(input.u8()?);
        counted::<S>(input, body)
    })
}

/// Reads a `private_key`.
pub(super) fn private(input: &mut Input, out: &mut Out) -> Result<()> {
    read::<32>(input, out, b"PVT", |_, _| Err(Fault::Key))
}

/// Reads a `signature`: of curve K1 or R1, or WebAuthn's with the authenticator's and the client's data.
pub(super) fn signature<S: Style>(input: &mut Input, out: &mut Out) -> Result<()> {
    read::<65>(input, out, b"SIG", |input, body| {
        counted::<S>(input, body)?;
        counted::<S>(input, body)
    })
}

fn read<const SIZE: usize>(
    input: &mut Input,
    out: &mut Out,
    prefix: &[u8; 3],
    rest_of_webauthn: impl FnOnce(&mut Input, &mut Vec<u8>) -> Result<()>,
) -> Result<()> {
    let start = *input;
    let kind: &[u8; 2] = match input.varuint32()? {
        0 => b"K1",
        1 => b"R1",
        2 if prefix != b"PVT" => b"WA",
        _ => {
            *input = start;
            return Err(Fault::Key);
        }
    };
    let key = input.array::<SIZE>()?;
    out.push(b'"');
    out.append(prefix);
    out.push(b'_');
    out.append(kind);
    out.push(b'_');
    if kind == b"WA" {
        let mut body = key.to_vec();
        rest_of_webauthn(input, &mut body)?;
        if body.len() > LONGEST {
            *input = start;
            return Err(Fault::LongKey);
        }
        body.extend_from_slice(&check(&body, kind));
        base58(out, &body, &mut vec![0; body.len() / 7 + 1]);
    } else {
        let mut body = [0; 69];
        body[..SIZE].copy_from_slice(&key);
        body[SIZE..SIZE + 4].copy_from_slice(&check(&key, kind));
        base58(out, &body[..SIZE + 4], &mut [0; 10]);
    }
    out.push(b'"');
    Ok(())
}

/// Copies bytes with their length: as it was sent, or in its shortest form.
fn counted<S: Style>(input: &mut Input, body: &mut Vec<u8>) -> Result<()> {
    let sent = input.rest();
    let bytes = input.bytes()?;
    let size = sent.len() - input.left() - bytes.len();
    if S::WEBAUTHN_AS_SENT {
        body.extend_from_slice(&sent[..size]);
    } else {
        let mut length = bytes.len();
        while length >= 0x80 {
            body.push(length as u8 | 0x80);
            length >>= 7;
        }
        body.push(length as u8);
    }
    body.extend_from_slice(bytes);
    Ok(())
}

fn check(body: &[u8], kind: &[u8; 2]) -> [u8; 4] {
    let sum = Ripemd160::new().chain_update(body).chain_update(kind).finalize();
    [sum[0], sum[1], sum[2], sum[3]]
}

const DIGITS: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

/// Two digits at a time.
static PAIRS: [[u8; 2]; 58 * 58] = {
    let mut table = [[0; 2]; 58 * 58];
    let mut i = 0;
    while i < table.len() {
        table[i] = [DIGITS[i / 58], DIGITS[i % 58]];
        i += 1;
    }
    table
};

/// Appends `bytes` in base 58. `limbs` is scratch space, all 0, of more than 1/7 of the bytes' number.
fn base58(out: &mut Out, bytes: &[u8], limbs: &mut [u64]) {
    // Ten digits at a time: what fits into 64 bits.
    const BASE: u64 = 58u64.pow(10);
    const INVERSE: u64 = ((1 << 96) / BASE as u128) as u64;
    let mut used = 0;
    let (head, words) = bytes.as_rchunks::<4>();
    let head = head.iter().fold(0, |word, &byte| word << 8 | u64::from(byte));
    let words = words.iter().map(|word| u64::from(u32::from_be_bytes(*word)));
    for word in std::iter::once(head).chain(words) {
        // Below 2³², as is each quotient.
        let mut carry = word;
        for limb in &mut limbs[..used] {
            // `limb` · 2³² + `carry` by `BASE`: the quotient so found is right or one too small, and the rest, below
            // twice the base, is right in its low 64 bits.
            let quotient = ((u128::from(*limb) * u128::from(INVERSE)) >> 64) as u64;
            let rest = (*limb << 32 | carry).wrapping_sub(quotient.wrapping_mul(BASE));
            let more = u64::from(rest >= BASE);
            *limb = rest - BASE * more;
            carry = quotient + more;
        }
        if carry > 0 {
            limbs[used] = carry;
            used += 1;
        }
    }

    let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
    out.space(zeros).fill(DIGITS[0]);
    let mut limbs = limbs[..used].iter().rev();
    if let Some(&first) = limbs.next() {
        let mut ten = [0; 10];
        ten_digits(&mut ten, first);
        let padding = ten.iter().take_while(|&&digit| digit == DIGITS[0]).count();
        out.append(&ten[padding..]);
    }
    for &limb in limbs {
        ten_digits(out.space(10), limb);
    }
}

fn ten_digits(text: &mut [u8], mut value: u64) {
    for pair in text.as_chunks_mut().0.iter_mut().rev() {
        *pair = PAIRS[(value % (58 * 58)) as usize];
        value /= 58 * 58;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::style::{Abieos, Wharfkit};

    #[test]
    fn base58_is_that_of_the_library() {
        let mut random = fastrand::Rng::with_seed(58);
        for length in 0..200 {
            let mut bytes: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
            let zeros = if length % 3 == 0 { random.usize(..=length) } else { 0 };
            bytes[..zeros].fill(0);
            if length % 5 == 0 {
                bytes[zeros..].fill(0xff);
            }
            let text = Out::text(|out| base58(out, &bytes, &mut vec![0; length / 7 + 1]));
            assert_eq!(text, bs58::encode(&bytes).into_string(), "{bytes:?}");
        }
    }

    #[test]
    fn a_well_known_key() {
        // The development key of nodeos' documentation: EOS6MRyAjQq8ud7hVNYcfnVPJqcVpscN5So8BhtHuGYqET5GDW5CV in the
        // older spelling, which differs in prefix and check only.
        let older =
            bs58::decode("6MRyAjQq8ud7hVNYcfnVPJqcVpscN5So8BhtHuGYqET5GDW5CV").into_vec().expect("base58");
        let bytes = [&[0][..], &older[..33]].concat();
        let text = Out::text(|out| assert_eq!(public::<Abieos>(&mut Input::new(&bytes), out), Ok(())));
        assert_eq!(text, "\"PUB_K1_6MRyAjQq8ud7hVNYcfnVPJqcVpscN5So8BhtHuGYqET5BoDq63\"");
    }

    #[test]
    fn unknown_kinds_and_endless_keys_are_refused() {
        let mut out = Out::default();
        let mut input = Input::new(&[3, 0]);
        assert_eq!((signature::<Abieos>(&mut input, &mut out), input.left()), (Err(Fault::Key), 2));
        let mut input = Input::new(&[2; 40]);
        assert_eq!(private(&mut input, &mut out), Err(Fault::Key));
        let long = [&[2][..], &[0; 34], &[0xff, 0xff, 0x01], &[b'x'; 0x7fff]].concat();
        let mut input = Input::new(&long);
        assert_eq!((public::<Abieos>(&mut input, &mut out), input.left()), (Err(Fault::LongKey), long.len()));
    }

    #[test]
    fn webauthn_lengths_count_as_sent_or_in_their_shortest_form() {
        let sent = [&[2][..], &[7; 34], &[0x81, 0], b"x"].concat();
        let read = |body: &[u8]| {
            let body = [body, &check(body, b"WA")].concat();
            format!("\"PUB_WA_{}\"", bs58::encode(&body).into_string())
        };
        let text = Out::text(|out| assert_eq!(public::<Wharfkit>(&mut Input::new(&sent), out), Ok(())));
        assert_eq!(text, read(&sent[1..]));
        let text = Out::text(|out| assert_eq!(public::<Abieos>(&mut Input::new(&sent), out), Ok(())));
        assert_eq!(text, read(&[&[7; 34][..], &[1], b"x"].concat()));
    }
}
