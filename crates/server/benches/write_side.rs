//! The cost of the write side: a million idle zones, adding and removing one, and changes of records, without sockets and disk.
//!
//! `cargo bench -p zonda-server --bench write_side` prints CPU time of the writer's thread and resident memory. Arguments choose
//! sections (`idle`, `spread`, `one`); `zones=N` and `records=N` the sizes. With `serials=own`, zones differ in their serials, and so share
//! no records in memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::HashMap;
use std::fmt::Write;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use answer::{Served, Subscriber};
use server::config::Server;
use server::config::ZoneConfig;
use server::config::reader::ConfigReader;
use server::zone_id::ZoneId;
use server::zone_timers::ZoneTimers;
use server::zones::{ProposedChange, PublishOrder, ZoneChange, ZoneRegistry};
use wire::{Name, Rtype};
use zone::CheckMode;
use zone::Zone;
use zone::change::{ChangeRules, ChangeSet};
use zone::load::load_text;

/// Changes measured in each row.
const CHANGES: u32 = 20_000;
/// Zones added and removed one by one.
const EXTRA: u32 = 2_000;
/// Answering threads that are idle: each holds the version that it last saw.
const IDLE_THREADS: usize = 4;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let is_chosen = |section: &str| {
        let mut sections = arguments.iter().filter(|argument| !argument.contains('=')).peekable();
        sections.peek().is_none() || sections.any(|chosen| chosen == section)
    };
    let size = |key: &str| {
        let value = arguments.iter().find_map(|argument| argument.strip_prefix(key)?.strip_prefix('='));
        value.map_or(1_000_000, |value| value.parse().expect("a number"))
    };
    if is_chosen("idle") || is_chosen("spread") {
        let own_serials = arguments.iter().any(|argument| argument == "serials=own");
        many_zones(size("zones"), is_chosen("spread"), own_serials);
    }
    if is_chosen("one") {
        one_zone(size("records"));
    }
}

//----------- sections ---------------------------------------------------------

fn many_zones(count: u32, spread: bool, own_serials: bool) {
    let (mut bench, mut timers) = (Bench::new(), ZoneTimers::default());
    let (before, allocated) = (resident_octets(), ALLOCATED.load(Relaxed));
    let begin = cpu_ns();
    bench.zones.configure(configs(0..count));
    let configured = cpu_ns();
    report("configure, us per zone", us_each(configured - begin, count));
    let ids: Vec<ZoneId> = (0..count).map(|number| bench.find(number)).collect();
    for (number, id) in ids.iter().enumerate() {
        let serial = if own_serials { number as u32 + 1 } else { 1 };
        bench.zones.replace(*id, tiny_zone(number as u32, serial), &[]);
        timers.set(id.index, 1_000_000 + number as u32);
    }
    let begin = cpu_ns();
    bench.step();
    bench.zones.publish();
    report("publish all, us per zone", us_each(cpu_ns() - begin, count));
    bench.wake_all();
    netio::malloc::trim();
    let ids_octets = ids.capacity() * size_of::<ZoneId>();
    let held = resident_octets().saturating_sub(before + ids_octets);
    report("idle zone, resident octets", held as f64 / f64::from(count));
    let allocated = ALLOCATED.load(Relaxed) - allocated - ids_octets;
    report("idle zone, allocated octets", allocated as f64 / f64::from(count));
    add_and_remove(&mut bench, count);
    set_timers(&mut timers, count);
    if spread {
        for batch in [1, 100] {
            let numbers = (0..CHANGES).map(|change| change.wrapping_mul(2_654_435_761) % count);
            let zones: Vec<(ZoneId, Name)> = numbers.map(|number| (ids[number as usize], apex(number))).collect();
            change_all(&mut bench, &zones, batch, &format!("{count} zones"));
        }
    }
}

fn add_and_remove(bench: &mut Bench, count: u32) {
    let new: Vec<ZoneConfig> = configs(count..count + EXTRA);
    let begin = cpu_ns();
    let mut added = Vec::new();
    for config in new {
        added.extend(bench.zones.add(config));
        bench.step();
    }
    assert_eq!(added.len(), EXTRA as usize);
    let middle = cpu_ns();
    added.iter().for_each(|id| assert!(bench.zones.remove(*id)));
    report("add and publish one zone, us", us_each(middle - begin, EXTRA));
    report("remove and publish one zone, us", us_each(cpu_ns() - middle, EXTRA));
}

