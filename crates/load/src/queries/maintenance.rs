//! Messages of secondaries and of clients that change zones: NOTIFY and UPDATE, sent as queries are.

use wire::{NameRef, Rtype};

use super::{NotAQuery, Queries};

const NOTIFY: u8 = 4 << 3;
const UPDATE: u8 = 5 << 3;
const AUTHORITATIVE: u8 = 0x04;
/// Seconds; what is added is deleted right after.
const TTL: u32 = 60;

/// A NOTIFY for each zone (RFC 1996 3.7), without the SOA record that it may have.
pub fn notifies<'z>(zones: impl IntoIterator<Item = NameRef<'z>>) -> Result<Queries, NotAQuery> {
    let mut queries = Queries::default();
    for zone in zones {
        queries.push(&message(NOTIFY | AUTHORITATIVE, 0, zone))?;
    }
    Ok(queries)
}

/// Updates (RFC 2136) that add `update0.ZONE A`, delete it, add `update1.ZONE A`, and so on; `pairs` of them.
pub fn updates(zone: NameRef<'_>, pairs: u32) -> Result<Queries, NotAQuery> {
    let mut queries = Queries::default();
    for number in 0..pairs {
        let address = [192, 0, 2, number as u8];
        // RFC 2136 2.5.1 add to an RRset; 2.5.2 delete an RRset: class ANY, no TTL, no RDATA.
        queries.push(&update(zone, number, 1, TTL, &address))?;
        queries.push(&update(zone, number, 255, 0, &[]))?;
    }
    Ok(queries)
}

/// A header and the question or zone section; `updates` is the count of the update section.
fn message(flags: u8, updates: u8, zone: NameRef<'_>) -> Vec<u8> {
    let mut message = vec![0, 0, flags, 0, 0, 1, 0, 0, 0, updates, 0, 0];
    message.extend_from_slice(zone.wire());
    message.extend_from_slice(&Rtype::SOA.0.to_be_bytes());
    message.extend_from_slice(&[0, 1]);
    message
}

fn update(zone: NameRef<'_>, number: u32, class: u16, ttl: u32, rdata: &[u8]) -> Vec<u8> {
    let mut message = message(UPDATE, 1, zone);
    let label = format!("update{number}");
    message.push(label.len() as u8);
    message.extend_from_slice(label.as_bytes());
    // The zone's name stands right behind the header.
    message.extend_from_slice(&[0xc0, 12]);
    message.extend_from_slice(&Rtype::A.0.to_be_bytes());
    message.extend_from_slice(&class.to_be_bytes());
    message.extend_from_slice(&ttl.to_be_bytes());
    message.extend_from_slice(&(rdata.len() as u16).to_be_bytes());
    message.extend_from_slice(rdata);
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::message::Opcode;
    use wire::{Class, Message, Name};

    #[test]
    fn messages_are_what_the_rfcs_have() {
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
