//! Messages in a TCP stream, each preceded by its length in two octets (RFC 1035 4.2.2).

/// The message with its length prefix.
pub fn frame(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes()[..], message].concat()
}

/// Splits off the first complete message, without its length; `None` if it is not complete yet.
pub fn split_message(octets: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = octets.split_first_chunk()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))
}