fn set_timers(timers: &mut ZoneTimers, count: u32) {
    let begin = cpu_ns();
    for zone in 0..count {
        timers.set(zone, 1_500_000 + zone.wrapping_mul(2_654_435_761) % count);
    }
    let middle = cpu_ns();
    let due = std::iter::from_fn(|| timers.take_due(1_500_000 + count / 2)).count() as u32;
    report("set a timer anew, us", us_each(middle - begin, count));
    report("take a due timer, us", us_each(cpu_ns() - middle, due));
}

fn one_zone(records: u32) {
    let mut bench = Bench::new();
    bench.zones.configure(configs(0..1));
    let hosts = (0..records).fold(HEAD.to_owned(), |text, n| {
        text + &format!("host{n} 3600 A 10.{}.{}.{}\n", n >> 16 & 255, n >> 8 & 255, n & 255)
    });
    let id = bench.find(0);
    bench.zones.replace(id, zone(&apex(0), &hosts), &[]);
    drop(hosts);
    bench.step();
    bench.wake_all();
    netio::malloc::trim();
    for batch in [1, 100] {
        let zones: Vec<(ZoneId, Name)> = (0..CHANGES).map(|_| (id, apex(0))).collect();
        change_all(&mut bench, &zones, batch, &format!("a zone of {records} records"));
    }
}

/// Changes zones, and publishes each `batch` of changes.
fn change_all(bench: &mut Bench, zones: &[(ZoneId, Name)], batch: usize, what: &str) {
    let mut serials: HashMap<ZoneId, u32> = HashMap::new();
    let before = resident_octets();
    let (mut changing, mut publishing, mut number) = (0, 0, 0);
    for changes in zones.chunks(batch) {
        let mut sets: Vec<(ZoneId, ChangeSet)> = Vec::new();
        for (id, apex) in changes {
            let latest = || bench.zones.latest(*id).expect("it is served").serial();
            let serial = serials.entry(*id).or_insert_with(latest);
            sets.push((*id, change_set(apex, *serial, number)));
            *serial += 1;
            number += 1;
        }
        let begin = cpu_ns();
        sets.into_iter().for_each(|(id, change)| bench.change(id, change));
        let middle = cpu_ns();
        bench.step();
        publishing += cpu_ns() - middle;
        changing += middle - begin;
        bench.answering.refresh();
    }
    let count = zones.len() as u32;
    let held = resident_octets().saturating_sub(before);
    println!("{what}, {batch} changes per publication:");
    report("  apply, us per change", us_each(changing, count));
    report("  publish, us per change", us_each(publishing, count));
    report("  changes per CPU second", 1e9 * f64::from(count) / (changing + publishing) as f64);
    report("  memory gained, KB", held as f64 / 1024.0);
}

//----------- zones ------------------------------------------------------------

const HEAD: &str = "@ 3600 SOA ns1 host 1 3600 900 604800 300\n@ 3600 NS ns1\nns1 3600 A 192.0.2.1\n";

/// The registry as the writer has it, and the answering threads.
struct Bench {
    zones: ZoneRegistry,
    answering: Subscriber<Served>,
    idle: Vec<Subscriber<Served>>,
}

impl Bench {
    fn new() -> Bench {
        // No zone has a file, and no change is large enough for the pool.
        let zones = ZoneRegistry::new(&Server::default(), |_| (), |_| ()).expect("random numbers");
        let answering = zones.publisher.subscribe();
        let idle = (0..IDLE_THREADS).map(|_| zones.publisher.subscribe()).collect();
        Bench { zones, answering, idle }
    }

    fn find(&self, number: u32) -> ZoneId {
        self.zones.find(apex(number).as_ref()).expect("it is configured")
    }

    /// All threads see what is published, as they do twice a second when idle.
    fn wake_all(&mut self) {
        self.answering.refresh();
        self.idle.iter_mut().for_each(|idle| _ = idle.refresh());
        self.zones.publisher.reclaim();
    }

    fn step(&mut self) {
        self.zones.step(std::time::Instant::now());
    }

