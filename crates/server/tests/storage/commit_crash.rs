//! Crashes at random points while the committer appends batches, writes due images late, and zones are replaced and removed.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use server::storage::{
    Append, AppendRecord, Committer, DueImage, NextStep, StorageEvent, StorageHandle, Store, StoreLimits, StoredZone,
};

use crate::commit::{LIMITS, append_change, name, replace};
use crate::simulated_disk::{Random, SimulatedDisk};

const ZONES: u32 = 4;

/// A version: which replacement it comes from, and its serial. The image has both.
type Version = (u32, u32);

/// What a zone was after each request; `None` after it was removed.
#[derive(Clone)]
struct Model {
    zone: Option<StoredZone>,
    versions: Vec<(u64, Option<Version>)>,
}

struct Run {
    disk: SimulatedDisk,
    limits: StoreLimits,
    committer: Committer<SimulatedDisk>,
    handle: StorageHandle<SimulatedDisk>,
    events: Receiver<StorageEvent<SimulatedDisk>>,
    models: Vec<Model>,
    images: Vec<DueImage<SimulatedDisk>>,
    random: Random,
    now: Instant,
    durable: u64,
    counter: u32,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut random = Random::new(seed);
        let limits = StoreLimits {
            segment_len: 600 + random.below(4000) as u32,
            min_changes_len: 500,
            image_share: 2,
            inline_image_len: 100,
            history_total: 2000,
        };
        let disk = SimulatedDisk::default();
        let (committer, handle, events) = open(&disk, limits).expect("an empty disk");
        let model = Model { zone: None, versions: vec![(0, None)] };
        let models = vec![model; ZONES as usize];
        let (images, now) = (Vec::new(), Instant::now());
        Run { disk, limits, committer, handle, events, models, images, random, now, durable: 0, counter: 0 }
    }

    /// Sends a request, runs the committer, or finishes an image.
    fn step(&mut self) {
        self.counter += 1;
        let number = self.random.below(ZONES.into()) as u32;
        let (name, model) = (name(number), &mut self.models[number as usize]);
        let last = model.versions.last().and_then(|(_, version)| *version);
        match (self.random.below(12), model.zone, last) {
            (0..6, Some(zone), Some((origin, serial))) => {
                if let Ok(request) = append_change(&self.handle, zone, &name, (serial, serial + 1)) {
                    model.versions.push((request, Some((origin, serial + 1))));
                }
            }
            (0..7, _, version) => {
                // A zone that was just removed gets its number back only when that is durable.
                let zone = *model.zone.get_or_insert_with(|| self.handle.add_zone());
                let serial = version.map_or(0, |(_, serial)| serial + self.random.below(3) as u32);
                let data = image(self.counter, serial);
                if let Some(request) = replace(&self.handle, zone, &name, serial, &data) {
                    model.versions.push((request, Some((self.counter, serial))));
                }
            }
            (7, Some(zone), Some(_)) if self.random.one_in(4) => {
                let request = self.handle.append(Append { zone, name, record: AppendRecord::Removed });
                if let Ok(request) = request {
                    model.versions.push((request, None));
                    model.zone = None;
                }
            }
            (8, ..) if self.random.one_in(8) => self.disk.fail_next_sync(),
            (8, ..) if self.random.one_in(4) => self.finish_image(),
            (8.., ..) => self.commit(),
            _ => (),
        }
    }

    fn commit(&mut self) {
        self.now += Duration::from_millis(self.random.below(200));
        while self.committer.step(self.now) == NextStep::Now {}
        for event in self.events.try_iter() {
            match event {
                StorageEvent::Durable(number) => self.durable = number,
                StorageEvent::Refused { error, .. } => panic!("{error}"),
                StorageEvent::ImageDue(image) => self.images.push(image),
            }
        }
    }

    /// Writes a due image of the newest version; it may be replaced before the committer gets it.
    fn finish_image(&mut self) {
        let Some(mut due) = self.images.pop() else { return };
        let models = self.models.iter().enumerate();
        let named = models.filter(|(_, model)| model.zone == Some(due.zone()));
        let version = |(number, model): (usize, &Model)| Some((number, model.versions.last()?.1?));
        let Some((number, (origin, serial))) = named.filter_map(version).next() else { return };
        // A disk that has failed fails this too.
        if due.push(&image(origin, serial)).is_ok() {
            _ = due.finish(name(number as u32), serial, 500);
        }
    }

    /// The machine crashes and starts again: each zone is as it was after what was acknowledged, or after a later request.
    fn restart(&mut self) -> Result<(), String> {
        self.images.clear();
        if !self.random.one_in(4) {
            self.disk.lose_power(&mut self.random);
        }
        let (store, recovery) = Store::open(self.disk.clone(), self.limits).map_err(|error| error.to_string())?;
        if let Some(damage) = recovery.damages.first() {
            return Err(format!("damage is reported: {damage}"));
        }
        let mut found = BTreeMap::new();
        for zone in recovery.zones() {
            found.insert(zone.name.to_owned(), (zone.zone, read(&store, zone.zone, zone.serial)?));
        }
        for (number, model) in self.models.iter_mut().enumerate() {
            let (zone, version) =
                found.remove(&name(number as u32)).map_or((None, None), |(zone, version)| (Some(zone), version));
            let acknowledged = model.versions.partition_point(|(request, _)| *request <= self.durable).max(1) - 1;
            model.versions.drain(..acknowledged);
            let Some(at) = model.versions.iter().rposition(|(_, known)| *known == version) else {
                return Err(format!("zone {number} is {version:?}, none of {:?}", model.versions));
            };
            model.zone = zone;
            model.versions.truncate(at + 1);
            // What was found becomes durable with the first batch.
            for (index, (request, _)) in model.versions.iter_mut().enumerate() {
                *request = u64::from(index > 0);
            }
        }
        drop((store, recovery));
        (self.committer, self.handle, self.events) = open(&self.disk, self.limits)?;
        self.durable = 0;
        Ok(())
    }
}

