//! Publication: changes of zones at once, loaded zones in batches while many are loaded.

use std::sync::Arc;
use std::time::{Duration, Instant};

use answer::{OccasionalReader, Publisher, Served, ServedZone, Subscriber, ZoneMap};
use wire::NameRef;

use super::zone_slab::ZoneSlab;
use crate::clock;
use crate::zone_id::ZoneId;

/// Publishes zones.
pub struct BatchedPublisher {
    publisher: Publisher<Served>,
    /// Changed zones, to be published at once.
    changed: Vec<ZoneId>,
    /// Loaded zones: the next batch. It is inserted into the map all at once: zones stay and each batch replaces branches
    /// of the map, so that allocating both alternately would fragment the heap.
    batch: Vec<ZoneId>,
    /// The map while a configuration is applied step by step. It gets whatever is published meanwhile.
    draft: Option<ZoneMap>,
    /// Zones to be inserted into the draft: many at a time, as in a batch.
    draft_queue: Vec<ZoneId>,
    /// Zones inserted into the map since it was compacted.
    inserted: usize,
    /// The next part of the map to be compacted.
    compacting: Option<usize>,
    /// When the next batch is due.
    next_batch: Instant,
}

/// The minimum time between batches.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

/// Zones inserted into a draft at a time, which takes about a millisecond.
const DRAFT_BATCH: usize = 1024;

/// A batch copies every branch of the map that it changes. The next one waits this many times as long as that took.
const COST_FACTOR: u32 = 20;

/// The map is copied to compact it once more than 1/`COMPACT_FRACTION` of its zones were inserted.
const COMPACT_FRACTION: usize = 4;

impl BatchedPublisher {
    /// Publishes a first value.
    pub fn new(first: Served) -> BatchedPublisher {
        BatchedPublisher {
            publisher: Publisher::new(first),
            changed: Vec::new(),
            batch: Vec::new(),
            draft: None,
            draft_queue: Vec::new(),
            inserted: 0,
            compacting: None,
            next_batch: clock::now(),
        }
    }

    /// Access to what is published.
    pub fn subscribe(&self) -> Subscriber<Served> {
        self.publisher.subscribe()
    }

    /// Access to what is published, for a thread that reads it rarely.
    pub fn occasional_reader(&self) -> OccasionalReader<Served> {
        self.publisher.occasional_reader()
    }

    /// What is published now.
    pub fn current(&self) -> Arc<Served> {
        self.publisher.current()
    }

    /// Publishes a changed zone with the next [`BatchedPublisher::publish_changes`].
    pub fn queue_change(&mut self, zone: ZoneId) {
        self.changed.push(zone);
    }

    /// Adds a loaded zone to the next batch.
    pub fn queue(&mut self, zone: ZoneId) {
        self.batch.push(zone);
    }

    /// When the next batch is due, if it is not empty.
    pub fn due(&self) -> Option<Instant> {
        (!self.batch.is_empty()).then_some(self.next_batch)
    }

    /// Publishes the changed zones, and a part of the map if that is being compacted.
    pub fn publish_changes(&mut self, zones: &ZoneSlab) {
        let changed = std::mem::take(&mut self.changed);
        if !changed.is_empty() {
            self.insert_and_publish(zones, &changed);
            // Keeps its capacity.
            self.changed = changed;
            self.changed.clear();
        }
        self.compact_part();
    }

    /// Publishes the batch now.
    pub fn publish(&mut self, zones: &ZoneSlab) {
        if self.batch.is_empty() {
            return;
        }
        let begin = clock::now();
        let batch = std::mem::take(&mut self.batch);
        self.insert_and_publish(zones, &batch);
        let end = clock::now();
        self.next_batch = end + MIN_INTERVAL.max((end - begin) * COST_FACTOR);
    }

    /// Publishes the current versions of these zones, except for those that were removed since.
    fn insert_and_publish(&mut self, zones: &ZoneSlab, ids: &[ZoneId]) {
        let mut next = Served::clone(&self.publisher.current());
        self.inserted += ids.len();
        for served in ids.iter().filter_map(|id| served(zones, *id)) {
            if let Some(draft) = &mut self.draft {
                draft.insert(served.clone());
            }
            next.zones.insert(served.clone());
        }
        self.publisher.publish(next);
    }

    /// Publishes another change.
    pub fn change(&mut self, change: impl FnOnce(&mut Served)) {
        let mut next = Served::clone(&self.publisher.current());
        change(&mut next);
        self.publisher.publish(next);
    }

    /// Removes a zone from what is served.
    pub fn remove(&mut self, apex: NameRef<'_>) {
        self.draft_remove(apex);
        self.change(|served| _ = served.zones.remove(apex));
    }

    //----------- configuration ------------------------------------------------

    /// Begins a version of the map that is published by [`BatchedPublisher::publish_draft`].
    pub fn begin_draft(&mut self) {
        self.draft = Some(self.publisher.current().zones.clone());
        self.draft_queue.clear();
    }

    /// Adds or replaces a zone in the draft.
    pub fn draft_insert(&mut self, zones: &ZoneSlab, id: ZoneId) {
        if self.draft.is_none() {
            return;
        }
        self.draft_queue.push(id);
        if self.draft_queue.len() >= DRAFT_BATCH {
            self.fill_draft(zones);
        }
    }