    fn change(&mut self, zone: ZoneId, change: ChangeSet) {
        let rules = ChangeRules { check_mode: CheckMode::Lenient, nsec3_max_iterations: 100 };
        let done = Box::new(|result: Result<_, _>| assert!(result.is_ok(), "every change is valid"));
        let change = ProposedChange::Records(Box::new(change));
        self.zones.change(ZoneChange { zone, change, rules, order: PublishOrder::AfterSync, done });
    }
}

/// Adds an address to one host, and gives the zone the next serial.
fn change_set(apex: &Name, serial: u32, number: u32) -> ChangeSet {
    let host = format!("host{}", number.wrapping_mul(2_654_435_761) % 1_000_000);
    let owner = Name::from_text(host.as_bytes(), Some(apex.as_ref())).expect("a name");
    let mut change = ChangeSet::new(apex.as_ref());
    change.add(owner.as_ref(), Rtype::A, 3600, &number.to_be_bytes()).expect("in the zone");
    change.remove(apex.as_ref(), Rtype::SOA, &soa(apex, serial)).expect("in the zone");
    change.add(apex.as_ref(), Rtype::SOA, 3600, &soa(apex, serial + 1)).expect("in the zone");
    change
}

fn apex(number: u32) -> Name {
    format!("customer{number}.example.").parse().expect("a name")
}

fn soa(apex: &Name, serial: u32) -> Vec<u8> {
    let numbers = [serial, 3600, 900, 604_800, 300].map(u32::to_be_bytes).concat();
    [&b"\x03ns1"[..], apex.wire(), b"\x04host", apex.wire(), &numbers].concat()
}

/// Zones without files, as those of a secondary.
fn configs(numbers: std::ops::Range<u32>) -> Vec<ZoneConfig> {
    let text = numbers.fold(String::new(), |mut text, number| {
        let apex = apex(number);
        write!(text, "[[zone]]\nname = \"{apex}\"\nprimaries = [\"192.0.2.1\"]\n").expect("a string grows");
        text
    });
    let file = tempfile::NamedTempFile::new().expect("a folder for temporary files");
    fs::write(file.path(), text).expect("space for the configuration");
    let mut reader = ConfigReader::default();
    reader.read_file(file.path());
    reader.finish().unwrap_or_else(|mistakes| panic!("{mistakes:?}")).zones
}

fn tiny_zone(number: u32, serial: u32) -> Zone {
    zone(&apex(number), &HEAD.replace(" host 1 ", &format!(" host {serial} ")))
}

fn zone(apex: &Name, text: &str) -> Zone {
    load_text(apex.as_ref(), text.as_bytes()).zone.expect("a valid zone")
}

//----------- measuring --------------------------------------------------------

/// The system's allocator, which counts what is allocated, as glibc rounds it.
struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

fn chunk_len(layout: Layout) -> usize {
    (layout.size() + 8).next_multiple_of(16).max(32)
}

// SAFETY: all is handed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(chunk_len(layout), Relaxed);
        // SAFETY: the caller keeps the promises that this asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(chunk_len(layout), Relaxed);
        // SAFETY: the caller keeps the promises that this asks for.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_len: usize) -> *mut u8 {
        let new = Layout::from_size_align(new_len, layout.align()).expect("the caller keeps to the rules of layouts");
        ALLOCATED.fetch_add(chunk_len(new), Relaxed);
        ALLOCATED.fetch_sub(chunk_len(layout), Relaxed);
        // SAFETY: the caller keeps the promises that this asks for.
        unsafe { System.realloc(block, layout, new_len) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn report(name: &str, value: f64) {
    println!("{name:40} {value:.2}");
}

fn us_each(ns: u64, count: u32) -> f64 {
    ns as f64 / 1e3 / f64::from(count.max(1))
}

/// CPU time of this thread.
fn cpu_ns() -> u64 {
    let times = fs::read_to_string("/proc/thread-self/schedstat").expect("the kernel counts CPU time");
    times.split(' ').next().and_then(|ns| ns.parse().ok()).expect("nanoseconds on the CPU")
}

fn resident_octets() -> usize {
    let pages = fs::read_to_string("/proc/self/statm").expect("the kernel counts memory");
    4096 * pages.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("resident pages")
}