type Opened = (Committer<SimulatedDisk>, StorageHandle<SimulatedDisk>, Receiver<StorageEvent<SimulatedDisk>>);

fn open(disk: &SimulatedDisk, limits: StoreLimits) -> Result<Opened, String> {
    let (store, _) = Store::open(disk.clone(), limits).map_err(|error| error.to_string())?;
    let (sender, events) = channel();
    let (committer, handle) = Committer::new(store, LIMITS, move |event| _ = sender.send(event));
    Ok((committer, handle, events))
}

/// An image with the version; every third has a file of its own.
fn image(origin: u32, serial: u32) -> Vec<u8> {
    let mut data = [origin.to_le_bytes(), serial.to_le_bytes()].concat();
    data.resize(if origin.is_multiple_of(3) { 500 } else { 8 }, 0);
    data
}

/// The version of a zone: its image, and the changes that lead from it to `serial`.
fn read(store: &Store<SimulatedDisk>, zone: StoredZone, serial: Option<u32>) -> Result<Option<Version>, String> {
    let Some(image) = store.image(zone) else { return Ok(None) };
    let mut chunk = Vec::new();
    let mut image = image.map_err(|error| error.to_string())?;
    image.next_chunk(&mut chunk).map_err(|error| error.to_string())?;
    let number = |at: usize| chunk[at..].first_chunk().map(|bytes| u32::from_le_bytes(*bytes)).ok_or("a short image");
    let (origin, mut last) = (number(0)?, number(4)?);
    let mut changes = store.changes_after_image(zone);
    while let Some(change) = changes.next_change().map_err(|error| error.to_string())? {
        if change.from != last {
            return Err(format!("a change from {} follows serial {last}", change.from));
        }
        last = change.to;
    }
    if serial == Some(last) { Ok(Some((origin, last))) } else { Err(format!("serial {serial:?} is {last}")) }
}

#[test]
fn what_was_reported_durable_survives_every_crash() {
    let (mut acknowledged, mut images) = (0, 0);
    for seed in 0..1500 {
        let (mut run, mut random) = (Run::new(seed), Random::new(!seed));
        for _ in 0..5 {
            run.disk.crash_in(Some(1 + random.below(80)));
            for _ in 0..400 {
                run.step();
                if run.disk.has_crashed() {
                    break;
                }
            }
            run.disk.crash_in(None);
            acknowledged += run.durable;
            images += run.images.len();
            run.restart().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
    }
    assert!(acknowledged > 50_000 && images > 1000, "{acknowledged} requests, {images} images");
}
