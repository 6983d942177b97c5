//! Dynamic updates (RFC 2136): applies them to the latest version of their zone, and answers them once they are on disk and served.

#[cfg(test)]
mod tests;

use answer::{ReceivedUpdate, UpdateRole};
use wire::Rtype;
use wire::message::{Message, Rcode};
use zone::update::{UpdateRules, prepare};

use super::Writer;
use super::forwarded_update::ForwardedUpdate;
use super::update_answer::{PendingAnswer, UpdateLog};
use super::update_forwarder::{UpdateExchanges, UpdateForwarder};
use crate::clock;
use crate::listen::IncomingUpdate;
use crate::tls::TlsPeers;
use crate::updates::{QueuedUpdate, RecentUpdates, Repeated, UnansweredUpdate};
use crate::zones::{ProposedChange, PublishOrder, ZoneChange};

/// What the writer keeps for updates.
pub(super) struct Updates {
    recent: RecentUpdates,
    forwarder: UpdateForwarder,
}

/// An update with more records, prerequisites included, is prepared in the pool: this many take the writer some 100 us.
const MAX_INLINE_UPDATE: usize = 100;

impl Updates {
    /// Nothing was received yet. `exchanges` reaches the primaries, whose TLS settings `tls` numbers.
    pub(super) fn new(tls: TlsPeers, exchanges: Box<dyn UpdateExchanges>) -> Updates {
        Updates { recent: RecentUpdates::default(), forwarder: UpdateForwarder::new(tls, exchanges) }
    }

    /// Answers a message that was received before, or has it wait if the response is still to come. Else returns it.
    ///
    /// RFC 8945 10 limits replays to the fudge, and no further: a replay gets the response of the first
    /// message, as a client that repeats it over another transport must, and changes nothing.
    fn recognize(&self, queued: QueuedUpdate) -> Option<(QueuedUpdate, Option<UnansweredUpdate>)> {
        let (update, from) = (&queued.incoming.update, queued.incoming.reply.datagram_from());
        let signed = update.client.key.as_ref().filter(|_| !update.is_forwarded);
        let signed = signed.and_then(|key| Some((key, wire::tsig::find(&update.message).ok()??)));
        let (id, known) = match (signed, from) {
            (Some((key, (tsig, at))), _) => {
                let body = &update.message[..at];
                let is_over_quic = queued.incoming.reply.is_over_quic();
                self.recent.receive_signed(from, is_over_quic, key, (&tsig, body), clock::real().as_secs())
            }
            (None, Some(from)) => self.recent.receive(from, update.client.address, &update.message, clock::now()),
            (None, None) => return Some((queued, None)),
        };
        match known {
            None => return Some((queued, Some(self.recent.unanswered(id)))),
            // What is noted is the response to the first one.
            Some(Repeated::AnotherRequest) => return Some((queued, None)),
            Some(Repeated::Pending(first)) if first.is_some() && first == from => {}
            Some(Repeated::Pending(_)) => self.recent.wait(&id, queued),
            Some(Repeated::Forgotten) => queued.incoming.reply.send(Rcode::REFUSED),
            Some(Repeated::Answered(answer)) => answer.send(queued.incoming.reply),
        }
        None
    }
}

impl Writer {
    /// Begins to apply or to forward an update.
    pub(super) fn receive_update(&mut self, queued: QueuedUpdate) {
        let Some((queued, unanswered)) = self.updates.recognize(queued) else { return };
        let QueuedUpdate { incoming, permit } = queued;
        let IncomingUpdate { update, reply } = *incoming;
        let ReceivedUpdate { apex, message, client, is_forwarded } = update;
        let mut answer = PendingAnswer {
            reply,
            unanswered,
            log: UpdateLog::new(apex.clone(), client.address.to_canonical().to_string(), client.key.clone()),
        };
        // The settings may have changed since the message was received.
        let settings = |id| Some((id, self.zones.served(id)?.acls().clone(), self.zones.policy(id)?.clone()));
        let Some((zone, acls, policy)) = self.zones.find(apex.as_ref()).and_then(settings) else {
            return answer.refuse(Rcode::NOTAUTH, "no such zone");
        };
        if is_forwarded != (acls.update.role == UpdateRole::Forward) {
            return answer.refuse(Rcode::SERVFAIL, "the settings of the zone have changed");
        }
        if is_forwarded {
            let update = ForwardedUpdate { message, answer, permit };
            return self.updates.forwarder.forward(&apex, update, &policy);
        }
        // RFC 2136 3.5: an update is on disk before it is acknowledged. A reload may permit updates, but it opens no journal.
        if !self.zones.has_journal() {
            return answer.refuse(Rcode::SERVFAIL, "updates are not kept before zonda is restarted with `state-dir`");
        }
        let message = match Message::parse(&message) {
            Ok(message) => message,
            Err(error) => return answer.refuse(Rcode::FORMERR, &error.to_string()),
        };
        answer.log.count(&message);
        let is_large = message.answer.len() + message.authority.len() > MAX_INLINE_UPDATE;
        let serial_policy = policy.serial_policy;
        let compute = Box::new(move |zone: &zone::Zone| {
            let client = client.as_client();
            let rights = acls.update.rights(&client, zone.apex(), zone.is_signed());
            let rules = UpdateRules {
                allows: &|owner, rtype: Rtype| rights.permit(owner, rtype),
                allows_signed: !rights.is_empty(),
                serial_policy,
                now_s: clock::real().as_secs(),
            };
            prepare(&message, zone, &rules)
        });
        let done = Box::new(move |result| {
            answer.finish(result);
            drop(permit);
        });
        self.zones.change(ZoneChange {
            zone,
            change: ProposedChange::Computed { compute, is_large },
            rules: policy.change_rules(policy.checks),
            order: PublishOrder::AfterSync,
            done,
        });
    }
}
