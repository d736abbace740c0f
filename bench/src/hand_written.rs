//! A decoder of one type alone, written by hand: `transfer(name from, name to, asset quantity, string memo)`. It knows no ABI:
//! what it takes is what one would hope for from the plain way, letter by letter and digit by digit.

use parser::out::Out;

/// Appends the JSON. `false`, with `out` in any state, for bytes that are no plain transfer: too short, left over, or with
/// characters in the memo that JSON escapes.
#[inline]
pub fn transfer(data: &[u8], out: &mut Out) -> bool {
    let Some((fixed, rest)) = data.split_first_chunk::<32>() else { return false };
    let word = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&fixed[at..at + 8]);
        u64::from_le_bytes(bytes)
    };
    let Some(memo) = text(rest) else { return false };
    out.append(b"{\"from\":\"");
    name(word(0), out);
    out.append(b"\",\"to\":\"");
    name(word(8), out);
    out.append(b"\",\"quantity\":\"");
    if !asset(word(16) as i64, word(24), out) {
        return false;
    }
    out.append(b"\",\"memo\":\"");
    out.append(memo);
    out.append(b"\"}");
    true
}

/// The bytes of a string that ends where the data ends and needs no escapes.
#[inline]
fn text(data: &[u8]) -> Option<&[u8]> {
    let (mut length, mut shift, mut at) = (0usize, 0, 0);
    loop {
        let byte = *data.get(at)?;
        at += 1;
        length |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
        shift += 7;
        if shift > 28 {
            return None;
        }
    }
    let text = &data[at..];
    let plain = |&byte: &u8| (0x20..0x7f).contains(&byte) && byte != b'"' && byte != b'\\';
    (text.len() == length && text.iter().all(plain)).then_some(text)
}

#[inline]
fn name(value: u64, out: &mut Out) {
    const LETTERS: &[u8; 32] = b".12345abcdefghijklmnopqrstuvwxyz";
    let mut letters = [0; 13];
    let (mut rest, mut length) = (value, 0);
    while rest != 0 && length < 12 {
        letters[length] = LETTERS[(rest >> 59) as usize];
        rest <<= 5;
        length += 1;
    }
    if rest != 0 {
        letters[12] = LETTERS[(rest >> 60) as usize];
        length = 13;
    }
    out.chunk(&letters, length);
}

#[inline]
fn asset(amount: i64, symbol: u64, out: &mut Out) -> bool {
    let (precision, code) = ((symbol & 0xff) as usize, (symbol >> 8).to_le_bytes());
    let length = code.iter().position(|byte| *byte == 0).unwrap_or(7);
    if precision > 18 || length == 0 || !code[..length].iter().all(u8::is_ascii_uppercase) {
        return false;
    }
    // From the right: digits, the point, at least one digit before it.
    let mut digits = [0; 24];
    let (mut at, mut rest, mut written) = (digits.len(), amount.unsigned_abs(), 0);
    while rest > 0 || written <= precision {
        if written == precision && precision > 0 {
            at -= 1;
            digits[at] = b'.';
        }
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        written += 1;
    }
    if amount < 0 {
        at -= 1;
        digits[at] = b'-';
    }
    out.append(&digits[at..]);
    out.push(b' ');
    out.chunk(&code, length);
    true
}

#[cfg(test)]
mod tests {
    use parser::name::Name;

    use super::*;

    fn packed(from: &str, to: &str, amount: i64, precision: u8, code: &str, memo: &[u8]) -> Vec<u8> {
        let name = |text: &str| text.parse::<Name>().expect("a name").0.to_le_bytes();
        let mut symbol = [0; 8];
        symbol[0] = precision;
        symbol[1..1 + code.len()].copy_from_slice(code.as_bytes());
        let mut data = [name(from), name(to), amount.to_le_bytes(), symbol].concat();
        data.push(memo.len() as u8);
        data.extend_from_slice(memo);
        data
    }

    #[test]
    fn transfers_are_written_as_abieos_writes_them() {
        for (amount, precision, quantity) in [
            (10_000, 4, "1.0000 EOS"),
            (1, 4, "0.0001 EOS"),
            (-25, 1, "-2.5 EOS"),
            (0, 0, "0 EOS"),
            (7, 0, "7 EOS"),
            (i64::MIN, 4, "-922337203685477.5808 EOS"),
        ] {
            let data = packed("eosio", "alice.b1", amount, precision, "EOS", b"hello");
            let mut out = Out::default();
            assert!(transfer(&data, &mut out));
            let expected =
                format!(r#"{{"from":"eosio","to":"alice.b1","quantity":"{quantity}","memo":"hello"}}"#);
            assert_eq!(String::from_utf8_lossy(&out), expected);
        }
    }

    #[test]
    fn what_is_no_plain_transfer_is_left_to_others() {
        let good = packed("a", "b", 1, 4, "EOS", b"memo");
        for bad in [
            good[..good.len() - 1].to_vec(),
            [&good[..], b"x"].concat(),
            packed("a", "b", 1, 19, "EOS", b""),
            packed("a", "b", 1, 4, "eos", b""),
            packed("a", "b", 1, 4, "EOS", b"\"quoted\""),
        ] {
            assert!(!transfer(&bad, &mut Out::default()));
        }
    }
}
