//! The cost of persistence: changes per second with group commit on a real disk, memory of the store per zone, and images.
//!
//! `cargo bench -p zonda-server --bench storage` prints wall time. Arguments choose
//! sections (`one`, `spread`, `image`); `zones=N`, `changes=N` and `records=N` the sizes, `waiting=N` how many changes wait for the
//! disk at once, and `dir=PATH` a folder on the disk to be measured.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use server::state_dir::StateDir;
use server::storage::disk::StateFolder;
use server::storage::{
    Append, AppendRecord, CommitLimits, DueImage, ImageBase, StorageEvent, StorageHandle, StorageThread, Store,
    StoreLimits, StoredZone,
};
use wire::Name;
use zone::Zone;
use zone::encoded_change::EncodedChange;
use zone::image::{ImageDecoder, ImageEncoder};
use zone::load::load_text;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let value = |key: &str| arguments.iter().find_map(|argument| argument.strip_prefix(key)?.strip_prefix('='));
    let size = |key: &str, default: u32| value(key).map_or(default, |value| value.parse().expect("a number"));
    let is_chosen = |section: &str| {
        let mut sections = arguments.iter().filter(|argument| !argument.contains('=')).peekable();
        sections.peek().is_none() || sections.any(|chosen| chosen == section)
    };
    let parent = value("dir").map_or_else(std::env::temp_dir, Into::into);
    let (changes, waiting) = (size("changes", 20_000), size("waiting", 1000));
    for (section, zones) in [("one", 1), ("spread", size("zones", 10_000))] {
        if is_chosen(section) {
            let folder = tempfile::tempdir_in(&parent).expect("a folder that can be written");
            change_zones(folder.path(), zones, changes, waiting);
        }
    }
    if is_chosen("image") {
        image(size("records", 100_000));
    }
}

//----------- sections ---------------------------------------------------------

fn change_zones(folder: &Path, count: u32, changes: u32, waiting: u32) {
    println!("{changes} changes of {count} zones, of which {waiting} wait for the disk at once:");
    let before = resident_octets();
    let mut bench = Bench::open(folder);
    let begin = Instant::now();
    let zones: Vec<StoredZone> = (0..count).map(|number| bench.add(number, waiting)).collect();
    bench.wait_for(bench.last);
    report("write the first images, us per zone", begin.elapsed().as_secs_f64() * 1e6 / f64::from(count));
    let (sender, memory) = channel();
    bench.handle.read(move |store| _ = sender.send(store.index_memory())).expect("there is room");
    let memory = memory.recv().expect("the thread runs");
    report("index, octets per zone", memory as f64 / f64::from(count));
    report(
        "resident, octets per zone with its name",
        resident_octets().saturating_sub(before) as f64 / f64::from(count),
    );
    let mut serials = vec![1; zones.len()];
    let encoded: Vec<(u32, EncodedChange)> = (0..changes)
        .map(|number| {
            let zone = number.wrapping_mul(2_654_435_761) % count;
            let serial = &mut serials[zone as usize];
            *serial += 1;
            (zone, change(&apex(zone), *serial - 1, number))
        })
        .collect();
    let begin = Instant::now();
    for (zone, change) in encoded {
        bench.append(zones[zone as usize], apex(zone), AppendRecord::Change(change), waiting);
    }
    bench.wait_for(bench.last);
    report("changes per second", f64::from(changes) / begin.elapsed().as_secs_f64());
    report("changes per sync", f64::from(changes) / f64::from(bench.syncs.max(1)));
    report("images written meanwhile", f64::from(bench.images));
    bench.stop();
    let begin = Instant::now();
    let (_, recovery) = open(folder);
    report("restart, us per zone", begin.elapsed().as_secs_f64() * 1e6 / f64::from(count));
    assert_eq!(recovery.zones().filter_map(|zone| zone.serial).map(u64::from).sum::<u64>(), u64::from(count + changes));
}

fn image(records: u32) {
    let mut text = HEAD.to_owned();
    for n in 0..records {
        writeln!(text, "host{n} 3600 A 10.{}.{}.{}", n >> 16 & 255, n >> 8 & 255, n & 255).expect("a string grows");
    }
    let zone = zone(&apex(0), &text);
    println!("image of a zone of {records} records:");
    // Not CPU time: the kernel counts it in steps that are longer than this takes.
    let begin = Instant::now();
    let chunks = encode(&zone);
    let middle = Instant::now();
    let mut decoder = ImageDecoder::new();
    chunks.iter().for_each(|chunk| decoder.push(chunk).expect("its image"));
    let decoded = decoder.finish().expect("its image");
    let end = Instant::now();
    assert_eq!(decoded.counts(), zone.counts());
    let octets: usize = chunks.iter().map(Vec::len).sum();
    report("encode, ns per record", (middle - begin).as_secs_f64() * 1e9 / f64::from(records));
    report("decode and check, ns per record", (end - middle).as_secs_f64() * 1e9 / f64::from(records));
    report("octets per record", octets as f64 / f64::from(records));
}

//----------- the storage thread -----------------------------------------------