    /// Inserts the queued zones into the draft, except for those that were removed since.
    fn fill_draft(&mut self, zones: &ZoneSlab) {
        for id in self.draft_queue.drain(..) {
            if let (Some(draft), Some(served)) = (&mut self.draft, served(zones, id)) {
                draft.insert(served.clone());
            }
        }
    }

    /// Removes a zone from the draft.
    pub fn draft_remove(&mut self, apex: NameRef<'_>) {
        if let Some(draft) = &mut self.draft {
            draft.remove(apex);
        }
    }

    /// Publishes the draft, if there is one, and the batch.
    pub fn publish_draft(&mut self, zones: &ZoneSlab) {
        self.fill_draft(zones);
        if let Some(draft) = self.draft.take() {
            self.change(|served| served.zones = draft);
        }
        self.publish(zones);
    }

    //----------- memory -------------------------------------------------------

    /// Begins to copy the map, part by part, if many batches have fragmented it.
    pub fn compact(&mut self) {
        if self.inserted > self.publisher.current().zones.len() / COMPACT_FRACTION {
            self.compacting = Some(0);
        }
        self.inserted = 0;
    }

    /// Whether parts of the map are left to be compacted.
    pub fn is_compacting(&self) -> bool {
        self.compacting.is_some()
    }

    fn compact_part(&mut self) {
        // The draft will replace the map.
        let Some(part) = self.compacting.take_if(|_| self.draft.is_none()) else { return };
        let mut next = Served::clone(&self.publisher.current());
        if next.zones.compact_part(part) {
            self.publisher.publish(next);
            self.compacting = Some(part + 1);
        }
    }

    /// Frees replaced values that no thread reads any more; returns how many are still read.
    pub fn reclaim(&mut self) -> usize {
        self.publisher.reclaim()
    }
}

fn served(zones: &ZoneSlab, id: ZoneId) -> Option<&Arc<ServedZone>> {
    zones.get(id).map(|entry| &entry.served)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::reader::ConfigReader;
    use crate::zones::zone_entry::{Acls, ZoneEntry};

    fn add(zones: &mut ZoneSlab, name: &str) -> ZoneId {
        let mut reader = ConfigReader::default();
        reader.add_argument(name.parse().expect("a name"), Path::new("file"));
        let config = reader.finish().expect("no mistakes").zones.remove(0);
        let acl = Acls::default().of(&config.source.policy);
        let entry = ZoneEntry::new(config.name, Arc::new(config.source), acl);
        zones.insert(entry, &ZoneMap::default()).expect("it is new")
    }

    #[test]
    fn loaded_zones_are_published_in_batches_and_changes_at_once() {
        let (mut zones, mut publisher) = (ZoneSlab::default(), BatchedPublisher::new(Served::default()));
        let [a, b, c] = ["a.", "b.", "c."].map(|name| add(&mut zones, name));
        let mut subscriber = publisher.subscribe();
        let mut count = move || subscriber.refresh().zones.len();
        assert_eq!(publisher.due(), None);
        publisher.queue(a);
        assert!(publisher.due().is_some_and(|due| due <= Instant::now()), "the first batch is due at once");
        publisher.publish(&zones);
        assert_eq!((count(), publisher.due()), (1, None));
        publisher.queue(b);
        assert!(publisher.due().is_some_and(|due| due > Instant::now()));
        publisher.queue_change(c);
        publisher.publish_changes(&zones);
        assert_eq!(count(), 2);
        zones.remove(b);
        publisher.publish(&zones);
        assert_eq!((count(), publisher.due()), (2, None), "b was removed before the batch");
    }

    #[test]
    fn a_draft_gets_what_is_published_meanwhile() {
        let (mut zones, mut publisher) = (ZoneSlab::default(), BatchedPublisher::new(Served::default()));
        let [a, b, c] = ["a.", "b.", "c."].map(|name| add(&mut zones, name));
        publisher.queue(a);
        publisher.publish(&zones);
        publisher.begin_draft();
        publisher.draft_remove(zones.get(a).expect("it was added").served.apex());
        publisher.draft_insert(&zones, b);
        publisher.queue_change(c);
        publisher.publish_changes(&zones);
        let names = |publisher: &BatchedPublisher| {
            let mut names: Vec<String> = publisher.current().zones.iter().map(|zone| zone.apex().to_string()).collect();
            names.sort();
            names
        };
        assert_eq!(names(&publisher), ["a.", "c."]);
        publisher.publish_draft(&zones);
        assert_eq!(names(&publisher), ["b.", "c."]);
    }

    #[test]
    fn compacting_keeps_every_zone() {
        let (mut zones, mut publisher) = (ZoneSlab::default(), BatchedPublisher::new(Served::default()));
        for number in 0..2000 {
            let id = add(&mut zones, &format!("z{number}."));
            publisher.queue(id);
        }
        publisher.publish(&zones);
        publisher.compact();
        let mut steps = 0;
        while publisher.is_compacting() {
            publisher.publish_changes(&zones);
            steps += 1;
        }
        assert!(steps > 30, "a part at a time: {steps}");
        assert_eq!(publisher.current().zones.iter().count(), 2000);
    }
}
