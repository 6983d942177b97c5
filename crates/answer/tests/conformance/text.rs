//! Records as zone text, for the zones that are loaded and for the messages of failures.

use std::fmt::Write;

use wire::message::{Message, Record};
use wire::{Name, Rtype};

use crate::oracle::denial::base32hex;

/// A record on one line: owner, TTL, type, data.
pub fn line(record: &Record) -> String {
    format!("{} {} {} {}", record.owner, record.ttl, record.rtype, rdata(record.rtype, &record.rdata))
}

/// Records, a line each.
pub fn lines(records: &[Record]) -> String {
    records.iter().map(|record| line(record) + "\n").collect()
}

/// A message as dig shows it.
pub fn dig(message: &Message) -> String {
    let mut out = format!("rcode {}, {:?}\n", message.rcode.0, message.flags);
    for question in &message.questions {
        let _ = writeln!(out, ";; {} {} {}", question.name, question.qtype, question.qclass);
    }
    for (section, records) in
        [("answer", &message.answer), ("authority", &message.authority), ("additional", &message.additional)]
    {
        let _ = write!(out, ";; {section}\n{}", lines(records));
    }
    let _ = writeln!(out, ";; {:?}", message.edns);
    out
}

/// RDATA as text, in the unknown form of RFC 3597 5 where the type is not one of those above.
fn rdata(rtype: Rtype, rdata: &[u8]) -> String {
    let mut fields = Fields { rest: rdata, out: String::new() };
    match rtype {
        Rtype::A => fields.out = fields.rest.iter().map(u8::to_string).collect::<Vec<_>>().join("."),
        Rtype::AAAA => fields.out = std::net::Ipv6Addr::from(fields.octets::<16>()).to_string(),
        Rtype::NS | Rtype::CNAME | Rtype::PTR | Rtype::DNAME => fields.name(),
        Rtype::SOA => fields.many("nn44444"),
        Rtype::MX | Rtype::SVCB | Rtype::HTTPS => fields.many("2n"),
        Rtype::SRV => fields.many("222n"),
        Rtype::NAPTR => fields.many("22sssn"),
        Rtype::TXT | Rtype::HINFO => fields.strings(),
        Rtype::DS => fields.many("211x"),
        Rtype::DNSKEY => fields.many("211b"),
        Rtype::RRSIG => fields.many("t114442nb"),
        Rtype::NSEC => fields.many("nm"),
        Rtype::NSEC3 => fields.many("112lhm"),
        Rtype::NSEC3PARAM => fields.many("112l"),
        _ => {
            let _ = write!(fields.out, "\\# {} {}", rdata.len(), hex(rdata));
        }
    }
    fields.out.trim_end().to_string()
}

struct Fields<'a> {
    rest: &'a [u8],
    out: String,
}

impl<'a> Fields<'a> {
    /// One field a letter: 1, 2, 4 octets as a number, n a name, s a string, t a type, m a type bitmap,
    /// l hex behind its length, h base32hex behind its length, x and b the rest in hex and in base64.
    fn many(&mut self, fields: &str) {
        for field in fields.chars() {
            match field {
                '1' => self.push(self.rest[0].to_string(), 1),
                '2' => self.number::<2>(),
                '4' => self.number::<4>(),
                'n' => self.name(),
                's' => self.string(),
                't' => self.push(Rtype(u16::from_be_bytes([self.rest[0], self.rest[1]])).to_string(), 2),
                'm' => self.bitmap(),
                'l' => self.salt(),
                'h' => self.push(base32hex(self.counted()), 1 + self.rest[0] as usize),
                'x' => self.push(hex(self.rest), self.rest.len()),
                'b' => self.push(base64(self.rest), self.rest.len()),
                _ => unreachable!("fields are constants of this file"),
            }
        }
    }

    /// Appends a field that took `len` octets.
    fn push(&mut self, field: String, len: usize) {
        self.out += &field;
        self.out.push(' ');
        self.rest = &self.rest[len..];
    }

    fn octets<const N: usize>(&mut self) -> [u8; N] {
        *self.rest.first_chunk().expect("the messages and zones of the tests are well-formed")
    }

    fn number<const N: usize>(&mut self) {
        let value = self.octets::<N>().iter().fold(0, |value: u32, octet| value << 8 | u32::from(*octet));
        self.push(value.to_string(), N);
    }

    fn name(&mut self) {
        let name = Name::from_wire(self.rest).expect("a name");
        self.push(name.to_string(), name.wire().len());
    }

    /// What stands behind a length octet.
    fn counted(&self) -> &'a [u8] {
        &self.rest[1..1 + self.rest[0] as usize]
    }

    fn string(&mut self) {
        let text: String = self.counted().iter().map(|&octet| character(octet)).collect();
        self.push(format!("\"{text}\""), 1 + self.rest[0] as usize);
    }

    fn strings(&mut self) {
        while !self.rest.is_empty() {
            self.string();
        }
    }

    fn salt(&mut self) {
        let salt = self.counted();
        self.push(if salt.is_empty() { "-".to_string() } else { hex(salt) }, 1 + salt.len());
    }

    /// RFC 4034 4.1.2: blocks of a window number, a length and as many octets of bits.
    fn bitmap(&mut self) {
        while let [window, len, rest @ ..] = self.rest {
            let bits = &rest[..usize::from(*len)];
            for bit in (0..bits.len() * 8).filter(|bit| bits[bit / 8] & (0x80 >> (bit % 8)) != 0) {
                self.out += &Rtype(u16::from(*window) << 8 | bit as u16).to_string();
                self.out.push(' ');
            }
            self.rest = &rest[bits.len()..];
        }
    }
}

fn character(octet: u8) -> String {
    match octet {
        b'"' | b'\\' => format!("\\{}", octet as char),
        b' '..=b'~' => (octet as char).to_string(),
        _ => format!("\\{octet:03}"),
    }
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

fn base64(octets: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for group in octets.chunks(3) {
        let bits = (0..3).fold(0, |bits, at| bits << 8 | usize::from(*group.get(at).unwrap_or(&0)));
        for place in 0..4 {
            let digit = DIGITS[bits >> (18 - 6 * place) & 63];
            out.push(if place <= group.len() { digit as char } else { '=' });
        }
    }
    out
}
