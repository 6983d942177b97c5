//! A simulated operator of the primary: adds and removes zones, by configuration and by command, edits a zone file, and reloads machines.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

use super::lists::Lists;
use super::machine::Machine;
use super::network::{Network, ProcessId};
use super::process::SentEdit;
use super::{PRIMARY, replace_text, zone_text};
use crate::added_zones::Edit;
use crate::report::Report;
use crate::simulated_disk::Random;

/// A zone that the configuration of the primary has or not, and one that is added and removed by command.
pub const CONFIGURED: &str = "c.example.";
pub const ADDED: &str = "d.example.";

const ZONE: &str = "\n[[zone]]\nname = \"c.example\"\n";
/// The longest pause between two actions.
const MAX_PAUSE_MS: u64 = 4000;

/// An addition or a removal that is not acknowledged.
struct PendingEdit {
    is_added: bool,
    /// Whether it was known before if the zone is added.
    was_known: bool,
    sent: SentEdit,
}

pub struct Operator {
    folder: PathBuf,
    /// The configuration of the primary without [`CONFIGURED`].
    config: String,
    is_configured: bool,
    serial: u32,
    pub lists: Lists,
    /// Whether [`ADDED`] is added, if that was acknowledged.
    pub is_added: Option<bool>,
    edit: Option<PendingEdit>,
    /// The process that an edit without a reply was sent to.
    unsure_of: Option<ProcessId>,
    /// Replies to reloads that are to come.
    reloads: Vec<Receiver<Report>>,
    pub next_ms: u64,
    /// How many reloads were reported, and zones added or removed by command.
    pub counts: (u32, u32),
}

impl Operator {
    pub fn new(folder: &Path, config: String) -> Operator {
        let mut operator = Operator {
            folder: folder.to_owned(),
            lists: Lists::new(folder),
            config,
            is_configured: false,
            serial: 0,
            is_added: Some(false),
            edit: None,
            unsure_of: None,
            reloads: Vec::new(),
            next_ms: 0,
            counts: (0, 0),
        };
        operator.edit_file();
        operator
    }

    /// Whether it must find out if a zone is added.
    pub fn must_edit(&self) -> bool {
        self.is_added.is_none() && self.edit.is_none()
    }

    /// Does one thing, if there are no `changes` only what it must. What a dead machine should have done is done when it starts, or is
    /// tried again.
    pub fn act(&mut self, machines: &mut [Machine], network: &mut Network, changes: bool) {
        self.next_ms = network.now_ms + 100 + network.random.below(MAX_PAUSE_MS);
        let reloaded = match network.random.below(6) {
            _ if !changes => return self.edit_zone(&mut machines[PRIMARY], &mut network.random),
            0 => {
                self.is_configured = !self.is_configured;
                let zone = if self.is_configured { ZONE } else { "" };
                fs::write(&machines[PRIMARY].config, self.config.clone() + zone).expect("space");
                PRIMARY
            }
            1 => {
                self.edit_file();
                PRIMARY
            }
            2 => network.random.below(machines.len() as u64) as usize,
            3 => {
                self.lists.change(&mut network.random);
                PRIMARY
            }
            _ => return self.edit_zone(&mut machines[PRIMARY], &mut network.random),
        };
        self.reload(&mut machines[reloaded]);
    }

    /// Reloads a machine, unless it is dead.
    pub fn reload(&mut self, machine: &mut Machine) {
        let Some(process) = &mut machine.process else { return };
        let (reply, report) = sync_channel(1);
        if process.request_reload(reply) {
            self.reloads.push(report);
        }
    }

    /// The primary has another configuration, without [`CONFIGURED`].
    pub fn config_was_changed(&mut self, config: String) {
        (self.config, self.is_configured) = (config, false);
    }

    /// What was added is gone.
    pub fn disk_was_lost(&mut self) {
        (self.is_added, self.edit, self.unsure_of) = (Some(false), None, None);
    }

    /// Writes the next version of the file of [`CONFIGURED`].
    fn edit_file(&mut self) {
        self.serial += 1;
        let text = format!("{}@ TXT \"version {}\"\n", zone_text(self.serial), self.serial);
        replace_text(&self.folder, "c.example", &text);
    }

    fn edit_zone(&mut self, primary: &mut Machine, random: &mut Random) {
        let Some(process) = primary.process.as_mut().filter(|_| self.edit.is_none()) else { return };
        let (name, known) = (ADDED.parse().expect("a name"), self.is_added.take());
        let is_added = known.map_or_else(|| random.one_in(2), |is_added| !is_added);
        let edit = if is_added { Edit::Add(name, "default".into()) } else { Edit::Remove(name) };
        self.edit = Some(PendingEdit { is_added, was_known: known.is_some(), sent: process.request_edit(edit) });
    }

    /// Takes the reply to an edit. Without one, and if it could not be saved, the zone may be added or not.
    pub fn take_edit(&mut self) -> Result<(), String> {
        let Some(PendingEdit { is_added, was_known, sent }) = &self.edit else { return Ok(()) };
        let is_saved = match sent.is_saved.try_recv() {
            Err(TryRecvError::Empty) => return Ok(()),
            Err(TryRecvError::Disconnected) => false,
            Ok(saved) => saved.is_ok(),
        };
        let failed = sent.failed.try_recv().unwrap_or_default();
        let is_sure = match failed.first() {
            None => is_saved,
            Some(failure) if *was_known => return Err(format!("{ADDED}: {}", failure.reason)),
            // It was so at the start of this process, and is on disk.
            Some(_) => self.unsure_of != Some(sent.to) && sent.is_all_saved,
        };
        if is_sure {
            (self.is_added, self.counts.1) = (Some(*is_added), self.counts.1 + 1);
        } else {
            self.unsure_of = Some(sent.to);
        }
        self.edit = None;
        Ok(())
    }

    /// Takes the reports of reloads; what a crash has ended gets none.
    pub fn take_reports(&mut self) {
        let before = self.reloads.len();
        let mut lost = 0;
        self.reloads.retain(|report| match report.try_recv() {
            Ok(_) => false,
            Err(TryRecvError::Disconnected) => {
                lost += 1;
                false
            }
            Err(TryRecvError::Empty) => true,
        });
        self.counts.0 += (before - self.reloads.len() - lost) as u32;
    }

    pub fn is_waiting(&self) -> bool {
        !self.reloads.is_empty() || self.is_added.is_none()
    }

    /// The zones that the primary must serve, or not, with a text that must be in the zone.
    pub fn expected(&self) -> [(&'static str, Option<String>); 2] {
        [
            (CONFIGURED, self.is_configured.then(|| format!("version {}", self.serial))),
            (ADDED, self.is_added.unwrap_or_default().then(String::new)),
        ]
    }
}
