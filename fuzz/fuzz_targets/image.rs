//! Damages the image of a zone, or reads any bytes as one: what is accepted can be served, and encoded and decoded again.
//!
//! The first octet chooses: 0, then chunks, each after its length of 16 bits; or changes of one octet each, as chunk, offset of 16 bits
//! and mask.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use wire::Name;
use zone::axfr::AxfrStream;
use zone::image::{self, ImageDecoder, ImageEncoder, ImageError};
use zone::load::load_text;
use zone::Zone;

fuzz_target!(|bytes: &[u8]| {
    let Some((&kind, rest)) = bytes.split_first() else { return };
    let chunks = if kind == 0 { pieces(rest) } else { damaged(rest) };
    let mut decoder = ImageDecoder::new();
    let decoded = chunks.iter().try_for_each(|chunk| decoder.push(chunk)).and_then(|()| decoder.finish());
    assert_eq!(decoded.is_ok(), decode_on_threads(&chunks).is_ok());
    let Ok(zone) = decoded else { return };
    for (entry, _) in zone.nodes() {
        let mut key = Vec::new();
        entry.append_key(&mut key);
        // The owners of NSEC3 records are in a tree of their own.
        assert!(zone.get(&key).is_some() || zone.seek_nsec3(&key).is_exact());
    }
    let question = [zone.apex().wire(), &[0, 252, 0, 1]].concat();
    let (mut stream, mut message) = (AxfrStream::new(zone.clone(), [0, 1], &question, &[]), vec![0; 65535]);
    while stream.next_message(&mut message).is_some() {}
    let (mut encoder, mut chunk, mut again) = (ImageEncoder::new(zone.clone()), Vec::new(), ImageDecoder::new());
    while encoder.next_chunk(&mut chunk) {
        again.push(&chunk).expect("it was written just now");
    }
    assert_eq!(again.finish().expect("it is complete").counts(), zone.counts());
});

fn pieces(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    while let Some((len, rest)) = bytes.split_first_chunk::<2>() {
        let (piece, rest) = rest.split_at(usize::from(u16::from_be_bytes(*len)).min(rest.len()));
        pieces.push(piece.to_vec());
        bytes = rest;
    }
    pieces
}

/// The image of a zone with these changes.
fn damaged(changes: &[u8]) -> Vec<Vec<u8>> {
    static IMAGE: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    let mut chunks = IMAGE.get_or_init(good_image).clone();
    for change in changes.chunks_exact(4) {
        let index = usize::from(change[0]) % chunks.len();
        let chunk = &mut chunks[index];
        let offset = usize::from(u16::from_be_bytes([change[1], change[2]])) % chunk.len();
        chunk[offset] ^= change[3];
    }
    chunks
}

/// Of a zone with all that images have: interned RRsets, wildcards, NSEC3.
fn good_image() -> Vec<Vec<u8>> {
    let head = "@ 60 SOA ns Host 1 2 3 4 5\n@ 60 NS ns\nns 60 A 192.0.2.1\n*.w 60 TXT \"one\" \"two\"\nd 60 DNAME e\n\
                @ 0 NSEC3PARAM 1 0 12 aabbccdd\n2t7b4g4vsa5smi47k61mv5bv1a22bojr 300 NSEC3 1 1 12 aabbccdd \
                2vptu5timamqttgl4luu9kg21e0aor3s A RRSIG\n";
    let text = (0..600).fold(head.to_owned(), |text, n| text + &format!("h{n} 60 NS a.provider{}.net.\n", n % 7));
    let apex: Name = "example.".parse().expect("a name");
    let zone = load_text(apex.as_ref(), text.as_bytes()).zone.expect("a valid zone");
    let (mut encoder, mut chunks, mut chunk) = (ImageEncoder::new(zone), Vec::new(), Vec::new());
    while encoder.next_chunk(&mut chunk) {
        chunks.push(chunk.clone());
    }
    chunks
}

fn decode_on_threads(chunks: &[Vec<u8>]) -> Result<Zone, ImageError> {
    let mut chunks = chunks.iter();
    let read = |next: &Vec<u8>, chunk: &mut Vec<u8>| {
        chunk.clone_from(next);
        Ok(())
    };
    image::decode(2, || Ok(chunks.next()), read)
}
