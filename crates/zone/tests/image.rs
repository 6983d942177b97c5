//! Images of zones: what is decoded equals what was encoded, and no bytes make decoding or a decoded zone fail.

use wire::Name;
use zone::axfr::AxfrStream;
use zone::image::{self, ImageDecoder, ImageEncoder, ImageError};
use zone::text::{ParseOptions, Source};
use zone::{Zone, load};

const HEAD: &str = "\
@ 3600 SOA ns1 host 1 3600 900 604800 300
@ 3600 NS ns1
@ 3600 NS Ns2.Other.example.
ns1 3600 A 192.0.2.1
ns1 3600 AAAA 2001:db8::1
@ 300 MX 10 mail.sub
*.w 60 TXT \"one\" \"two\"
UPPER 60 CNAME MiXeD
MiXeD 60 HTTPS 1 . alpn=h2
d 60 DNAME e
sub 3600 NS ns.sub
sub 3600 NS ns2.sub
ns.sub 3600 A 192.0.2.2
a\\000\\001b 60 A 192.0.2.3
u 60 TYPE65280 \\# 3 010203
srv 60 SRV 1 2 3 mail.sub
";

const NSEC3: &str = "\
@ 0 NSEC3PARAM 1 0 12 aabbccdd
2t7b4g4vsa5smi47k61mv5bv1a22bojr 300 NSEC3 1 1 12 aabbccdd 2vptu5timamqttgl4luu9kg21e0aor3s A RRSIG
2t7b4g4vsa5smi47k61mv5bv1a22bojr 300 RRSIG NSEC3 13 2 300 20300101000000 20200101000000 1 example. c2lnbmF0dXJl
";

/// Owners enough for interned RRsets and several leaves.
fn big() -> String {
    (0..3000).fold(HEAD.to_owned(), |text, n| text + &format!("d{n} 3600 NS a.provider{}.net.\n", n % 7))
}

/// Signatures and NSEC3 records whose heads and parameters are interned.
fn signed() -> String {
    const HASHES: &str = "2t7b4g4vsa5smi47k61mv5bv1a2";
    let rrsig = |owner: &str, covered| {
        format!("{owner} 300 RRSIG {covered} 13 2 300 20300101000000 20200101000000 1 example. c2lnbmF0dXJl\n")
    };
    (0..300).fold(HEAD.to_owned() + NSEC3, |text, n| {
        let (host, hash) = (format!("h{n}"), format!("{HASHES}{n:05}"));
        let records = format!("{host} 300 A 10.0.0.1\n{hash} 300 NSEC3 1 1 12 aabbccdd {hash} A RRSIG\n");
        text + &records + &rrsig(&host, "A") + &rrsig(&hash, "NSEC3")
    })
}

/// The zone of [`signed`] after a change: some signatures have times of their own.
fn signed_again() -> Zone {
    let previous = parse(&signed());
    let later = |line: &str| line.replace("20200101000000", "20200102000000") + "\n";
    let is_changed = |line: &str| line.starts_with("h1") && line.contains("RRSIG");
    let text: String =
        signed().lines().map(|line| if is_changed(line) { later(line) } else { format!("{line}\n") }).collect();
    let zone = parse_after(&text, Some(&previous));
    assert_eq!(transfer(&zone), transfer(&parse(&text)));
    assert!(zone.heap_size() > previous.heap_size());
    // Without the index of its tables, which the change needed.
    decode(&encode(&zone)).expect("its image")
}

fn parse(text: &str) -> Zone {
    parse_after(text, None)
}

fn parse_after(text: &str, previous: Option<&Zone>) -> Zone {
    let apex: Name = "eXample.".parse().expect("a name");
    let source = Source { name: "test".into(), bytes: text.as_bytes() };
    let options = load::LoadOptions { previous, ..load::LoadOptions::new(ParseOptions::new(apex.as_ref())) };
    let outcome = load::load(source, &options);
    outcome.zone.unwrap_or_else(|| panic!("{:?}", outcome.findings))
}

fn encode(zone: &Zone) -> Vec<Vec<u8>> {
    let mut encoder = ImageEncoder::new(zone.clone());
    let (mut chunks, mut chunk) = (Vec::new(), Vec::new());
    while encoder.next_chunk(&mut chunk) {
        chunks.push(chunk.clone());
    }
    chunks
}

