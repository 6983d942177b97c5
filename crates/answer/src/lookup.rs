//! Looking a name up in the zones: RFC 1034 4.3.2, as refined by RFC 4592, 6672 and 4035.

mod dname;
mod negative;
mod referral;
mod wildcard;

use wire::message::{Rcode, Section};
use wire::{Class, Rtype};
use zone::Zone;
use zone::rrset::{MessageOffsets, RECORD_HEAD_LEN, Rrset, ZoneNode};

use crate::additional::add_addresses;
use crate::alias_limit::MAX_CNAMES;
use crate::denial::{DenialProofs, Denied};
use crate::edns::ExtendedError;
use crate::edns_response::ResponseEdns;
use crate::find_zone::find_zone;
use crate::message_writer::{Full, MessageWriter, ResponseStatus};
use crate::name_writer::OwnerName;
use crate::published::Served;
use crate::qname::Qname;
use crate::query::Query;
use crate::referral_cache::ReferralCache;
use crate::request::Transport;
use crate::served_zone::ZoneState;
use crate::worker::WorkerState;
use crate::zone_cut::ZonePosition;
use crate::zone_map::ZoneMap;
use dname::SentDname;

/// A lookup in progress.
struct Lookup<'l, 'z, 'o> {
    zones: &'z ZoneMap,
    /// The zone of `qname`.
    zone: &'z Zone,
    qtype: Rtype,
    dnssec: bool,
    /// The name being looked up: that of the question, then the targets of its CNAME chain.
    qname: &'l mut Qname,
    referral_cache: &'l mut ReferralCache,
    message: &'l mut MessageWriter<'o>,
    proofs: DenialProofs<'z>,
    authoritative: bool,
    /// The authority section has the NS RRset of a referral.
    has_referral: bool,
    rrl_suffix_len: u8,
    /// How many CNAME records were followed.
    followed: usize,
    /// Where the message has the owners of those records.
    cname_owners: [u16; MAX_CNAMES],
    /// The DNAME RRsets in the answer; the rest is [`SentDname::default`]. Set when needed, as few answers have any.
    dnames: Option<[SentDname; MAX_CNAMES]>,
    /// The RRset whose targets get addresses in the additional section, and where it is.
    answered: Option<(Rrset<'z>, usize)>,
}

/// What one zone has for one name.
enum Step {
    /// A CNAME record; its target is at this offset.
    Cname(usize),
    /// The end of the chain.
    Done(Rcode),
}

/// Answers from `zone`, the zone of the current name of `worker`.
#[inline(always)]
pub(crate) fn answer(
    served: &Served,
    worker: &mut WorkerState,
    query: &Query<'_>,
    zone: &Zone,
    message: &mut MessageWriter<'_>,
    opt: &mut ResponseEdns,
) -> ResponseStatus {
    opt.describe(served, zone, query);
    let WorkerState { names, referral_cache, counters, .. } = worker;
    let dnssec = query.edns.is_some_and(|edns| edns.dnssec_ok);
    let qtype = if query.qtype == Rtype::IXFR { Rtype::SOA } else { query.qtype };
    let mut lookup = Lookup {
        zones: &served.zones,
        zone,
        qtype,
        dnssec,
        qname: names.current(),
        referral_cache,
        message,
        proofs: DenialProofs::new(),
        authoritative: false,
        has_referral: false,
        rrl_suffix_len: 0,
        followed: 0,
        cname_owners: [0; MAX_CNAMES],
        dnames: None,
        answered: None,
    };
    let status = lookup.run();
    counters.nsec3_digests += u64::from(lookup.proofs.cost.digests);
    let (too_costly, has_referral) = (lookup.proofs.cost.too_high, lookup.has_referral);
    if let Some(error) = failure(message, query.request.transport, too_costly, has_referral) {
        message.clear(query.question_end);
        opt.error = Some(error);
        return ResponseStatus::empty(Rcode::SERVFAIL);
    }
    // RFC 1035 6.2: an answer to QCLASS ANY is not authoritative.
    ResponseStatus { authoritative: status.authoritative && query.qclass == Class::IN, ..status }
}

