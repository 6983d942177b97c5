//! The primaries that could not be reached: logged once for all their zones, however many there are.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tracing::warn;

/// A primary that could not be reached is tried again more often than this: if it was not, it has answered meanwhile.
const SILENCE: Duration = Duration::from_secs(900);

/// The primaries that could not be reached.
#[derive(Default)]
pub(super) struct UnreachablePrimaries {
    /// Why, and when that was last so.
    known: HashMap<SocketAddr, (String, Instant)>,
    /// When those that are tried no more are dropped.
    drop_at: Option<Instant>,
}

impl UnreachablePrimaries {
    /// A primary could not be reached.
    pub(super) fn note(&mut self, primary: SocketAddr, reason: &str, now: Instant) {
        self.drop_old(now);
        let known = self.known.insert(primary, (reason.into(), now));
        let is_known = |(known, at): (String, Instant)| known == reason && now.duration_since(at) < SILENCE;
        if !known.is_some_and(is_known) {
            warn!(%primary, "no zones can be transferred from this primary: {reason}");
        }
    }

    /// A primary was reached.
    pub(super) fn remove(&mut self, primary: SocketAddr) {
        self.known.remove(&primary);
    }

    /// Drops those that no configuration has any more. Once per interval, as it visits all.
    fn drop_old(&mut self, now: Instant) {
        if self.drop_at.is_none_or(|at| at <= now) {
            self.known.retain(|_, (_, at)| now.duration_since(*at) < SILENCE);
            self.drop_at = Some(now + SILENCE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primaries_that_are_tried_no_more_are_dropped() {
        let (mut unreachable, begin) = (UnreachablePrimaries::default(), Instant::now());
        for port in 1..1000 {
            unreachable.note(([192, 0, 2, 1], port).into(), "refused", begin + u32::from(port) * SILENCE / 2);
            assert!(unreachable.known.len() <= 4, "{}", unreachable.known.len());
        }
        unreachable.remove(([192, 0, 2, 1], 999).into());
        assert!(unreachable.known.len() < 4);
    }
}
