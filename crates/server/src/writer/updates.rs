//! Dynamic updates (RFC 2136): applies them to the latest version of their zone, and answers them once they are on disk and served.

use answer::{ReceivedUpdate, UpdateRole};
use tracing::{info, warn};
use wire::message::{Message, Rcode};
use wire::{Name, Rtype};
use zone::change::ChangeRules;
use zone::update::{UpdateRefusal, UpdateRules, prepare};

use super::Writer;
use super::update_forwarder::{ForwardedUpdate, UpdateForwarder};
use crate::clock;
use crate::config::ZonePolicy;
use crate::listen::{IncomingUpdate, LateReply};
use crate::tls::TlsPeers;
use crate::updates::{QueuedUpdate, RecentUpdates, Repeated, UpdateAnswer, UpdateId};
use crate::zones::{ChangeRefused, ChangedZone, ProposedChange, PublishOrder, ZoneChange};

/// What the writer keeps for updates.
pub(super) struct Updates {
    recent: RecentUpdates,
    forwarder: UpdateForwarder,
}

/// An update with more records, prerequisites included, is prepared in the pool: this many take the writer some 100 us.
const MAX_INLINE_RECORDS: usize = 100;

/// A response of a primary that is remembered. They are short: a header, the question, OPT and TSIG. A hostile primary could
/// have thousands of 64 KiB remembered.
const MAX_REMEMBERED_LEN: usize = 1024;

impl Updates {
    /// Nothing was received yet. `tls` is for connections to primaries.
    pub(super) fn new(tls: TlsPeers) -> Updates {
        let recent = RecentUpdates::default();
        Updates { forwarder: UpdateForwarder::new(tls), recent }
    }

    /// Answers a message that was received before, or drops it if its response is still to come. Else returns it.
    fn recognize(&self, queued: QueuedUpdate) -> Option<(QueuedUpdate, Option<UpdateId>)> {
        let Some(from) = queued.incoming.reply.datagram_from() else { return Some((queued, None)) };
        let (id, known) = self.recent.receive(from, &queued.incoming.update.message, clock::now());
        match known {
            None => return Some((queued, Some(id))),
            Some(Repeated::Pending) => {}
            Some(Repeated::Answered(UpdateAnswer::Rcode(rcode))) => queued.incoming.reply.send(rcode),
            Some(Repeated::Answered(UpdateAnswer::Relayed(response))) => {
                queued.incoming.reply.relay(response.to_vec());
            }
        }
        None
    }
}

impl Writer {
    /// Begins to apply or to forward an update.
    pub(super) fn receive_update(&mut self, queued: QueuedUpdate) {
        let Some((queued, id)) = self.updates.recognize(queued) else { return };
        let QueuedUpdate { incoming, permit } = queued;
        let IncomingUpdate { update, reply } = *incoming;
        let ReceivedUpdate { apex, message, client, is_forwarded } = update;
        let mut answer = PendingAnswer {
            reply,
            recent: id.map(|id| (self.updates.recent.clone(), id)),
            log: UpdateLog::new(apex.clone(), client.address.to_canonical().to_string(), client.key.clone()),
        };
        // The settings may have changed since the message was received.
        let Some(zone) = self.zones.find(apex.as_ref()) else { return answer.refuse(Rcode::NOTAUTH, "no such zone") };
        let Some(served) = self.zones.served(zone) else { return answer.refuse(Rcode::NOTAUTH, "no such zone") };
        let acls = served.acls.clone();
        if is_forwarded != (acls.update.role == UpdateRole::Forward) {
            return answer.refuse(Rcode::SERVFAIL, "the settings of the zone have changed");
        }
        let Some(policy) = self.zones.policy(zone).cloned() else {
            return answer.refuse(Rcode::NOTAUTH, "no such zone");
        };
        if is_forwarded {
            let update = ForwardedUpdate { message, answer, permit };
            return self.updates.forwarder.forward(&apex, update, &policy);
        }
        let message = match Message::parse(&message) {
            Ok(message) => message,
            Err(error) => return answer.refuse(Rcode::FORMERR, &error.to_string()),
        };
        answer.log.count(&message);
        let is_large = message.answer.len() + message.authority.len() > MAX_INLINE_RECORDS;
        let serial_policy = policy.serial_policy;
        let compute = Box::new(move |zone: &zone::Zone| {
            let client = client.as_client();
            let rights = acls.update.rights(&client, zone.is_signed());
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
            rules: change_rules(&policy),
            order: PublishOrder::AfterSync,
            done,
        });
    }
}