/// Why the written message cannot be sent.
#[inline]
fn failure(
    message: &MessageWriter<'_>,
    transport: Transport<'_>,
    too_costly: bool,
    has_referral: bool,
) -> Option<ExtendedError> {
    if too_costly {
        return Some(ExtendedError::UnsupportedNsec3Iterations);
    }
    // RFC 8914 4.25: no transport has more room than TCP. A truncated referral is useful all the same, a denial without its proofs is not.
    let is_hopeless = message.truncated && !transport.is_udp() && !has_referral;
    is_hopeless.then_some(ExtendedError::InvalidData)
}

impl<'z> Lookup<'_, 'z, '_> {
    /// Answers for the name, and follows the CNAME chain through all zones.
    fn run(&mut self) -> ResponseStatus {
        for followed in 0..MAX_CNAMES {
            self.followed = followed;
            self.cname_owners[followed] = self.qname.offset(self.qname.labels()) as u16;
            let target = match self.look() {
                Ok(Step::Cname(target)) => target,
                Ok(Step::Done(rcode)) => return self.finish(rcode),
                Err(Full) => {
                    self.message.set_truncated();
                    return self.status(Rcode::NOERROR);
                }
            };
            if self.qname.read_compressed(self.message.out, target).is_none() || self.is_loop() {
                break;
            }
            match find_zone(self.zones, self.qname, self.qtype).map(|served| &served.state) {
                Some(ZoneState::Loaded(next)) => self.zone = next,
                _ => break,
            }
        }
        self.finish(Rcode::NOERROR)
    }

    /// Whether the name is the owner of a CNAME record that was followed.
    fn is_loop(&self) -> bool {
        let mut owner = Qname::new();
        self.cname_owners[..=self.followed].iter().any(|&at| {
            owner.read_compressed(self.message.out, at.into()).is_some() && owner.wire() == self.qname.wire()
        })
    }

    fn status(&self, rcode: Rcode) -> ResponseStatus {
        ResponseStatus { rcode, authoritative: self.authoritative, rrl_suffix_len: self.rrl_suffix_len }
    }

    /// Makes RRL count the response for the last `labels` labels of the question's name.
    #[inline]
    fn count_for(&mut self, labels: usize) {
        if self.followed == 0 {
            self.rrl_suffix_len = self.qname.suffix(labels).len() as u8;
        }
    }

    /// Adds the denial of existence for the whole chain, and then the addresses.
    fn finish(&mut self, rcode: Rcode) -> ResponseStatus {
        if self.proofs.write(self.message).is_err() {
            self.message.set_truncated();
        } else if let Some((rrset, at)) = &self.answered {
            add_addresses(self.zone, self.qname, rrset, *at, self.dnssec, self.message);
        }
        self.status(rcode)
    }

    /// Answers for the name from its zone.
    fn look(&mut self) -> Result<Step, Full> {
        if self.refer_from_top() {
            return Ok(Step::Done(Rcode::NOERROR));
        }
        self.qname.set_key(self.zone.apex_labels());
        let cursor = self.zone.seek(self.qname.key());
        let is_exact = cursor.is_exact();
        let nearest = ZonePosition::new(self.zone, cursor).expect("the apex sorts before all names of a zone");
        if is_exact && nearest.node.is_plain() {
            return self.found(&nearest);
        }
        if !nearest.node.is_plain()
            && let Some(step) = self.at_or_below_cut(&nearest)?
        {
            return Ok(step);
        }
        if is_exact { self.found(&nearest) } else { self.not_found(&nearest) }
    }

    /// RFC 1034 4.3.2 step 3a: the name exists.
    fn found(&mut self, name: &ZonePosition<'z>) -> Result<Step, Full> {
        self.authoritative = true;
        let labels = self.qname.labels();
        let owner = self.owner(name, labels);
        if let Some(step) = self.answer_from(&name.node, owner, false)? {
            return Ok(step);
        }
        self.deny(Denied::Type { labels, name });
        self.negative(Rcode::NOERROR)
    }

