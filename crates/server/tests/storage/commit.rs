//! The storage thread: failing disks, a full queue, order, images, and its end.

use std::io;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

use server::storage::disk::Disk;
use server::storage::{
    Append, AppendError, AppendRecord, ChangeRefused, CommitLimits, Committer, DueImage, ImageBase, NextStep,
    StorageEvent, StorageHandle, StorageThread, Store, StoreLimits, StoredZone,
};
use wire::Name;
use zone::encoded_change::EncodedChange;

use crate::simulated_disk::{Random, SimulatedDisk};

pub const LIMITS: CommitLimits = CommitLimits {
    max_queued: 100,
    max_queued_octets: 20_000,
    max_batch: 8,
    max_batch_octets: 4000,
    max_images: 2,
    compaction_step: 1000,
    min_retry: Duration::from_millis(100),
    max_retry: Duration::from_secs(5),
    image_retry: Duration::from_secs(60),
};

pub fn name(number: u32) -> Name {
    format!("zone{number}.example.").parse().expect("a name")
}

/// A change of SOA records only.
pub fn change(name: &Name, from: u32, to: u32) -> EncodedChange {
    let mut bytes = Vec::new();
    for serial in [from, to] {
        bytes.extend_from_slice(name.wire());
        bytes.extend_from_slice(&[0, 6, 0, 1, 0, 0, 0, 60, 0, 22, 0, 0]);
        [serial, 1, 2, 3, 4].iter().for_each(|number| bytes.extend_from_slice(&number.to_be_bytes()));
    }
    EncodedChange::from_bytes(bytes.into()).expect("two SOA records")
}

pub fn append_change(
    handle: &StorageHandle<SimulatedDisk>,
    zone: StoredZone,
    name: &Name,
    serials: (u32, u32),
) -> Result<u64, AppendError> {
    let record = AppendRecord::Change(change(name, serials.0, serials.1));
    handle.append(Append { zone, name: name.clone(), record })
}

/// Appends a new version; `None` if the disk fails or the queue is full.
pub fn replace(
    handle: &StorageHandle<SimulatedDisk>,
    zone: StoredZone,
    name: &Name,
    serial: u32,
    data: &[u8],
) -> Option<u64> {
    let mut writer = handle.image_writer();
    writer.push(data).ok()?;
    let image = writer.finish().ok()?;
    let record = AppendRecord::Image { serial, base: ImageBase::Replacement, image, timers: None };
    handle.append(Append { zone, name: name.clone(), record }).ok()
}

fn open(disk: &SimulatedDisk) -> Store<SimulatedDisk> {
    Store::open(disk.clone(), StoreLimits::default()).expect("the disk can be read").0
}

/// A committer with one zone at serial 1, that is stepped by the test.
struct Bench {
    disk: SimulatedDisk,
    committer: Committer<SimulatedDisk>,
    handle: StorageHandle<SimulatedDisk>,
    events: Receiver<StorageEvent<SimulatedDisk>>,
    now: Instant,
    zone: StoredZone,
}

impl Bench {
    fn new() -> Bench {
        let disk = SimulatedDisk::default();
        let (sender, events) = channel();
        let (committer, handle) = Committer::new(open(&disk), LIMITS, move |event| _ = sender.send(event));
        let zone = handle.add_zone();
        let mut bench = Bench { disk, committer, handle, events, now: Instant::now(), zone };
        replace(&bench.handle, zone, &name(0), 1, b"image").expect("there is room");
        assert_eq!(bench.committer.step(bench.now), NextStep::WhenQueued);
        assert_eq!(bench.durable(), [1]);
        bench
    }

    fn change(&self, from: u32, to: u32) -> Result<u64, AppendError> {
        append_change(&self.handle, self.zone, &name(0), (from, to))
    }

    /// What was reported as durable; nothing else was reported.
    fn durable(&self) -> Vec<u64> {
        let number = |event| match event {
            StorageEvent::Durable(number) => number,
            StorageEvent::Refused { error, .. } => panic!("{error}"),
            StorageEvent::ImageDue(image) => panic!("an image of {:?}", image.zone()),
        };
        self.events.try_iter().map(number).collect()
    }

