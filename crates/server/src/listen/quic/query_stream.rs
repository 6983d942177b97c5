//! The query of a stream: one message, preceded by its length, and then the end of the stream (RFC 9250 4.2).

use wire::framing::PREFIX_LEN;

/// What has arrived of a query.
#[derive(Debug, Default)]
pub(super) struct QueryStream {
    octets: Vec<u8>,
}

/// A stream with anything but one message, which ends the connection (RFC 9250 4.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FramingError;

impl QueryStream {
    /// Adds what follows. Fails if it is more than the message, so that there are never more than 65,537 octets.
    pub(super) fn push(&mut self, octets: &[u8]) -> Result<(), FramingError> {
        let prefix = self.octets.iter().chain(octets).take(PREFIX_LEN);
        let announced = prefix.fold(0, |length, octet| length << 8 | usize::from(*octet));
        let len = self.octets.len() + octets.len();
        if len > PREFIX_LEN && len > PREFIX_LEN + announced {
            return Err(FramingError);
        }
        self.octets.extend_from_slice(octets);
        Ok(())
    }

    /// The message with its prefix, as the stream has ended.
    pub(super) fn finish(self) -> Result<Vec<u8>, FramingError> {
        match self.octets.split_first_chunk::<PREFIX_LEN>() {
            Some((prefix, message)) if usize::from(u16::from_be_bytes(*prefix)) == message.len() => Ok(self.octets),
            _ => Err(FramingError),
        }
    }

    /// Its memory, in octets.
    pub(super) fn memory(&self) -> usize {
        self.octets.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(parts: &[&[u8]]) -> Result<Vec<u8>, FramingError> {
        let mut stream = QueryStream::default();
        parts.iter().try_for_each(|part| stream.push(part))?;
        stream.finish()
    }

    #[test]
    fn rfc_9250_4_3_3_a_stream_has_exactly_one_message() {
        assert_eq!(read(&[&[0, 3, 1, 2, 3]]), Ok(vec![0, 3, 1, 2, 3]));
        assert_eq!(read(&[&[0], &[1], &[7]]), Ok(vec![0, 1, 7]));
        assert_eq!(read(&[&[0, 0]]), Ok(vec![0, 0]));
        for parts in [&[&[][..]][..], &[&[0]], &[&[0, 3, 1, 2]], &[&[0, 1, 1, 0]], &[&[0, 0], &[0]], &[&[1, 0, 9]]] {
            assert_eq!(read(parts), Err(FramingError), "{parts:?}");
        }
    }

    #[test]
    fn no_more_is_kept_than_a_message() {
        let mut stream = QueryStream::default();
        let parts = (0..70).map(|_| stream.push(&[255; 1000])).take_while(Result::is_ok).count();
        assert_eq!((parts, stream.octets.len()), (65, 65_000));
    }

    proptest! {
        #[test]
        fn any_split_of_any_octets_is_read_alike(
            octets in proptest::collection::vec(any::<u8>(), 0..40),
            length in 0usize..40,
            splits in proptest::collection::vec(0usize..41, 0..6),
        ) {
            let mut octets = octets;
            if let [high, low, ..] = &mut octets[..] {
                (*high, *low) = (0, length as u8);
            }
            let expected = if octets.len() >= 2 && octets.len() == 2 + length { Ok(octets.clone()) } else { Err(FramingError) };
            let mut at: Vec<usize> = splits.into_iter().map(|split| split.min(octets.len())).collect();
            at.extend([0, octets.len()]);
            at.sort_unstable();
            let parts: Vec<&[u8]> = at.windows(2).map(|ends| &octets[ends[0]..ends[1]]).collect();
            prop_assert_eq!(read(&parts), expected);
        }
    }
}
