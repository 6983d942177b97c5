//! Messages in a stream, each preceded by its length in two octets (RFC 1035 4.2.2, RFC 7858 3.3, RFC 9250 4.2).

/// The length of the prefix, in octets.
pub const PREFIX_LEN: usize = 2;

/// The message with its prefix.
///
/// # Panics
/// If it has more than 65,535 octets.
pub fn frame(message: &[u8]) -> Vec<u8> {
    let len = u16::try_from(message.len()).expect("the length of a message has 16 bits");
    [&len.to_be_bytes()[..], message].concat()
}

/// The first message in `stream`, without its prefix, and what follows it; `None` if it is not complete yet.
pub fn split_message(stream: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = stream.split_first_chunk::<PREFIX_LEN>()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))
}

/// How many octets of the first message in `stream` have not arrived; as long as its length is not known, how many of the prefix.
pub fn missing_len(stream: &[u8]) -> usize {
    match stream.split_first_chunk::<PREFIX_LEN>() {
        Some((len, rest)) => usize::from(u16::from_be_bytes(*len)).saturating_sub(rest.len()),
        None => PREFIX_LEN - stream.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_1035_4_2_2_messages_are_taken_from_the_stream_only_when_complete() {
        let stream = [frame(&[1, 2, 3]), frame(&[]), vec![0, 2, 9]].concat();
        assert_eq!(split_message(&stream), Some((&[1, 2, 3][..], &stream[5..])));
        assert_eq!(split_message(&stream[5..]), Some((&[][..], &stream[7..])));
        assert_eq!(split_message(&stream[7..]), None);
        assert_eq!((split_message(&stream[..1]), split_message(&[])), (None, None));
        let missing: Vec<usize> = (0..=6).map(|len| missing_len(&stream[..len])).collect();
        assert_eq!((missing, missing_len(&stream[7..])), (vec![2, 1, 3, 2, 1, 0, 0], 1));
    }
}
