//! Names below a DNAME: the redirection and the synthesized CNAME (RFC 6672).

use wire::message::{Rcode, Section};
use wire::{Class, Rtype};
use zone::ZoneVersion;
use zone::rrset::{MAX_POINTER, RECORD_HEAD_LEN, Rrset};

use super::{Lookup, Step};
use crate::alias_limit::MAX_CNAMES;
use crate::message_writer::Full;
use crate::name_writer::OwnerName;
use crate::zone_cut::ZonePosition;

/// A DNAME RRset in the answer.
#[derive(Clone, Copy, Default)]
pub(super) struct SentDname {
    /// The version of its zone: small zones of equal content share their records, so that these have one memory address.
    zone: ZoneVersion,
    /// The memory address of the RRset.
    address: usize,
    /// Where the message has its target.
    target: u16,
}

impl<'z> Lookup<'_, 'z, '_> {
    /// RFC 6672 3.2: adds the DNAME record and the CNAME record synthesized from it.
    pub(super) fn redirect(&mut self, found: &ZonePosition<'z>) -> Result<Step, Full> {
        self.authoritative = true;
        let owner_labels = self.label_count(found);
        let owner = self.owner(found, owner_labels);
        let Some(dname) = found.node.rrset(Rtype::DNAME) else { return Ok(Step::Done(Rcode::NOERROR)) };
        let target_at = self.push_dname(&dname, owner)?;
        let Some(target) = dname.opaque().next() else { return Ok(Step::Done(Rcode::NOERROR)) };
        let wire = self.qname.wire();
        let prefix = &wire[..wire.len() - self.qname.suffix(owner_labels).len()];
        if prefix.len() + target.len() > wire::MAX_NAME_LEN {
            // RFC 6672 2.2: the name would be too long.
            return Ok(Step::Done(Rcode::YXDOMAIN));
        }
        let pointer = (0xc000 | target_at as u16).to_be_bytes();
        let suffix = if target.len() > 2 && target_at <= MAX_POINTER { &pointer } else { target };
        let mut buffer = [0; wire::MAX_NAME_LEN];
        let len = prefix.len() + suffix.len();
        buffer[..prefix.len()].copy_from_slice(prefix);
        buffer[prefix.len()..len].copy_from_slice(suffix);
        let mut owner = OwnerName::at(self.offsets(self.qname.labels()));
        self.message.push_record(Section::Answer, &mut owner, Class::IN, Rtype::CNAME, dname.ttl, &[&buffer[..len]])?;
        let cname_target = self.message.at - len;
        Ok(if self.qtype == Rtype::CNAME { Step::Done(Rcode::NOERROR) } else { Step::Cname(cname_target) })
    }

    /// Adds a DNAME RRset unless the answer has it; returns where its target is.
    pub(super) fn push_dname(&mut self, dname: &Rrset<'z>, mut owner: OwnerName<'_, 'z>) -> Result<usize, Full> {
        if let Some(sent) = self.sent_dname(dname) {
            return Ok(usize::from(sent.target));
        }
        let at = self.message.push(Section::Answer, dname, &mut owner, self.dnssec)?;
        let target = at + RECORD_HEAD_LEN;
        let dnames = self.dnames.get_or_insert([SentDname::default(); MAX_CNAMES]);
        if let Some(free) = dnames.iter_mut().find(|sent| sent.address == 0) {
            *free = SentDname { zone: self.zone.version(), address: dname.address(), target: target as u16 };
        }
        Ok(target)
    }

    /// This RRset of the current zone, if the answer has it as a DNAME RRset.
    pub(super) fn sent_dname(&self, rrset: &Rrset<'z>) -> Option<&SentDname> {
        let (zone, address) = (self.zone.version(), rrset.address());
        self.dnames.iter().flatten().find(|sent| sent.zone == zone && sent.address == address)
    }
}