fn change_rules(policy: &ZonePolicy) -> ChangeRules {
    ChangeRules { check_mode: policy.checks, nsec3_max_iterations: policy.limits.nsec3_max_iterations }
}

//----------- answers --------------------------------------------------------------

/// The response to an update that is being applied or forwarded, and its line in the log.
pub(super) struct PendingAnswer {
    reply: LateReply,
    recent: Option<(RecentUpdates, UpdateId)>,
    log: UpdateLog,
}

impl PendingAnswer {
    fn finish(self, result: Result<ChangedZone, ChangeRefused>) {
        match result {
            Ok(changed) => self.send(Rcode::NOERROR, Some(changed), None),
            Err(refused) => {
                let (rcode, reason) = refusal(refused);
                self.refuse(rcode, &reason);
            }
        }
    }

    /// Answers that nothing was changed.
    pub(super) fn refuse(self, rcode: Rcode, reason: &str) {
        self.send(rcode, None, Some(reason));
    }

    fn send(self, rcode: Rcode, changed: Option<ChangedZone>, reason: Option<&str>) {
        let PendingAnswer { reply, recent, log } = self;
        match recent {
            // It may succeed later.
            Some((recent, id)) if rcode == Rcode::SERVFAIL => recent.forget(id),
            Some((recent, id)) => recent.answered(id, UpdateAnswer::Rcode(rcode)),
            None => {}
        }
        reply.send(rcode);
        log.write(rcode, changed, reason);
    }

    /// Answers with the response of a primary.
    pub(super) fn relay(self, response: Vec<u8>, primary: &str) {
        let PendingAnswer { reply, recent, log } = self;
        let rcode = Rcode(u16::from(response[3] & 15));
        match recent {
            Some((recent, id)) if response.len() <= MAX_REMEMBERED_LEN => {
                recent.answered(id, UpdateAnswer::Relayed(response.as_slice().into()));
            }
            // The client gets the answer of the primary to its repeated message.
            Some((recent, id)) => recent.forget(id),
            None => {}
        }
        reply.relay(response);
        log.write_forwarded(rcode, primary);
    }
}

/// The RCODE of a change that was refused, and the reason.
fn refusal(refused: ChangeRefused) -> (Rcode, String) {
    match refused {
        ChangeRefused::Refused(UpdateRefusal { rcode, reason }) => (rcode, reason),
        // RFC 2136 3.3 leaves it to the server what else it refuses.
        ChangeRefused::Invalid(error) => (Rcode::REFUSED, error.to_string()),
        ChangeRefused::Rejected(rejection) => (Rcode::REFUSED, rejection.to_string()),
        ChangeRefused::Frozen => (Rcode::REFUSED, "the zone is frozen".into()),
        ChangeRefused::NotServed => (Rcode::SERVFAIL, "the zone has no content".into()),
        ChangeRefused::Replaced => (Rcode::SERVFAIL, "the zone was replaced meanwhile".into()),
        ChangeRefused::Busy => (Rcode::SERVFAIL, "too many updates wait for a large one".into()),
        ChangeRefused::NotDurable => (Rcode::SERVFAIL, "the journal cannot be written".into()),
        ChangeRefused::Panicked => (Rcode::SERVFAIL, "zonda panicked; this is a bug, please report it".into()),
    }
}

/// One line of the log per update.
struct UpdateLog {
    zone: Name,
    client: String,
    key: Option<Name>,
    prerequisites: usize,
    records: usize,
}

impl UpdateLog {
    fn new(zone: Name, client: String, key: Option<Name>) -> UpdateLog {
        UpdateLog { zone, client, key, prerequisites: 0, records: 0 }
    }

    fn count(&mut self, message: &Message) {
        (self.prerequisites, self.records) = (message.answer.len(), message.authority.len());
    }

    fn write(self, rcode: Rcode, changed: Option<ChangedZone>, reason: Option<&str>) {
        let UpdateLog { zone, client, key, prerequisites, records } = self;
        let key = key.as_ref().map(tracing::field::display);
        match changed {
            Some(ChangedZone { old_serial, serial }) => {
                info!(%zone, %client, key, prerequisites, records, old_serial, serial, %rcode, "zone updated");
            }
            None if rcode == Rcode::SERVFAIL => {
                warn!(%zone, %client, key, prerequisites, records, %rcode, reason, "update failed");
            }
            None => info!(%zone, %client, key, prerequisites, records, %rcode, reason, "update refused"),
        }
    }

    fn write_forwarded(self, rcode: Rcode, primary: &str) {
        let UpdateLog { zone, client, key, .. } = self;
        let key = key.as_ref().map(tracing::field::display);
        info!(%zone, %client, key, %primary, %rcode, "update forwarded");
    }
}
