//! Class CHAOS: who and what this server is, for those who may know (RFC 4892).

use wire::Rtype;

use crate::lookup::{NOERROR, Outcome, REFUSED};
use crate::message::{Message, Section};
use crate::qname::Qname;
use crate::served::AnswerConfig;

/// Answers `version.bind`, `version.server`, `id.server` and `hostname.bind` where the configuration has a text.
pub(crate) fn answer(config: &AnswerConfig, qname: &Qname, qtype: Rtype, message: &mut Message<'_>) -> Outcome {
    let text = match qname.wire() {
        b"\x07version\x04bind\x00" | b"\x07version\x06server\x00" => &config.version,
        b"\x02id\x06server\x00" | b"\x08hostname\x04bind\x00" => &config.identity,
        _ => &None,
    };
    let Some(text) = text else { return Outcome::empty(REFUSED) };
    if matches!(qtype, Rtype::TXT | Rtype::ANY) {
        let mut rdata = [0; 256];
        let len = text.len().min(255);
        rdata[0] = len as u8;
        rdata[1..1 + len].copy_from_slice(&text[..len]);
        let at = message.at;
        let owner = qname.offset(qname.labels());
        match message.push_raw(Section::Answer, owner, Rtype::TXT, 0, &rdata[..1 + len]) {
            Ok(()) => message.out[at + 4..at + 6].copy_from_slice(&[0, 3]),
            Err(_) => message.truncated = true,
        }
    }
    Outcome { rcode: NOERROR, authoritative: true, alike_len: qname.wire().len() as u8 }
}
