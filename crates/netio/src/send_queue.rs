//! Sends what is queued with sendmmsg(2), over its errors.

use std::io;

/// Sends `queued` messages with `send_from`, which sends some from an index on and returns how many; returns how many the kernel
/// rejected. None is sent again.
#[inline]
pub(crate) fn send_queued(queued: usize, mut send_from: impl FnMut(usize) -> io::Result<usize>) -> usize {
    let (mut next, mut unsent) = (0, 0);
    while next < queued {
        match send_from(next) {
            Ok(count) => next += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // The send buffer is full. Waiting would stall the thread; protocols that need what is lost repeat it.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return unsent + queued - next,
            // The error concerns the first one only.
            Err(_) => {
                next += 1;
                unsent += 1;
            }
        }
    }
    unsent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_costs_one_message_and_a_full_buffer_the_rest() {
        let mut results = [
            Ok(2),
            Err(io::ErrorKind::Interrupted),
            Err(io::ErrorKind::PermissionDenied),
            Ok(1),
            Err(io::ErrorKind::WouldBlock),
        ]
        .into_iter();
        let mut from = Vec::new();
        let unsent = send_queued(9, |next| {
            from.push(next);
            results.next().expect("no call after a full buffer").map_err(io::Error::from)
        });
        assert_eq!((unsent, from), (1 + 5, vec![0, 2, 2, 3, 4]));
    }
}