    fn due_images(&self) -> Vec<DueImage<SimulatedDisk>> {
        let image = |event| match event {
            StorageEvent::ImageDue(image) => Some(image),
            _ => None,
        };
        self.events.try_iter().filter_map(image).collect()
    }

    /// Steps for a minute of failures; returns the waits.
    fn fail(&mut self) -> Vec<Duration> {
        let end = self.now + Duration::from_secs(60);
        let mut waits = Vec::new();
        while self.now < end {
            let NextStep::RetryAt(time) = self.committer.step(self.now) else { panic!("the disk fails") };
            assert_eq!(self.committer.step(self.now), NextStep::RetryAt(time), "nothing is done before");
            waits.push(time - self.now);
            self.now = time;
        }
        waits
    }

    /// The serial that the disk has after a power failure.
    fn serial_after_power_failure(&self) -> Option<u32> {
        let disk = self.disk.fork();
        disk.lose_power(&mut Random::new(1));
        let (_, recovery) = Store::open(disk, StoreLimits::default()).expect("the disk can be read");
        recovery.zones().next().and_then(|zone| zone.serial)
    }
}

/// A log in memory.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The lines that are logged meanwhile.
fn logged(run: impl FnOnce()) -> Vec<String> {
    // Without one for all threads, a line that another test's thread writes first may be taken for one that nobody wants.
    static EVERYWHERE: Once = Once::new();
    EVERYWHERE.call_once(|| {
        let everywhere = tracing_subscriber::fmt().with_writer(io::sink).finish();
        tracing::subscriber::set_global_default(everywhere).expect("the only one");
    });
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    tracing::subscriber::with_default(subscriber, run);
    let bytes = lines.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    String::from_utf8(bytes).expect("text").lines().map(str::to_owned).collect()
}

/// Makes the disk fail for a minute, and work again.
fn outage(fails: impl Fn(&SimulatedDisk, bool), expected: &str) {
    let lines = logged(|| {
        let mut bench = Bench::new();
        fails(&bench.disk, true);
        bench.change(1, 2).expect("there is room");
        let waits = bench.fail();
        assert_eq!(waits[..3], [100, 200, 400].map(Duration::from_millis));
        assert_eq!(waits.last(), Some(&LIMITS.max_retry));
        bench.change(2, 3).expect("there is room");
        bench.fail();
        assert_eq!(bench.durable(), [0; 0], "nothing is acknowledged");
        let files = bench.disk.list().expect("names").len();
        assert!(files <= 2, "{files} files after many attempts");
        fails(&bench.disk, false);
        assert_eq!(bench.committer.step(bench.now), NextStep::Now, "there is another batch");
        assert_eq!(bench.committer.step(bench.now), NextStep::WhenQueued);
        assert_eq!(bench.durable(), [2, 3]);
        assert_eq!(bench.serial_after_power_failure(), Some(3));
    });
    assert_eq!(lines.len(), 2, "{lines:#?}");
    assert!(lines[0].contains("ERROR") && lines[0].contains("cannot write the journal"), "{lines:#?}");
    assert!(lines[0].contains(expected) && lines[0].contains("help"), "{lines:#?}");
    assert!(lines[1].contains("INFO") && lines[1].contains("written again"), "{lines:#?}");
}

#[test]
fn a_full_disk_is_retried_and_reported_once() {
    outage(SimulatedDisk::set_full, "free space on the disk");
}

#[test]
fn failing_syncs_are_retried_and_reported_once() {
    outage(SimulatedDisk::set_failing, "error=journal-0000000");
}

#[test]
fn nothing_is_acknowledged_while_the_folder_is_not_in_its_place() {
    outage(SimulatedDisk::set_moved, "put the folder back");
}

/// The writer refuses changes while older ones wait for the disk: it must know that they are durable before anyone reads in the log that
/// the disk works.
#[test]
fn the_end_of_an_outage_is_logged_after_the_event() {
    let lines = logged(|| {
        let disk = SimulatedDisk::default();
        let on_event = |event| {
            if let StorageEvent::Durable(number) = event {
                tracing::info!(number, "durable");
            }
        };
        let (mut committer, handle) = Committer::new(open(&disk), LIMITS, on_event);
        disk.set_full(true);
        replace(&handle, handle.add_zone(), &name(0), 1, b"image").expect("there is room in the queue");
        let NextStep::RetryAt(time) = committer.step(Instant::now()) else { panic!("the disk fails") };
        disk.set_full(false);
        committer.step(time);
    });
    let is_end = |line: &String| line.contains("durable number=1") || line.contains("written again");
    let end: Vec<_> = lines.iter().filter(|line| is_end(line)).collect();
    assert!(end.len() == 2 && end[1].contains("written again"), "{lines:#?}");
}

