//! Gateways of IPSECKEY (RFC 4025), relays of AMTRELAY (RFC 8777), identities of HIP (RFC 8005).

use super::fields::RdataFields;
use super::{FieldResult, address, number, octets, string};

//----------- gateways ---------------------------------------------------------

/// RFC 8777 4.3: one octet is two fields in text, the discovery bit and the type.
pub(super) fn parse_discovery(input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult {
    input.call("discovery bit");
    let discovery = number::take(input, 1)? as u8;
    input.call("relay type");
    let kind = number::take(input, 0x7f)? as u8;
    out.push(discovery << 7 | kind);
    Ok(())
}

pub(super) fn print_discovery(octet: u8, out: &mut String) {
    number::print(&[octet >> 7], out);
    out.push(' ');
    number::print(&[octet & 0x7f], out);
}

/// An address or name as the gateway type says; `.` for none (RFC 4025 3.1, RFC 8777 4.3.1).
pub(super) fn parse_gateway(mask: u8, input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult {
    match out[input.start() + 1] & mask {
        0 => match input.word()? {
            b"." => Ok(()),
            _ => Err(input.wrong("should be empty", "write . for type 0, or another type")),
        },
        1 => address::parse_addr4(input, out),
        2 => address::parse_addr6(input, out),
        3 => string::parse_name(input, out),
        _ => Err(input.wrong("has an unknown type", "write 0 for none, 1 for IPv4, 2 for IPv6, 3 for a name")),
    }
}

pub(super) fn print_gateway(kind: u8, bytes: &[u8], out: &mut String) {
    match kind {
        0 => out.push('.'),
        1 => address::print_addr4(bytes, out),
        2 => address::print_addr6(bytes, out),
        _ => string::print_names(bytes, out),
    }
}

//----------- host identities --------------------------------------------------

/// RFC 8005 6: the algorithm, the identity in hexadecimal, the key in base64.
pub(super) fn parse_identity(input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult {
    const KEY_HELP: &str = "write the key in base64 without blanks";
    input.call("algorithm");
    let algorithm = number::take(input, u8::MAX.into())? as u8;
    input.call("host identity");
    let text = input.word()?;
    let identity = octets::hex_without(b' ', text).filter(|identity| (1..=255).contains(&identity.len()));
    let identity = identity.ok_or_else(|| {
        input.wrong("is not hexadecimal, or not 1 to 255 octets", "write hexadecimal digits without blanks")
    })?;
    input.call("public key");
    let mut key = Vec::new();
    let text = input.word()?;
    octets::push_base64(text, &mut key).map_err(|error| input.wrong(octets::base64_error(error), KEY_HELP))?;
    let key_len = u16::try_from(key.len()).ok().filter(|&len| len > 0);
    let key_len = key_len.ok_or_else(|| input.wrong("is not 1 to 65535 octets long", KEY_HELP))?;
    out.extend_from_slice(&[identity.len() as u8, algorithm]);
    out.extend_from_slice(&key_len.to_be_bytes());
    out.extend_from_slice(&identity);
    out.extend_from_slice(&key);
    Ok(())
}

pub(super) fn print_identity(bytes: &[u8], out: &mut String) {
    let (identity, key) = bytes[4..].split_at(usize::from(bytes[0]));
    number::print(&bytes[1..2], out);
    out.push(' ');
    octets::print_hex(identity, out);
    out.push(' ');
    octets::print_base64(key, out);
}
