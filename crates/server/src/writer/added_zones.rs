//! `zonda zone add` and `zonda zone remove`: zones that come and go without a reload, and survive a restart.

use std::io;
use std::sync::mpsc::SyncSender;

use tracing::{error, info, warn};
use wire::Name;

use super::Writer;
use crate::added_zones::{self, AddedZones, AddedZonesFile, Addition, Contents, Edit, SaveRequest, Saver};
use crate::clock;
use crate::control::ZoneFailure;
use crate::state_dir::ADDED_ZONES;
use crate::storage::disk::Disk;
use crate::zones::zone_origin::ZoneOrigin;

/// Zones to add or to remove.
pub struct EditRequest {
    /// What to do, by name: not checked yet.
    pub edits: Vec<Edit>,
    /// Receives what could not be done.
    pub failures: SyncSender<Vec<ZoneFailure>>,
    /// Receives an empty message once the rest is on disk, or why it is not.
    pub saved: SyncSender<Result<(), String>>,
}

/// The zones of `zonda zone add`.
#[derive(Default)]
pub(super) struct Additions {
    /// Keeps them; none without a state-dir.
    saver: Option<Saver>,
    /// The number of the last one.
    last: u32,
    /// Those that were added before the start and are not served, as their template is gone.
    unrestored: AddedZones,
    /// Whether stored zones that nothing adds are kept until another start: see [`Writer::keep_stored_zones`].
    pub(super) keeps_stored: bool,
}

impl Writer {
    /// Adds the zones that were added before the start, and keeps those that will be.
    pub fn open_added_zones(&mut self, state_dir: io::Result<impl Disk>) {
        let opened = state_dir.and_then(AddedZonesFile::open).and_then(|(file, contents)| {
            let (saver, queue) = Saver::new(file);
            queue.start()?;
            Ok((saver, contents))
        });
        match opened {
            Ok((saver, contents)) => self.use_added_zones(saver, contents),
            Err(error) => {
                error!(
                    file = ADDED_ZONES,
                    "the file in the state-dir cannot be used: zones that were added are not served: {error}"
                );
                self.keep_stored_zones();
            }
        }
    }

    /// As [`Writer::open_added_zones`], with a file that is open already.
    pub(super) fn use_added_zones(&mut self, saver: Saver, contents: Contents) {
        self.additions.saver = Some(saver);
        if contents.is_damaged {
            self.keep_stored_zones();
        }
        self.restore_added(contents.zones);
    }

    /// Not all zones that were added are in the registry: what is stored of them must not be forgotten.
    pub fn keep_stored_zones(&mut self) {
        self.additions.keeps_stored = true;
    }

    fn restore_added(&mut self, zones: AddedZones) {
        let count = zones.len();
        let mut forgotten = Vec::new();
        for (name, addition) in zones {
            self.additions.last = self.additions.last.max(addition.number);
            if self.zones.find(name.as_ref()).is_some() {
                forgotten.push(name);
            } else if let Err(reason) = self.add_zone(&name, &addition) {
                // It is kept in the file, and what is stored of it: the template may come back.
                self.keep_stored_zones();
                error!(zone = %name, "a zone that was added is not served: {reason}");
                self.additions.unrestored.insert(name, addition);
            }
        }
        if count > 0 {
            info!(zones = count, "added zones restored");
            // As the configured zones: queries that come before they are loaded are not refused.
            self.zones.publish_changes();
        }
        self.forget_taken_over(forgotten);
    }

    /// Adds the zones whose template has come back with a configuration.
    pub(super) fn restore_again(&mut self) {
        let mut forgotten = Vec::new();
        for (name, addition) in std::mem::take(&mut self.additions.unrestored) {
            let origin = self.zones.find(name.as_ref()).and_then(|id| self.zones.origin(id));
            if origin == Some(&ZoneOrigin::Configured) {
                forgotten.push(name);
            } else if self.add_zone(&name, &addition).is_err() {
                self.additions.unrestored.insert(name, addition);
            }
        }
        self.forget_taken_over(forgotten);
    }

    /// The configuration has these zones now: they are added zones no more.
    pub(super) fn forget_taken_over(&mut self, zones: Vec<Name>) {
        for zone in &zones {
            warn!(zone = %zone, "the zone is configured now: that it was added with `zonda zone add` is forgotten");
        }
        if let Some(saver) = self.additions.saver.as_ref().filter(|_| !zones.is_empty()) {
            saver.save(SaveRequest { edits: zones.into_iter().map(Edit::Remove).collect(), reply: None });
        }
    }

    /// Adds and removes zones. The client is answered when that is on disk.
    pub(super) fn edit_zones(&mut self, request: EditRequest) {
        let EditRequest { edits, failures, saved } = request;
        let mut failed = Vec::new();
        let mut done = Vec::with_capacity(edits.len());
        // The time, so that a zone whose removal is forgotten does not get an earlier number.
        self.additions.last = self.additions.last.max(clock::real_s());
        for mut edit in edits {
            let (name, result) = match &mut edit {
                Edit::Add(name, addition) => {
                    addition.number = self.additions.last;
                    (&*name, self.add_zone(name, addition))
                }
                Edit::Remove(name) => (&*name, self.remove_zone(name)),
            };
            match result {
                Err(reason) => failed.push(ZoneFailure { zone: name.to_string(), reason }),
                Ok(()) => done.push(edit),
            }
        }
        // A client that has left gets no reply.
        _ = failures.send(failed);
        match &self.additions.saver {
            _ if done.is_empty() => _ = saved.send(Ok(())),
            Some(saver) => saver.save(SaveRequest { edits: done, reply: Some(saved) }),
            None => _ = saved.send(Err("the state-dir cannot be used; the log of the start says why".into())),
        }
    }

    fn add_zone(&mut self, name: &Name, Addition { template, number }: &Addition) -> Result<(), String> {
        if let Some(origin) = self.zones.find(name.as_ref()).and_then(|id| self.zones.origin(id)) {
            return Err(match origin {
                ZoneOrigin::Configured => "the zone is configured already".into(),
                ZoneOrigin::Added { template } => format!("the zone was added already, with the template {template}"),
                ZoneOrigin::Member { catalog, .. } => format!("the zone is a member of the catalog {catalog} already"),
            });
        }
        if !added_zones::is_storable(template) {
            return Err("the name of a template must not be empty or contain spaces".into());
        }
        let source = self.catalogs.templates().usable(template)?.clone();
        self.additions.unrestored.remove(name);
        self.zones.add_numbered(name.clone(), &source, ZoneOrigin::Added { template: template.clone() }, *number);
        Ok(())
    }

    fn remove_zone(&mut self, name: &Name) -> Result<(), String> {
        if self.additions.unrestored.remove(name).is_some() {
            self.zones.forget_stored_zone(name.as_ref());
            return Ok(());
        }
        let id = self.zones.find(name.as_ref()).ok_or("this is not a zone of this server")?;
        match self.zones.origin(id) {
            Some(ZoneOrigin::Added { .. }) => {
                if self.zones.addition(id) == self.additions.last {
                    // It gets another number if it is added again.
                    self.additions.last += 1;
                }
                self.zones.remove(id)
            }
            Some(ZoneOrigin::Member { catalog, .. }) => {
                return Err(format!("the zone is a member of the catalog {catalog}: remove it there"));
            }
            _ => return Err("the zone is configured: remove it from the configuration and reload".into()),
        };
        self.catalogs.zone_freed(name, &mut self.zones);
        Ok(())
    }
}