/// Decodes on one thread and on several.
fn decode(chunks: &[Vec<u8>]) -> Result<Zone, ImageError> {
    let mut decoder = ImageDecoder::new();
    let decoded = chunks.iter().try_for_each(|chunk| decoder.push(chunk)).and_then(|()| decoder.finish());
    let parallel = decode_on(3, chunks);
    assert_eq!(parallel.is_ok(), decoded.is_ok());
    if let (Ok(parallel), Ok(decoded)) = (&parallel, &decoded) {
        assert_eq!((parallel.heap_size(), parallel.counts()), (decoded.heap_size(), decoded.counts()));
    }
    decoded
}

fn decode_on(threads: usize, chunks: &[Vec<u8>]) -> Result<Zone, ImageError> {
    let mut chunks = chunks.iter();
    let read = |next: &Vec<u8>, chunk: &mut Vec<u8>| {
        chunk.clone_from(next);
        Ok(())
    };
    image::decode(threads, || Ok(chunks.next()), read)
}

/// All records, as a transfer sends them.
fn transfer(zone: &Zone) -> Vec<Vec<u8>> {
    let mut stream = AxfrStream::new(zone.clone(), [0, 1], b"\x07example\0\0\xfc\0\x01", &[]);
    let (mut out, mut messages) = (vec![0; 65535], Vec::new());
    while let Some(len) = stream.next_message(&mut out) {
        messages.push(out[..len].to_vec());
    }
    messages
}

#[test]
fn a_decoded_zone_is_the_encoded_one() {
    let many = (0..300).fold(HEAD.to_owned(), |text, n| text + &format!("many 60 A 10.0.{}.{}\n", n / 256, n % 256));
    let texts = [HEAD, &many, &(HEAD.to_owned() + NSEC3), &(big() + NSEC3), &signed()];
    for zone in texts.map(parse).into_iter().chain([signed_again()]) {
        let decoded = decode(&encode(&zone)).expect("its image");
        assert_eq!(transfer(&decoded), transfer(&zone));
        assert_eq!(decoded.denial(), zone.denial());
        assert_eq!((decoded.heap_size(), decoded.counts()), (zone.heap_size(), zone.counts()));
        assert_eq!(decoded.has_wildcards(), zone.has_wildcards());
        assert_eq!(encode(&decoded), encode(&zone));
        // It can be edited and rebuilt like any other.
        assert_eq!(transfer(&decoded.rebuild(1)), transfer(&zone.rebuild(1)));
    }
}

#[test]
fn the_usual_heads_of_a_small_zone_take_one_octet_and_are_not_in_its_image() {
    let [usual, other] = [3600, 3601]
        .map(|ttl| parse(&format!("@ {ttl} SOA ns host 1 3600 900 604800 300\n@ {ttl} NS ns.other.example.\n")));
    let image_len = |zone| encode(zone).iter().map(Vec::len).sum::<usize>();
    // Of two RRsets: in place of a number, its mark, a type, a TTL and a form.
    const HEADS: usize = 2 * 6;
    assert_eq!([other.heap_size() - usual.heap_size(), image_len(&other) - image_len(&usual)], [HEADS; 2]);
    assert!(image_len(&usual) < 150, "{}", image_len(&usual));
    assert_eq!(transfer(&decode(&encode(&usual)).expect("its image")), transfer(&usual));
}

#[test]
fn leaves_of_many_chunks_are_put_in_order() {
    let text =
        (0..60_000).fold(HEAD.to_owned(), |text, n| text + &format!("x{n} 3600 A 10.0.{}.{}\n", n >> 8 & 255, n & 255));
    let zone = parse(&text);
    let mut chunks = encode(&zone);
    assert!(chunks.len() > 3);
    assert_eq!(transfer(&decode_on(4, &chunks).expect("its image")), transfer(&zone));
    chunks.swap(2, 3);
    assert!(decode(&chunks).is_err());
    // With the right numbers, but the wrong order of owners.
    let numbers = [2, 3].map(|at: usize| chunks[at][1..5].to_vec());
    chunks[2][1..5].copy_from_slice(&numbers[1]);
    chunks[3][1..5].copy_from_slice(&numbers[0]);
    assert_eq!(decode_on(4, &chunks).err(), Some(ImageError::Unordered));
}

