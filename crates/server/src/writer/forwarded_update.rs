//! An update on its way to the primaries of its zone (RFC 2136 6): a state machine, which asks for one exchange after the other.

use std::io;
use std::time::{Duration, Instant};

use wire::message::{Rcode, header_rcode};

use super::update_answer::PendingAnswer;
use crate::transfer::primary::PeerConfig;
use crate::updates::{ForwardingPermit, UpdatePermit, exchange};

/// An update to be forwarded.
pub(super) struct ForwardedUpdate {
    pub(super) message: Box<[u8]>,
    pub(super) answer: PendingAnswer,
    pub(super) permit: UpdatePermit,
}

/// How long one primary may take.
const PRIMARY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long all primaries of a zone may take: clients wait for some ten seconds.
const TIMEOUT: Duration = Duration::from_secs(12);

/// An update that is being forwarded.
pub(super) struct Forwarding {
    update: ForwardedUpdate,
    place: ForwardingPermit,
    id: [u8; 2],
    /// The primaries that have not been asked, and the one that was asked last.
    primaries: std::vec::IntoIter<PeerConfig>,
    asked: Option<PeerConfig>,
    /// The last response, and who sent it.
    response: Option<(Vec<u8>, PeerConfig)>,
    problems: String,
    end: Instant,
}

/// What is to be exchanged with a primary.
pub(super) struct UpdateExchange {
    pub(super) primary: PeerConfig,
    /// The message with its length.
    pub(super) octets: Vec<u8>,
    /// When it has failed.
    pub(super) end: Instant,
}

impl Forwarding {
    /// Tries these primaries in their order, with this ID in the message.
    pub(super) fn new(
        update: ForwardedUpdate,
        place: ForwardingPermit,
        primaries: Vec<PeerConfig>,
        id: [u8; 2],
        now: Instant,
    ) -> Forwarding {
        let (primaries, problems, end) = (primaries.into_iter(), String::new(), now + TIMEOUT);
        Forwarding { update, place, id, primaries, asked: None, response: None, problems, end }
    }

    /// The number of its lane.
    pub(super) fn lane(&self) -> u64 {
        self.place.lane()
    }

    /// The next exchange, whose result goes to [`Forwarding::exchanged`]. With `None` it is time for [`Forwarding::answer`].
    ///
    /// RFC 2136 6.5: tries the next primary if one cannot be reached. 4.5: the same if it answers SERVFAIL or NOTIMP.
    pub(super) fn next_exchange(&mut self, now: Instant) -> Option<UpdateExchange> {
        let is_final =
            |(response, _): &(Vec<u8>, PeerConfig)| ![Rcode::SERVFAIL, Rcode::NOTIMP].contains(&header_rcode(response));
        if now >= self.end || self.response.as_ref().is_some_and(is_final) {
            return None;
        }
        let primary = self.primaries.next()?;
        self.asked = Some(primary.clone());
        let octets = exchange::with_id(&self.update.message, self.id);
        Some(UpdateExchange { primary, octets, end: self.end.min(now + PRIMARY_TIMEOUT) })
    }

    /// A primary has sent this message, or could not be reached.
    pub(super) fn exchanged(&mut self, result: io::Result<Vec<u8>>) {
        let Some(primary) = self.asked.take() else { return };
        match result.and_then(|response| exchange::check_response(response, self.id)) {
            Ok(response) => self.response = Some((response, primary)),
            Err(error) => self.problems += &format!(" {}: {error};", primary.address),
        }
    }

    /// Answers the client.
    pub(super) fn answer(self) {
        let ForwardedUpdate { answer, permit, .. } = self.update;
        match self.response {
            Some((response, primary)) => answer.relay(response, &primary.address.to_string()),
            None => {
                answer.refuse(Rcode::SERVFAIL, &format!("no primary accepted it in time:{}", self.problems));
            }
        }
        drop((permit, self.place));
    }
}
