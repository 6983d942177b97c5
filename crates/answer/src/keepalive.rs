//! The edns-tcp-keepalive option in messages that must not have it.

use wire::message::RawRecords;
use wire::{HEADER_LEN, Rtype};

use crate::edns::KEEPALIVE;

/// Whether a message of any opcode has an edns-tcp-keepalive option (RFC 7828), which is an error over QUIC (RFC 9250 5.5.2).
/// What follows the first malformed record is not read.
pub fn has_keepalive(message: &[u8]) -> bool {
    let has_additional = message.get(10..HEADER_LEN).is_some_and(|count| count != [0, 0]);
    has_additional && opt_rdata(message).is_some_and(has_option)
}

fn opt_rdata(message: &[u8]) -> Option<&[u8]> {
    let opt = RawRecords::of(message)?.find(|(_, record)| record.rtype == Rtype::OPT);
    opt.map(|(_, record)| record.rdata)
}

fn has_option(mut options: &[u8]) -> bool {
    while let Some((head, rest)) = options.split_first_chunk::<4>() {
        if u16::from_be_bytes([head[0], head[1]]) == KEEPALIVE {
            return true;
        }
        let Some(rest) = rest.get(usize::from(u16::from_be_bytes([head[2], head[3]]))..) else { return false };
        options = rest;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(options: &[u8]) -> Vec<u8> {
        let mut message = b"\0\0\0\0\0\x01\0\0\0\0\0\x01\x03www\x07example\0\0\x01\0\x01".to_vec();
        message.extend_from_slice(&[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, options.len() as u8]);
        message.extend_from_slice(options);
        message
    }

    #[test]
    fn the_option_is_found_and_malformed_messages_end_the_search() {
        assert!(!has_keepalive(&query(&[])));
        assert!(has_keepalive(&query(&[0, 11, 0, 0])));
        let second = query(&[0, 3, 0, 2, 0, 11, 0, 11, 0, 2, 0, 1]);
        assert!(has_keepalive(&second));
        assert!(!has_keepalive(&query(&[0, 3, 0, 2, 0, 11])), "data of another option");
        for len in 0..second.len() - 6 {
            assert!(!has_keepalive(&second[..len]), "{len}");
        }
    }
}
