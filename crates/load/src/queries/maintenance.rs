//! NOTIFY (RFC 1996) and UPDATE (RFC 2136) messages, which are sent like queries.

use wire::message::Opcode;
use wire::{Class, NameRef, Rtype};

use super::{Queries, QueryError};

/// AA, in the third octet of the header.
const AUTHORITATIVE: u8 = 0x04;
/// The TTL of added records, in seconds.
const TTL: u32 = 60;

/// A NOTIFY for each zone, without the optional SOA record (RFC 1996 3.7).
pub fn notifies<'z>(zones: impl IntoIterator<Item = NameRef<'z>>) -> Result<Queries, QueryError> {
    let mut queries = Queries::default();
    for zone in zones {
        queries.push(&message(Opcode::NOTIFY, AUTHORITATIVE, 0, zone))?;
    }
    Ok(queries)
}

/// Pairs of updates: add `update0.ZONE A`, delete it, add `update1.ZONE A`, and so on.
pub fn updates(zone: NameRef<'_>, pairs: u32) -> Result<Queries, QueryError> {
    let mut queries = Queries::default();
    for number in 0..pairs {
        let address = [192, 0, 2, number as u8];
        // RFC 2136 2.5.1: add to an RRset. 2.5.2: delete an RRset, with class ANY, TTL 0 and no RDATA.
        queries.push(&update(zone, number, Class::IN, TTL, &address))?;
        queries.push(&update(zone, number, Class::ANY, 0, &[]))?;
    }
    Ok(queries)
}

/// The header, and the question or zone section; `updates` is the count of the update section.
fn message(opcode: Opcode, flags: u8, updates: u8, zone: NameRef<'_>) -> Vec<u8> {
    let header = [0, 0, opcode.0 << 3 | flags, 0, 0, 1, 0, 0, 0, updates, 0, 0];
    [&header, zone.wire(), &Rtype::SOA.0.to_be_bytes(), &[0, 1]].concat()
}

fn update(zone: NameRef<'_>, number: u32, class: Class, ttl: u32, rdata: &[u8]) -> Vec<u8> {
    let label = format!("update{number}");
    // The label is followed by a compression pointer to the zone name, at offset 12.
    let owner = [&[label.len() as u8], label.as_bytes(), &[0xc0, 12]].concat();
    let fixed = [Rtype::A.0.to_be_bytes(), class.0.to_be_bytes()].concat();
    let len = (rdata.len() as u16).to_be_bytes();
    [&message(Opcode::UPDATE, 0, 1, zone)[..], &owner, &fixed, &ttl.to_be_bytes(), &len, rdata].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{Message, Name};

    #[test]
    fn notify_and_update_messages_are_well_formed() {
        let zone: Name = "example.org".parse().expect("a literal");
        let queries = notifies([zone.as_ref()]).expect("short");
        let notify = Message::parse(queries.at(0).message).expect("well-formed");
        assert_eq!((notify.opcode, notify.flags.authoritative), (Opcode::NOTIFY, true));
        assert_eq!((&notify.questions[0].name, notify.questions[0].qtype), (&zone, Rtype::SOA));

        let queries = updates(zone.as_ref(), 2).expect("short");
        assert_eq!(queries.len(), 4);
        let update = |number| Message::parse(queries.at(number).message).expect("well-formed");
        let (add, delete) = (update(2), update(3));
        assert_eq!((add.opcode, add.questions[0].qtype), (Opcode::UPDATE, Rtype::SOA));
        assert_eq!(add.authority[0].owner.to_string(), "update1.example.org.");
        assert_eq!((add.authority[0].class, &add.authority[0].rdata[..]), (Class::IN, &[192, 0, 2, 1][..]));
        assert_eq!(delete.authority[0].owner, add.authority[0].owner);
        assert_eq!((delete.authority[0].class, delete.authority[0].ttl), (Class::ANY, 0));
    }
}
