//! Zone text of a version: the records of a zone file that loads as the same zone.

use std::fmt::Write;
use std::io;

use wire::{Name, Rtype};

use crate::node_decoder::NodeDecoder;
use crate::text::ZoneRecord;
use crate::text::print::{OwnerStyle, write_record};
use crate::tree::TreeEntry;
use crate::zone::Zone;

/// The text of one version, chunk by chunk. It keeps its version until the end, even if a newer one is published.
pub struct TextExport {
    zone: Zone,
    apex: Name,
    position: ExportPosition,
    decoder: NodeDecoder,
}

/// What is written next.
enum ExportPosition {
    Start,
    /// Owners from this key on.
    Names(Vec<u8>),
    /// Owners of NSEC3 records from this key on.
    Nsec3(Vec<u8>),
    End,
}

/// The size in octets from which a chunk is complete.
const CHUNK_LEN: usize = 64 * 1024;

impl TextExport {
    /// The text of this version.
    pub fn new(zone: Zone) -> TextExport {
        let apex = zone.owner(&zone.apex_entry());
        TextExport { zone, apex, position: ExportPosition::Start, decoder: NodeDecoder::default() }
    }

    /// Appends the next chunk, whole lines of some 64 KiB. Returns whether there was any.
    pub fn next_chunk(&mut self, out: &mut String) -> bool {
        let end = out.len() + CHUNK_LEN;
        let start = std::mem::replace(&mut self.position, ExportPosition::End);
        self.position = match start {
            ExportPosition::Start => {
                writeln!(out, "$ORIGIN {}", self.apex).expect("strings take all writes");
                self.write_owners(false, Vec::new(), out, end)
            }
            ExportPosition::Names(key) => self.write_owners(false, key, out, end),
            ExportPosition::Nsec3(key) => self.write_owners(true, key, out, end),
            ExportPosition::End => return false,
        };
        true
    }

    /// Writes the rest of the text.
    pub fn write_to(mut self, mut out: impl io::Write) -> io::Result<()> {
        let mut chunk = String::new();
        while self.next_chunk(&mut chunk) {
            out.write_all(chunk.as_bytes())?;
            chunk.clear();
        }
        Ok(())
    }

    /// Writes owners of one tree until the chunk is complete; returns where the next chunk begins.
    fn write_owners(&mut self, is_nsec3: bool, key: Vec<u8>, out: &mut String, end: usize) -> ExportPosition {
        let tree = if is_nsec3 { self.zone.nsec3() } else { self.zone.names() };
        let mut cursor = tree.seek(&key);
        let mut next = if cursor.is_exact() { cursor.entry() } else { cursor.next() };
        while let Some(entry) = next {
            write_node(&mut self.decoder, &self.zone, &self.apex, &entry, out);
            next = cursor.next();
            if out.len() >= end
                && let Some(entry) = &next
            {
                let mut key = Vec::new();
                entry.append_key(&mut key);
                return if is_nsec3 { ExportPosition::Nsec3(key) } else { ExportPosition::Names(key) };
            }
        }
        if is_nsec3 { ExportPosition::End } else { ExportPosition::Nsec3(Vec::new()) }
    }
}

/// Writes all records of an owner, the SOA record first.
fn write_node(decoder: &mut NodeDecoder, zone: &Zone, apex: &Name, entry: &TreeEntry<'_>, out: &mut String) {
    let owner = zone.owner(entry);
    let mut records = decoder.decode(zone.node(entry), owner.as_ref(), apex.as_ref());
    records.sort_by_key(|record| record.rtype != Rtype::SOA);
    for record in records {
        let (rtype, ttl, rdata) = (record.rtype, record.ttl, record.rdata);
        let record = ZoneRecord { owner: owner.as_ref(), rtype, ttl, rdata, file: 0, line: 0 };
        write_record(out, &record, OwnerStyle::RelativeTo(apex.as_ref()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::load_text;

    fn zone_of(apex: &Name, text: &str) -> Zone {
        load_text(apex.as_ref(), text.as_bytes()).zone.expect("a valid zone")
    }

    fn export(zone: &Zone) -> (String, usize) {
        let (mut export, mut text, mut chunks) = (TextExport::new(zone.clone()), String::new(), 0);
        while export.next_chunk(&mut text) {
            chunks += 1;
        }
        (text, chunks)
    }

    #[test]
    fn the_text_of_a_zone_loads_as_the_same_zone() {
        let apex: Name = "Z.".parse().expect("a name");
        let mut text = String::from("Z. 300 A 192.0.2.1\nZ. 300 SOA Ns hostmaster 1 2 3 4 5\nz. 300 NS ns.z.\n");
        text += "z. 300 RRSIG A 13 1 300 20300101000000 20200101000000 1 z. AAAA\n";
        text += "0123456789abcdefghijklmnopqrstuv 60 NSEC3 1 0 0 - 0123456789abcdefghijklmnopqrstuv A\n";
        for number in 0..5_000 {
            text += &format!("Host{number} 60 TXT \"a ; b\" {number}\n");
        }
        let zone = zone_of(&apex, &text);
        let (first, chunks) = export(&zone);
        assert!(first.starts_with("$ORIGIN Z.\n@ 300 IN SOA Ns.Z. hostmaster.Z. 1 2 3 4 5\n"), "{:.100}", first);
        assert!(chunks > 2, "{chunks} chunks of {} octets", first.len());
        let (second, _) = export(&zone_of(&apex, &first));
        assert_eq!(first, second);
        assert_eq!(first.lines().count() as u64, zone.counts().records + 1);
    }

    #[test]
    fn the_root_zone_is_exported() {
        let zone = zone_of(&Name::root(), ". 300 SOA a. b. 1 2 3 4 5\n. 300 NS a.\na. 60 A 192.0.2.1\n");
        assert_eq!(export(&zone).0, "$ORIGIN .\n@ 300 IN SOA a. b. 1 2 3 4 5\n@ 300 IN NS a.\na 60 IN A 192.0.2.1\n");
    }
}