    /// Adds the records of the node that answer the question; `None` where there are none. `owner` is that of the node, or
    /// the name that its wildcard `is_expanded` to: then the answer has none of the records yet.
    #[inline]
    fn answer_from(
        &mut self,
        node: &ZoneNode<'z>,
        mut owner: OwnerName<'_, 'z>,
        is_expanded: bool,
    ) -> Result<Option<Step>, Full> {
        if self.qtype == Rtype::RRSIG && self.push_signatures(node, &mut owner, is_expanded)? {
            return Ok(Some(Step::Done(Rcode::NOERROR)));
        }
        let rrset = match self.qtype {
            // RFC 8482 4.1: one RRset answers ANY.
            Rtype::ANY => node.rrsets().find(|rrset| rrset.count > 0),
            qtype => node.rrset(qtype),
        };
        if let Some(dname) = rrset.filter(|rrset| rrset.rtype == Rtype::DNAME && !is_expanded) {
            self.push_dname(&dname, owner)?;
            return Ok(Some(Step::Done(Rcode::NOERROR)));
        }
        if let Some(rrset) = rrset {
            let at = self.message.push(Section::Answer, &rrset, &mut owner, self.dnssec)?;
            self.answered = Some((rrset, at));
            return Ok(Some(Step::Done(Rcode::NOERROR)));
        }
        // RFC 1034 3.6.2: a CNAME answers for all types, but not for NSEC, which exists beside it (RFC 4035 2.5).
        let Some(cname) = node.rrset(Rtype::CNAME).filter(|_| self.qtype != Rtype::NSEC) else { return Ok(None) };
        let at = self.message.push(Section::Answer, &cname, &mut owner, self.dnssec)?;
        Ok(Some(Step::Cname(at + RECORD_HEAD_LEN)))
    }

    /// Answers a query for RRSIG: all signatures of the node, except those that the answer has with a DNAME; or none if
    /// they do not fit. Returns whether there are any.
    fn push_signatures(
        &mut self,
        node: &ZoneNode<'z>,
        owner: &mut OwnerName<'_, 'z>,
        is_expanded: bool,
    ) -> Result<bool, Full> {
        let start = (self.message.at, self.message.counts);
        let mut found = false;
        for rrset in node.rrsets() {
            if self.dnssec && !is_expanded && self.sent_dname(&rrset).is_some() {
                found |= !rrset.signatures().is_empty();
                continue;
            }
            for rdata in rrset.signatures().rdatas() {
                let pushed =
                    self.message.push_record(Section::Answer, owner, Class::IN, Rtype::RRSIG, rrset.ttl, &rdata.parts);
                if pushed.is_err() {
                    (self.message.at, self.message.counts) = start;
                }
                pushed?;
                found = true;
            }
        }
        Ok(found)
    }

    /// Collects the proof of `denied` if the client wants DNSSEC and the zone has it.
    #[inline]
    fn deny(&mut self, denied: Denied<'_, 'z>) {
        if self.dnssec {
            self.proofs.prove(self.zone, self.qname, denied);
        }
    }

    /// The owner name of a node, which is the last `labels` labels of the name, in the case of the zone (RFC 4343 4.1).
    /// RRL counts the response for it.
    #[inline]
    fn owner<'e>(&mut self, node: &'e ZonePosition<'z>, labels: usize) -> OwnerName<'e, 'z> {
        self.count_for(labels);
        let has_upper_case = self.zone.has_upper_case(&node.node);
        OwnerName::in_zone_case(self.zone, &node.entry, has_upper_case, self.offsets(labels))
    }

    /// The label count of the cut or DNAME owner.
    #[inline]
    fn label_count(&self, cut: &ZonePosition<'z>) -> usize {
        self.zone.apex_labels() + cut.entry.label_count()
    }

    /// Where the message has the last `labels` labels of the name, and the apex of its zone.
    #[inline]
    fn offsets(&self, labels: usize) -> MessageOffsets {
        MessageOffsets { owner: self.qname.offset(labels), apex: self.qname.offset(self.zone.apex_labels()) }
    }
}