#[test]
fn chunks_that_are_missing_doubled_or_swapped_are_noticed() {
    let text = (0..40_000).fold(big() + NSEC3, |text, n| text + &format!("n{n} 60 TXT \"{n} is a number\"\n"));
    let chunks = encode(&parse(&text));
    assert!(chunks.len() > 5, "{} chunks", chunks.len());
    for at in 0..chunks.len() {
        let mut fewer = chunks.clone();
        fewer.remove(at);
        assert!(decode(&fewer).is_err(), "without chunk {at}");
        let mut more = chunks.clone();
        more.insert(at, chunks[at].clone());
        assert!(decode(&more).is_err(), "chunk {at} twice");
        let mut swapped = chunks.clone();
        swapped.swap(at, (at + 1) % chunks.len());
        assert!(decode(&swapped).is_err(), "chunk {at} late");
    }
    assert!(decode(&[]).is_err());
}

/// More chunks than the threads hold when all of them have failed.
#[test]
fn an_image_of_damaged_leaves_alone_is_refused_at_once() {
    let address = |n: u32| format!("x{n} 3600 A 10.0.{}.{}\nx{n} 3600 AAAA 2001:db8::{n:x}\n", n >> 8 & 255, n & 255);
    let mut chunks = encode(&parse(&(0..60_000).fold(HEAD.to_owned(), |text, n| text + &address(n))));
    assert!(chunks.len() > 8, "{} chunks", chunks.len());
    // The number of entries of the first leaf of each chunk.
    chunks.iter_mut().skip(1).for_each(|chunk| chunk[9..11].fill(0));
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(decode_on(2, &chunks).err()));
    let refused = receiver.recv_timeout(std::time::Duration::from_secs(60)).expect("decoding ends");
    assert_eq!(refused, Some(ImageError::Leaf));
}

/// Whichever thread reads a chunk.
#[test]
fn a_chunk_that_cannot_be_read_ends_decoding() {
    let chunks = encode(&parse(&(0..40_000).fold(big(), |text, n| text + &format!("n{n} 60 TXT \"number {n}\"\n"))));
    assert!(chunks.len() > 3, "{} chunks", chunks.len());
    for (threads, missing) in (1..=3).flat_map(|threads| (0..chunks.len()).map(move |missing| (threads, missing))) {
        let mut places = 0..chunks.len();
        let read = |place: usize, chunk: &mut Vec<u8>| {
            chunk.clone_from(&chunks[place]);
            // An error that no chunk here leads to.
            if place == missing { Err(ImageError::Apex) } else { Ok(()) }
        };
        let error = image::decode(threads, || Ok(places.next()), read).err();
        assert_eq!(error, Some(ImageError::Apex), "chunk {missing} on {threads} threads");
        // The same if its place cannot be found.
        let mut places =
            (0..chunks.len()).map(|place| if place == missing { Err(ImageError::Apex) } else { Ok(place) });
        let read = |place: usize, chunk: &mut Vec<u8>| {
            chunk.clone_from(&chunks[place]);
            Ok(())
        };
        let error = image::decode(threads, || places.next().transpose(), read).err();
        assert_eq!(error, Some(ImageError::Apex), "the place of chunk {missing} on {threads} threads");
    }
}

#[test]
fn another_format_version_is_named() {
    let mut chunks = encode(&parse(HEAD));
    chunks[0][5] = 9;
    assert!(matches!(decode(&chunks), Err(ImageError::Version(9))));
}

/// Without checksums: whatever is accepted must be usable.
#[test]
fn damaged_images_are_refused_or_usable() {
    let mut refused = 0;
    for zone in [parse(&(HEAD.to_owned() + NSEC3)), parse(&big()), signed_again()] {
        let chunks = encode(&zone);
        for chunk in 0..chunks.len() {
            let len = chunks[chunk].len();
            for (at, mask) in (0..len).step_by(len.div_ceil(1000)).flat_map(|at| [1, 0x40, 0xff].map(|mask| (at, mask)))
            {
                let mut damaged = chunks.clone();
                damaged[chunk][at] ^= mask;
                refused += u32::from(decode(&damaged).map(use_zone).is_err());
                damaged[chunk].truncate(at);
                assert!(decode(&damaged).is_err(), "chunk {chunk} of {at} octets");
            }
        }
    }
    assert!(refused > 500, "{refused} were refused");
}

/// Reads everything that a zone has.
fn use_zone(zone: Zone) {
    let expected: u64 = zone.counts().records;
    assert!(expected > 0 && zone.serial() < u32::MAX);
    transfer(&zone);
    if expected < 100 {
        zone.rebuild(1);
    }
    for (entry, node) in zone.nodes() {
        let mut key = Vec::new();
        entry.append_key(&mut key);
        zone.owner(&entry);
        assert!(node.rrsets().all(|set| zone.seek(&key).entry().is_some() && set.message_len() > 0 || set.count == 0));
    }
}
