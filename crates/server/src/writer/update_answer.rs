//! The answer to an update that is being applied or forwarded, and its line in the log.

use tracing::{info, warn};
use wire::Name;
use wire::message::{Message, Rcode, header_rcode};
use zone::update::UpdateRefusal;

use crate::listen::LateReply;
use crate::updates::{UnansweredUpdate, UpdateAnswer};
use crate::zones::{ChangeRefusal, ChangedZone};

/// The response to an update that is being applied or forwarded, and its line in the log.
pub(super) struct PendingAnswer {
    pub(super) reply: LateReply,
    pub(super) unanswered: Option<UnansweredUpdate>,
    pub(super) log: UpdateLog,
}

/// A response of a primary that is remembered. They are short: a header, the question, OPT and TSIG. A hostile primary could
/// have thousands of 64 KiB remembered.
const MAX_REMEMBERED_LEN: usize = 1024;

impl PendingAnswer {
    pub(super) fn finish(mut self, result: Result<ChangedZone, ChangeRefusal>) {
        match result {
            Ok(changed) => self.send(Rcode::NOERROR, Some(changed), None),
            Err(refused) => {
                let may_be_published = matches!(refused, ChangeRefusal::Overdue);
                let (rcode, reason) = (rcode_of(&refused), refused.to_string());
                if let Some(update) = self.unanswered.take() {
                    remember(update, rcode, may_be_published);
                }
                self.refuse(rcode, &reason);
            }
        }
    }

    /// Answers that nothing was changed.
    pub(super) fn refuse(self, rcode: Rcode, reason: &str) {
        self.send(rcode, None, Some(reason));
    }

    fn send(self, rcode: Rcode, changed: Option<ChangedZone>, reason: Option<&str>) {
        let PendingAnswer { reply, unanswered, log } = self;
        if let Some(update) = unanswered {
            remember(update, rcode, false);
        }
        reply.send(rcode);
        log.write(rcode, changed, reason);
    }

    /// Answers with the response of a primary.
    pub(super) fn relay(self, response: Vec<u8>, primary: &str) {
        let PendingAnswer { reply, unanswered, log } = self;
        let rcode = header_rcode(&response);
        let answer = UpdateAnswer::Relayed(response.as_slice().into());
        match unanswered {
            Some(update) if response.len() <= MAX_REMEMBERED_LEN => update.answered(answer),
            // The client gets the answer of the primary to its repeated message.
            Some(update) => update.forget(answer),
            None => {}
        }
        reply.relay(response);
        log.write_forwarded(rcode, primary);
    }
}

/// Notes the response to an update. One that failed is forgotten, as it may succeed if it is repeated; but not one that may yet be published: it
/// would be applied again after later updates (RFC 8945 10).
fn remember(update: UnansweredUpdate, rcode: Rcode, may_be_published: bool) {
    let answer = UpdateAnswer::Rcode(rcode);
    if rcode == Rcode::SERVFAIL && !may_be_published {
        update.forget(answer);
    } else {
        update.answered(answer);
    }
}

/// The RCODE of a change that was refused.
fn rcode_of(refused: &ChangeRefusal) -> Rcode {
    match refused {
        ChangeRefusal::Refused(UpdateRefusal { rcode, .. }) => *rcode,
        // RFC 2136 3.3 leaves it to the server what else it refuses.
        ChangeRefusal::Invalid(_) | ChangeRefusal::Rejected(_) | ChangeRefusal::Frozen => Rcode::REFUSED,
        ChangeRefusal::NotServed
        | ChangeRefusal::Replaced
        | ChangeRefusal::Busy
        | ChangeRefusal::Overdue
        | ChangeRefusal::NotDurable
        | ChangeRefusal::Panicked => Rcode::SERVFAIL,
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

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Instant;

    use super::*;
    use crate::updates::{RecentUpdates, Repeated};

    /// RFC 8945 10: a repeated message must not be applied twice. One that has changed nothing may succeed then.
    #[test]
    fn an_update_that_may_yet_be_published_is_not_forgotten() {
        let failed = Some(Repeated::Answered(UpdateAnswer::Rcode(Rcode::SERVFAIL)));
        for (may_be_published, expected) in [(true, failed), (false, None)] {
            let (recent, client, now) =
                (RecentUpdates::default(), SocketAddr::from(([192, 0, 2, 1], 1)), Instant::now());
            let receive = || recent.receive(client, client.ip(), b"message", now);
            remember(recent.unanswered(receive().0), Rcode::SERVFAIL, may_be_published);
            assert_eq!(receive().1, expected);
        }
    }
}