struct Bench {
    thread: StorageThread,
    handle: StorageHandle,
    events: Receiver<StorageEvent>,
    last: u64,
    durable: u64,
    syncs: u32,
    images: u32,
    /// The newest version of any zone: its size is what counts.
    image: Vec<Vec<u8>>,
    names: Vec<Name>,
    serials: Vec<u32>,
}

impl Bench {
    fn open(folder: &Path) -> Bench {
        let (sender, events) = channel();
        let (store, _) = open(folder);
        let (thread, handle) =
            StorageThread::start(store, CommitLimits::default(), move |event| _ = sender.send(event))
                .expect("a thread");
        let image = encode(&zone(&apex(0), HEAD));
        let (names, serials) = (Vec::new(), Vec::new());
        Bench { thread, handle, events, last: 0, durable: 0, syncs: 0, images: 0, image, names, serials }
    }

    fn add(&mut self, number: u32, waiting: u32) -> StoredZone {
        let (zone, mut writer) = (self.handle.add_zone(), self.handle.image_writer());
        self.image.iter().for_each(|chunk| writer.push(chunk).expect("space for the image"));
        let image = writer.finish().expect("space for the image");
        let record = AppendRecord::Image { serial: 1, base: ImageBase::Replacement, image, timers: None };
        assert_eq!(zone.0 as usize, self.names.len(), "a new store numbers its zones in order");
        self.names.push(apex(number));
        self.serials.push(1);
        self.append(zone, apex(number), record, waiting);
        zone
    }

    fn append(&mut self, zone: StoredZone, name: Name, record: AppendRecord, waiting: u32) {
        self.wait_for(self.last.saturating_sub(waiting.into()));
        if let AppendRecord::Change(change) = &record {
            self.serials[zone.0 as usize] = change.to_serial();
        }
        self.last = self.handle.append(Append { zone, name, record }).expect("few changes wait");
    }

    /// Waits until this request is durable, and writes the images that are due meanwhile.
    fn wait_for(&mut self, number: u64) {
        while self.durable < number {
            match self.events.recv().expect("the thread runs") {
                StorageEvent::Durable(number) => (self.durable, self.syncs) = (number, self.syncs + 1),
                StorageEvent::Refused { error, .. } => panic!("{error}"),
                StorageEvent::ImageDue(image) => self.write(image),
            }
        }
    }

    fn write(&mut self, mut due: DueImage) {
        self.images += 1;
        self.image.iter().for_each(|chunk| due.push(chunk).expect("space for the image"));
        let zone = due.zone().0 as usize;
        let finished = due.finish(self.names[zone].clone(), self.serials[zone], u64::MAX);
        finished.expect("space for the image");
    }

    fn stop(self) {
        self.thread.stop();
    }
}

fn open(folder: &Path) -> (Store<StateFolder>, server::storage::Recovery) {
    let state_dir = StateDir::open(&folder.join("state")).expect("a folder of this user");
    let disk = StateFolder::open(&state_dir, "store").expect("a folder of this user");
    Store::open(disk, StoreLimits::default()).expect("the disk can be read")
}

//----------- zones ------------------------------------------------------------

const HEAD: &str = "@ 3600 SOA ns1 host 1 3600 900 604800 300\n@ 3600 NS ns1\nns1 3600 A 192.0.2.1\n";

fn apex(number: u32) -> Name {
    format!("customer{number}.example.").parse().expect("a name")
}

fn zone(apex: &Name, text: &str) -> Zone {
    load_text(apex.as_ref(), text.as_bytes()).zone.expect("a valid zone")
}

fn encode(zone: &Zone) -> Vec<Vec<u8>> {
    let mut encoder = ImageEncoder::new(zone.clone());
    let (mut chunks, mut chunk) = (Vec::new(), Vec::new());
    while encoder.next_chunk(&mut chunk) {
        chunks.push(chunk.clone());
    }
    chunks
}

/// Adds one address.
fn change(apex: &Name, serial: u32, number: u32) -> EncodedChange {
    let mut bytes = Vec::new();
    let mut push = |owner: &[u8], rtype: u8, rdata: &[u8]| {
        bytes.extend_from_slice(owner);
        bytes.extend_from_slice(&[0, rtype, 0, 1, 0, 0, 14, 16]);
        bytes.extend_from_slice(&(rdata.len() as u16).to_be_bytes());
        bytes.extend_from_slice(rdata);
    };
    push(apex.wire(), 6, &soa(apex, serial));
    push(apex.wire(), 6, &soa(apex, serial + 1));
    let host = Name::from_text(format!("host{number}").as_bytes(), Some(apex.as_ref())).expect("a name");
    push(host.wire(), 1, &number.to_be_bytes());
    EncodedChange::from_bytes(bytes.into()).expect("a change")
}

fn soa(apex: &Name, serial: u32) -> Vec<u8> {
    let numbers = [serial, 3600, 900, 604_800, 300].map(u32::to_be_bytes).concat();
    [&b"\x03ns1"[..], apex.wire(), b"\x04host", apex.wire(), &numbers].concat()
}

//----------- measuring --------------------------------------------------------

fn report(name: &str, value: f64) {
    println!("  {name:40} {value:.2}");
}

fn resident_octets() -> usize {
    let pages = fs::read_to_string("/proc/self/statm").expect("the kernel counts memory");
    4096 * pages.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("resident pages")
}
