//! A simulated operator of the primary: adds and removes zones, by configuration and by command, edits a zone file, and reloads machines.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

use super::PRIMARY;
use super::machine::Machine;
use super::network::Network;
use crate::added_zones::Edit;
use crate::report::Report;

/// A zone that the configuration of the primary has or not, and one that is added and removed by command.
pub const CONFIGURED: &str = "c.example.";
pub const ADDED: &str = "d.example.";

const ZONE: &str = "\n[[zone]]\nname = \"c.example\"\n";
/// The longest pause between two actions.
const MAX_PAUSE_MS: u64 = 4000;

pub struct Operator {
    folder: PathBuf,
    /// The configuration of the primary without [`CONFIGURED`].
    config: String,
    is_configured: bool,
    serial: u32,
    is_added: bool,
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
            config,
            is_configured: false,
            serial: 0,
            is_added: false,
            reloads: Vec::new(),
            next_ms: 0,
            counts: (0, 0),
        };
        operator.edit_file();
        operator
    }

    /// Does one thing. What a dead machine should have done is done when it starts, or is tried again.
    pub fn act(&mut self, machines: &mut [Machine], network: &mut Network) {
        self.next_ms = network.now_ms + 100 + network.random.below(MAX_PAUSE_MS);
        let reloaded = match network.random.below(5) {
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
            _ => return self.edit_zone(&mut machines[PRIMARY]),
        };
        let Some(process) = &mut machines[reloaded].process else { return };
        let (reply, report) = sync_channel(1);
        if process.request_reload(reply) {
            self.reloads.push(report);
        }
    }

    /// Writes the next version of the file of [`CONFIGURED`].
    fn edit_file(&mut self) {
        self.serial += 1;
        let text = format!(
            "{}@ TXT \"version {}\"\n",
            super::ZONE_TEXT.replace(" 1 60 ", &format!(" {} 60 ", self.serial)),
            self.serial
        );
        // As editors do: the zone is never read in the middle.
        let (path, new) = (self.folder.join("c.example.zone"), self.folder.join("new"));
        fs::write(&new, text).and_then(|()| fs::rename(&new, path)).expect("space");
    }

    fn edit_zone(&mut self, primary: &mut Machine) {
        let Some(process) = &mut primary.process else { return };
        let name = ADDED.parse().expect("a name");
        let edit = if self.is_added { Edit::Remove(name) } else { Edit::Add(name, "default".into()) };
        process.edit_zone(edit).expect("the file is on a disk that does not fail");
        self.is_added = !self.is_added;
        self.counts.1 += 1;
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
        !self.reloads.is_empty()
    }

    /// The zones that the primary must serve, or not, with a text that must be in the zone.
    pub fn expected(&self) -> [(&'static str, Option<String>); 2] {
        [
            (CONFIGURED, self.is_configured.then(|| format!("version {}", self.serial))),
            (ADDED, self.is_added.then(String::new)),
        ]
    }
}
