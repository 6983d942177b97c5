//! Class CHAOS: the server's version and identity (RFC 4892).

use wire::message::{Rcode, Section};
use wire::{Class, Rtype};
use zone::rrset::MessageOffsets;

use crate::config::AnswerConfig;
use crate::message_writer::{MessageWriter, ResponseStatus};
use crate::name_writer::OwnerName;
use crate::qname::Qname;

/// Answers `version.bind`, `version.server`, `id.server` and `hostname.bind` if the configuration has a text for it.
pub(crate) fn answer(
    config: &AnswerConfig,
    qname: &Qname,
    qtype: Rtype,
    message: &mut MessageWriter<'_>,
) -> ResponseStatus {
    let text = match qname.wire() {
        b"\x07version\x04bind\x00" | b"\x07version\x06server\x00" => &config.version,
        b"\x02id\x06server\x00" | b"\x08hostname\x04bind\x00" => &config.identity,
        _ => &None,
    };
    let Some(text) = text else { return ResponseStatus::empty(Rcode::REFUSED) };
    if matches!(qtype, Rtype::TXT | Rtype::ANY) {
        let mut rdata = [0; 256];
        let len = text.len().min(255);
        rdata[0] = len as u8;
        rdata[1..1 + len].copy_from_slice(&text[..len]);
        let asked = qname.offset(qname.labels());
        let mut owner = OwnerName::at(MessageOffsets { owner: asked, apex: asked });
        let rdata = &rdata[..1 + len];
        if message.push_record(Section::Answer, &mut owner, Class::CH, Rtype::TXT, 0, &[rdata]).is_err() {
            message.set_truncated();
        }
    }
    ResponseStatus { rcode: Rcode::NOERROR, authoritative: true, rrl_suffix_len: qname.wire().len() as u8 }
}