#[test]
fn after_one_failed_sync_the_data_is_written_again() {
    let mut bench = Bench::new();
    bench.disk.fail_next_sync();
    let number = bench.change(1, 2).expect("there is room");
    assert_eq!(bench.committer.step(bench.now), NextStep::WhenQueued);
    assert_eq!(bench.durable(), [number]);
    assert_eq!(bench.serial_after_power_failure(), Some(2));
}

#[test]
fn a_full_queue_refuses_at_once_and_closed_too() {
    let mut bench = Bench::new();
    bench.disk.set_full(true);
    bench.change(1, 2).expect("there is room");
    bench.fail();
    let taken = (2..).take_while(|serial| bench.change(*serial, serial + 1).is_ok()).count();
    assert!((20..=LIMITS.max_queued).contains(&taken), "{taken}");
    assert_eq!(bench.change(500, 501), Err(AppendError::QueueFull));
    bench.disk.set_full(false);
    while bench.committer.step(bench.now) == NextStep::Now {}
    let last = u32::try_from(taken).expect("few") + 2;
    assert_eq!(bench.durable().last(), Some(&u64::from(last)));
    assert_eq!(bench.serial_after_power_failure(), Some(last));
    bench.change(last, last + 1).expect("there is room again");
}

#[test]
fn reads_are_served_while_the_disk_is_full() {
    let mut bench = Bench::new();
    bench.change(1, 2).expect("there is room");
    bench.committer.step(bench.now);
    bench.disk.set_full(true);
    bench.change(2, 3).expect("there is room");
    bench.fail();
    let (sender, found) = channel();
    let zone = bench.zone;
    let read = move |store: &mut Store<SimulatedDisk>| {
        _ = sender.send(store.history(zone, 1).map(|history| history.remaining()))
    };
    bench.handle.read(read).expect("there is room");
    assert!(matches!(bench.committer.step(bench.now), NextStep::RetryAt(_)));
    assert_eq!(found.try_recv(), Ok(Some(1)), "what is durable");
}

#[test]
fn a_refused_change_is_reported_before_the_number_is_durable() {
    let mut bench = Bench::new();
    let numbers = [(1, 2), (3, 4), (2, 3)].map(|(from, to)| bench.change(from, to).expect("there is room"));
    assert_eq!(numbers, [2, 3, 4]);
    bench.committer.step(bench.now);
    let events: Vec<_> = bench.events.try_iter().collect();
    let gap = ChangeRefused::Gap { from: 3, to: 4, last: 2 };
    assert!(matches!(&events[..], [StorageEvent::Refused { error, .. }, StorageEvent::Durable(4)] if *error == gap));
    assert_eq!(bench.serial_after_power_failure(), Some(3));
}

/// Appends changes until an image is due.
fn grow(bench: &mut Bench, mut serial: u32) -> (DueImage<SimulatedDisk>, u32) {
    loop {
        bench.change(serial, serial + 1).expect("there is room");
        serial += 1;
        bench.committer.step(bench.now);
        if let Some(image) = bench.due_images().pop() {
            return (image, serial);
        }
        assert!(serial < 1000, "no image is due");
    }
}

#[test]
fn a_due_image_is_written_and_one_that_failed_is_due_again() {
    let mut bench = Bench::new();
    let (image, serial) = grow(&mut bench, 1);
    assert_eq!(image.zone(), bench.zone);
    drop(image);
    let NextStep::At(time) = bench.committer.step(bench.now) else { panic!("it is tried again") };
    assert_eq!(time, bench.now + LIMITS.image_retry);
    bench.now = time;
    bench.committer.step(bench.now);
    let mut image = bench.due_images().pop().expect("it is due again");
    image.push(b"another image").expect("the disk is good");
    image.finish(name(0), serial, u64::MAX).expect("the disk is good");
    assert_eq!(bench.committer.step(bench.now), NextStep::WhenQueued);
    let store = open(&bench.disk);
    assert_eq!(store.changes_after_image(bench.zone).remaining(), 0);
    let mut chunk = Vec::new();
    let mut image = store.image(bench.zone).expect("there is one").expect("it can be read");
    assert!(image.next_chunk(&mut chunk).expect("it is good"));
    assert_eq!(chunk, b"another image");
}

