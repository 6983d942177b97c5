//! Zones in a store, and a model of what they must be after a crash.
//!
//! The data of a zone is a number. An image has it as its only chunk; a change adds its octets to it.

use std::collections::BTreeMap;

use server::storage::{ImageBase, Store, StoreLimits, StoredZone, Timers};
use wire::Name;

use crate::simulated_disk::{Random, SimulatedDisk};

const SNAPSHOT: ImageBase = ImageBase::Snapshot { max_history_len: 500 };

/// What a zone was after each step; `None` before it was added and after it was removed.
#[derive(Clone, Default)]
struct Model {
    zone: Option<StoredZone>,
    serial: u32,
    versions: Vec<Option<u64>>,
    timers: Vec<u32>,
    /// The first version and timers that may come back.
    durable: usize,
    durable_timers: usize,
}

pub struct World {
    pub disk: SimulatedDisk,
    store: Option<Store<SimulatedDisk>>,
    zones: BTreeMap<String, Model>,
    limits: StoreLimits,
    random: Random,
    /// Differs between all values.
    counter: u32,
    /// Whether the last sync succeeded.
    is_synced: bool,
}

impl World {
    pub fn new(seed: u64) -> World {
        let mut random = Random::new(seed);
        let limits = StoreLimits {
            segment_len: 600 + random.below(4000) as u32,
            min_changes_len: 300,
            image_share: 2,
            inline_image_len: 100,
            history_total: if random.one_in(2) { 300 } else { 2000 },
        };
        let disk = SimulatedDisk::default();
        let store = Store::open(disk.clone(), limits).expect("an empty disk").0;
        World { disk, store: Some(store), zones: BTreeMap::new(), limits, random, counter: 0, is_synced: true }
    }

    /// Does something at random; `Err` says what is wrong.
    pub fn step(&mut self) -> Result<(), String> {
        let name = format!("zone{}.example.", self.random.below(5));
        let apex: Name = name.parse().expect("a name");
        let Some(store) = self.store.as_mut() else { return Ok(()) };
        let model = self.zones.entry(name).or_insert_with(|| Model {
            versions: vec![None],
            timers: vec![0],
            ..Model::default()
        });
        self.counter += 1;
        let last = model.versions.last().copied().flatten();
        match (self.random.below(14), model.zone, last) {
            (0..6, Some(zone), Some(data)) => {
                let token = u64::from(self.counter) << 20;
                let serials = (model.serial, model.serial + 1);
                model.serial += 1;
                let len = 8 + 8 * self.random.below(8) as usize;
                let mut bytes = token.to_le_bytes().to_vec();
                bytes.resize(len, 7);
                store.append_change(zone, apex.as_ref(), serials, &bytes).map_err(|error| error.to_string())?;
                model.versions.push(Some(data + token));
            }
            (0..6, _, None) if model.versions.len() == model.durable + 1 => {
                model.zone.get_or_insert_with(|| store.add_zone());
                replace(store, model, &apex, self.counter, self.random.one_in(3));
            }
            (6, Some(_), Some(_)) => replace(store, model, &apex, self.counter, self.random.one_in(3)),
            (7, Some(zone), Some(data)) => {
                if let Some(image) = image_of(store, data, self.random.one_in(3)) {
                    store.append_image(zone, apex.as_ref(), model.serial, SNAPSHOT, &image);
                }
            }
            (8, Some(zone), Some(_)) => {
                let timers = Timers { expires_at_s: self.counter, ..Timers::default() };
                store.append_timers(zone, apex.as_ref(), timers);
                model.timers.push(self.counter);
            }
            (9, Some(zone), Some(_)) if self.random.one_in(3) => {
                store.remove(zone, apex.as_ref());
                model.versions.push(None);
                model.timers.push(0);
                model.zone = None;
            }
            (10, ..) => {
                let has_work = !matches!(store.compact(500), Ok(false));
                let (usage, limit) = (store.usage(), self.limits.history_total);
                if !has_work && self.is_synced && usage.history_octets > limit + usage.log_octets / 8 {
                    return Err(format!("nothing is compacted with {usage:?}"));
                }
            }
            (11, ..) if self.random.one_in(4) => self.disk.fail_next_sync(),
            (11, ..) if self.random.one_in(20) => return self.restart(false),
            (12.., ..) => self.sync(),
            _ => (),
        }
        Ok(())
    }

