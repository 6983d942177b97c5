//! What goes to the storage thread: images, the changes after them, timers and removals; and what waits while there is no room for it.

use std::io;

use tracing::warn;
use wire::{Name, NameRef};
use zone::encoded_change::EncodedChange;

use super::Persistence;
use super::pending_images::ImageStep;
use crate::storage::disk::Disk;
use crate::storage::{Append, AppendError, AppendRecord, ImageBase, StoredImage, StoredZone, Timers};
use crate::write_help::write_help;
use crate::zone_id::ZoneId;
use crate::zones::journal::{JournalOutcome, LatestVersion, WriteDueImage};

impl<D: Disk> Persistence<D> {
    pub(super) fn append(&self, zone: StoredZone, apex: NameRef<'_>, record: AppendRecord) -> Result<u64, AppendError> {
        self.storage.append(Append { zone, name: apex.to_owned(), record })
    }

    /// Appends changes that follow the stored version. If there is no room for them, the zone needs an image instead.
    pub(super) fn append_changes(
        &mut self,
        zone: ZoneId,
        number: StoredZone,
        apex: NameRef<'_>,
        changes: &[EncodedChange],
    ) {
        for change in changes {
            if self.append(number, apex, AppendRecord::Change(change.clone())).is_err() {
                return self.request_image(zone);
            }
        }
    }

    pub(super) fn request_image(&mut self, zone: ZoneId) {
        if self.stored.set_pending(zone) {
            self.images.request(zone);
        }
        self.start_images();
    }

    pub(super) fn start_images(&mut self) {
        while let Some(zone) = self.images.next() {
            self.outcomes.push(JournalOutcome::VersionNeeded(zone));
        }
    }

    /// Appends an image that was written, and the changes since.
    fn append_image(&mut self, zone: ZoneId) {
        let Some((image, version)) = self.images.take_written(zone) else { return };
        let number = self.stored.number(zone).unwrap_or_else(|| self.storage.add_zone());
        let (apex, serial) = (version.apex().to_owned(), version.serial());
        let timers = self.take_timers(zone, &apex);
        let record = AppendRecord::Image { serial, base: ImageBase::Replacement, image, timers };
        match self.storage.append_or_return(Append { zone: number, name: apex.clone(), record }) {
            Ok(appended) => self.end_image(zone, number, apex.as_ref(), appended),
            Err(append) => {
                self.stored.set_number(zone, number);
                if let Some(timers) = timers {
                    self.timers.put(zone, apex, timers);
                }
                if let AppendRecord::Image { image, .. } = append.record {
                    self.images.block(zone, image);
                }
            }
        }
    }

    /// The timers to store with an image that was written. The state of a file waits for the version that was read from it.
    fn take_timers(&mut self, zone: ZoneId, apex: &Name) -> Option<Timers> {
        let timers = self.timers.take(zone)?;
        if timers.is_of_secondary() || !self.images.is_outdated(zone) {
            return Some(timers);
        }
        self.timers.put_back(zone, apex.clone(), timers);
        None
    }

    /// The image was appended to the queue, with the number `appended`.
    fn end_image(&mut self, zone: ZoneId, number: StoredZone, apex: NameRef<'_>, appended: u64) {
        let ended = self.images.end(zone);
        self.stored.set_number(zone, number);
        self.stored.clear_pending(zone);
        self.append_changes(zone, number, apex, &ended.later);
        if ended.is_outdated {
            self.request_image(zone);
        }
        if ended.is_awaited {
            self.outcomes.push(JournalOutcome::Stored(zone, appended));
        }
        if ended.has_waiting_changes {
            self.outcomes.push(JournalOutcome::Ready(zone));
        }
    }

    pub(super) fn image_written(&mut self, zone: ZoneId, request: u64, image: io::Result<StoredImage>) {
        match self.images.written(zone, request, image) {
            ImageStep::Append => self.append_image(zone),
            ImageStep::Discard(image) => self.storage.discard(image),
            ImageStep::Failed { is_waited_for: true } => self.outcomes.push(JournalOutcome::Unavailable(zone)),
            ImageStep::Failed { .. } | ImageStep::Nothing => (),
        }
        self.start_images();
    }

    /// Tries again what the storage thread had no room for.
    pub(super) fn retry(&mut self) {
        for _ in 0..self.images.blocked_count() {
            if let Some(zone) = self.images.next_blocked() {
                self.append_image(zone);
            }
        }
        while let Some((number, apex)) = self.removals.pop() {
            if self.append(number, apex.as_ref(), AppendRecord::Removed).is_err() {
                self.removals.push((number, apex));
                break;
            }
        }
        self.save_owners();
        self.start_images();
    }

    pub(super) fn flush_timers(&mut self) {
        for (zone, apex, timers) in self.timers.take_all() {
            let is_pending = self.stored.is_pending(zone);
            // With the state of a file that is durable before the version that was read from it, a restart would keep the old one.
            let waits_for_image = is_pending && !timers.is_of_secondary();
            let Some(number) = self.stored.number(zone).filter(|_| !waits_for_image) else {
                // Otherwise the zone is not stored.
                if is_pending {
                    self.timers.put_back(zone, apex, timers);
                }
                continue;
            };
            if self.append(number, apex.as_ref(), AppendRecord::Timers(timers)).is_err() {
                self.timers.put_back(zone, apex, timers);
            }
        }
    }

    /// A snapshot of the latest version, which makes the changes before it history.
    pub(super) fn start_due_image(&self, write: WriteDueImage, latest: Option<LatestVersion>) {
        // A due image that is dropped is asked for again later.
        let Some(latest) = latest else { return };
        self.image_pool.submit(move || {
            let apex = latest.version.apex().to_owned();
            if let Err(error) = write(latest) {
                let help = write_help(&error, "the state-dir");
                warn!(zone = %apex, %error, help, "cannot write an image of the zone; its changes are kept until that works");
            }
        });
    }
}