#[test]
fn an_image_of_a_zone_that_was_removed_does_not_become_another_zones() {
    let mut bench = Bench::new();
    let (mut image, serial) = grow(&mut bench, 1);
    image.push(&[1; 2 << 20]).expect("the disk is good");
    let (first, other) = (name(0), name(1));
    bench.handle.append(Append { zone: bench.zone, name: first.clone(), record: AppendRecord::Removed }).expect("room");
    bench.committer.step(bench.now);
    assert_eq!(bench.handle.add_zone(), bench.zone, "the number is used again");
    replace(&bench.handle, bench.zone, &other, serial, b"other").expect("there is room");
    image.finish(first, serial, u64::MAX).expect("the disk is good");
    bench.committer.step(bench.now);
    assert_eq!(bench.disk.list().expect("names").len(), 1, "its file is removed");
    let (_, recovery) = Store::open(bench.disk.clone(), StoreLimits::default()).expect("the disk can be read");
    assert_eq!(recovery.zones().map(|zone| zone.name.to_owned()).collect::<Vec<_>>(), [other]);
}

/// Nothing was cut then: an acknowledged change that is gone was damaged.
#[test]
fn damage_of_the_last_batch_is_reported_after_a_clean_stop() {
    let disk = SimulatedDisk::default();
    let (thread, handle) = StorageThread::start(open(&disk), LIMITS, |_| ()).expect("a thread");
    let (zone, name) = (handle.add_zone(), name(0));
    replace(&handle, zone, &name, 1, b"image").expect("there is room");
    append_change(&handle, zone, &name, (1, 2)).expect("there is room");
    thread.stop();
    const JOURNAL: &str = "journal-00000001";
    const HEADER_LEN: usize = 80;
    let mut harmed = 0;
    for offset in HEADER_LEN..disk.file_len(JOURNAL) {
        let damaged = disk.fork();
        assert!(damaged.flip(JOURNAL, offset, 1 << (offset % 8)));
        let (_, recovery) = Store::open(damaged, StoreLimits::default()).expect("the disk can be read");
        let serial = recovery.zones().next().and_then(|zone| zone.serial);
        assert!(serial == Some(2) || !recovery.damages.is_empty(), "offset {offset}: {serial:?}");
        harmed += u32::from(serial != Some(2));
    }
    assert!(harmed > 100, "{harmed}");
}

#[test]
fn the_end_of_the_thread_flushes() {
    let disk = SimulatedDisk::default();
    let (sender, events) = channel();
    let limits = CommitLimits { max_queued: 10_000, max_queued_octets: 8 << 20, ..LIMITS };
    let (thread, handle) =
        StorageThread::start(open(&disk), limits, move |event| _ = sender.send(event)).expect("a thread");
    let writers = (0..4).map(|number| {
        let handle = handle.clone();
        std::thread::spawn(move || {
            let (zone, name) = (handle.add_zone(), name(number));
            replace(&handle, zone, &name, 0, b"image").expect("there is room");
            (0..500).for_each(|serial| {
                append_change(&handle, zone, &name, (serial, serial + 1)).expect("there is room");
            });
        })
    });
    writers.collect::<Vec<_>>().into_iter().for_each(|writer| writer.join().expect("it does not panic"));
    thread.stop();
    assert_eq!(handle.read(|_| ()), Err(AppendError::Closed));
    let numbers =
        events.try_iter().filter_map(|event| if let StorageEvent::Durable(n) = event { Some(n) } else { None });
    let numbers: Vec<u64> = numbers.collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    assert_eq!(numbers.last(), Some(&2004));
    disk.lose_power(&mut Random::new(7));
    let (_, recovery) = Store::open(disk, StoreLimits::default()).expect("the disk can be read");
    assert_eq!(recovery.zones().map(|zone| zone.serial).collect::<Vec<_>>(), [Some(500); 4]);
}
