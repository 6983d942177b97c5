//! The answer to an update that is being applied or forwarded, and its line in the log.

use tracing::{info, warn};
use wire::Name;
use wire::message::{Message, Rcode};
use zone::update::UpdateRefusal;

use crate::listen::LateReply;
use crate::updates::{RecentUpdates, UpdateAnswer, UpdateId};
use crate::zones::{ChangeRefusal, ChangedZone};

/// The response to an update that is being applied or forwarded, and its line in the log.
pub(super) struct PendingAnswer {
    pub(super) reply: LateReply,
    pub(super) recent: Option<(RecentUpdates, UpdateId)>,
    pub(super) log: UpdateLog,
}

/// A response of a primary that is remembered. They are short: a header, the question, OPT and TSIG. A hostile primary could
/// have thousands of 64 KiB remembered.
const MAX_REMEMBERED_LEN: usize = 1024;

impl PendingAnswer {
    pub(super) fn finish(self, result: Result<ChangedZone, ChangeRefusal>) {
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
            Some((recent, id)) if rcode == Rcode::SERVFAIL => recent.forget(&id),
            Some((recent, id)) => recent.answered(&id, UpdateAnswer::Rcode(rcode)),
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
                recent.answered(&id, UpdateAnswer::Relayed(response.as_slice().into()));
            }
            // The client gets the answer of the primary to its repeated message.
            Some((recent, id)) => recent.forget(&id),
            None => {}
        }
        reply.relay(response);
        log.write_forwarded(rcode, primary);
    }
}

/// The RCODE of a change that was refused, and the reason.
fn refusal(refused: ChangeRefusal) -> (Rcode, String) {
    match refused {
        ChangeRefusal::Refused(UpdateRefusal { rcode, reason }) => (rcode, reason),
        // RFC 2136 3.3 leaves it to the server what else it refuses.
        ChangeRefusal::Invalid(error) => (Rcode::REFUSED, error.to_string()),
        ChangeRefusal::Rejected(rejection) => (Rcode::REFUSED, rejection.to_string()),
        ChangeRefusal::Frozen => (Rcode::REFUSED, "the zone is frozen".into()),
        ChangeRefusal::NotServed => (Rcode::SERVFAIL, "the zone has no content".into()),
        ChangeRefusal::Replaced => (Rcode::SERVFAIL, "the zone was replaced meanwhile".into()),
        ChangeRefusal::Busy => (Rcode::SERVFAIL, "too many updates wait for a large one".into()),
        ChangeRefusal::NotDurable => (Rcode::SERVFAIL, "the journal cannot be written".into()),
        ChangeRefusal::Panicked => (Rcode::SERVFAIL, "zonda panicked; this is a bug, please report it".into()),
    }
}

/// One line of the log per update.
pub(super) struct UpdateLog {
    zone: Name,
    client: String,
    key: Option<Name>,
    prerequisites: usize,
    records: usize,
}

impl UpdateLog {
    pub(super) fn new(zone: Name, client: String, key: Option<Name>) -> UpdateLog {
        UpdateLog { zone, client, key, prerequisites: 0, records: 0 }
    }

    pub(super) fn count(&mut self, message: &Message) {
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