    /// Syncs; if that succeeds, everything so far is durable.
    pub fn sync(&mut self) {
        let Some(store) = &mut self.store else { return };
        for due in store.take_due_images() {
            let named = self.zones.iter().find(|(_, model)| model.zone == Some(due));
            let Some((name, model)) = named else { continue };
            let apex: Name = name.parse().expect("a name");
            if let Some(data) = model.versions.last().copied().flatten()
                && let Some(image) = image_of(store, data, false)
            {
                store.append_image(due, apex.as_ref(), model.serial, SNAPSHOT, &image);
            }
        }
        self.is_synced = store.sync().is_ok();
        if self.is_synced {
            for model in self.zones.values_mut() {
                (model.durable, model.durable_timers) = (model.versions.len() - 1, model.timers.len() - 1);
            }
        }
    }

    /// A clean stop.
    fn stop(&mut self) {
        self.sync();
        // Everything is durable without it.
        _ = self.store.as_mut().map(Store::close);
    }

    /// Ends the process, or the machine, and starts again. `Err` if something is lost or made up.
    pub fn restart(&mut self, power_fails: bool) -> Result<(), String> {
        if !power_fails && self.random.one_in(2) {
            self.stop();
        }
        self.store = None;
        if power_fails {
            self.disk.lose_power(&mut self.random);
        }
        let (store, recovery) = Store::open(self.disk.clone(), self.limits).map_err(|error| error.to_string())?;
        if let Some(damage) = recovery.damages.first() {
            return Err(format!("damage is reported: {damage}"));
        }
        let mut found = BTreeMap::new();
        for zone in recovery.zones() {
            let data = read(&store, zone.zone)?;
            let timers = zone.timers.map_or(0, |timers| timers.expires_at_s);
            found.insert(zone.name.to_string(), (zone.zone, zone.serial, data, timers));
        }
        for (name, model) in &mut self.zones {
            let (zone, serial, data, timers) = found
                .remove(name)
                .map_or((None, None, None, 0), |(zone, serial, data, timers)| (Some(zone), serial, data, timers));
            model.check(name, data, timers)?;
            (model.zone, model.serial) = (zone.filter(|_| data.is_some()), serial.unwrap_or(model.serial + 1000));
        }
        self.store = Some(store);
        match found.keys().next() {
            Some(unknown) => Err(format!("{unknown} was never written")),
            None => Ok(()),
        }
    }
}

impl Model {
    /// Compares with what was found; it is the newest version from now on.
    fn check(&mut self, name: &str, data: Option<u64>, timers: u32) -> Result<(), String> {
        let Some(at) = self.versions[self.durable..].iter().rposition(|version| *version == data) else {
            return Err(format!("{name} is {data:?}, which is none of {:?}", &self.versions[self.durable..]));
        };
        self.versions.truncate(self.durable + at + 1);
        let Some(at) = self.timers[self.durable_timers..].iter().rposition(|known| *known == timers) else {
            return Err(format!("{name} has timers {timers}, none of {:?}", &self.timers[self.durable_timers..]));
        };
        self.timers.truncate(self.durable_timers + at + 1);
        Ok(())
    }
}

/// Appends a new version that no change leads to.
fn replace(store: &mut Store<SimulatedDisk>, model: &mut Model, apex: &Name, counter: u32, is_big: bool) {
    let data = u64::from(counter) << 40;
    let (Some(zone), Some(image)) = (model.zone, image_of(store, data, is_big)) else { return };
    model.serial += 10;
    store.append_image(zone, apex.as_ref(), model.serial, ImageBase::Replacement, &image);
    model.versions.push(Some(data));
}

fn image_of(store: &Store<SimulatedDisk>, data: u64, is_big: bool) -> Option<server::storage::StoredImage> {
    let mut writer = store.image_writer();
    writer.push(&data.to_le_bytes()).ok()?;
    if is_big {
        writer.push(&[1; 1000]).ok()?;
    }
    writer.finish().ok()
}

/// The data of a zone: that of its image and of all changes after it.
fn read(store: &Store<SimulatedDisk>, zone: StoredZone) -> Result<Option<u64>, String> {
    let Some(image) = store.image(zone) else { return Ok(None) };
    let mut chunk = Vec::new();
    let mut image = image.map_err(|error| error.to_string())?;
    let mut data = None;
    while image.next_chunk(&mut chunk).map_err(|error| error.to_string())? {
        data = data.or_else(|| chunk.first_chunk().map(|data| u64::from_le_bytes(*data)));
    }
    let mut data = data.ok_or("an empty image")?;
    let mut changes = store.changes_after_image(zone);
    while let Some(change) = changes.next_change().map_err(|error| error.to_string())? {
        data += change.bytes.first_chunk().map_or(0, |token| u64::from_le_bytes(*token));
    }
    Ok(Some(data))
}
