//! Checks of the paths of `write-file`: nothing that is read may be written over, and no two zones share one file.
//!
//! Paths are compared as they are written. What links and zones added at run time lead to is found when a file is written
//! (`zones/text_files.rs`).

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use wire::NameRef;

use super::catalog_checks::member_template_problem;
use super::reader::{ConfigReader, PendingZone};
use super::resolve::{ResolvedKeys, Templates};
use super::zone_path::expand;

/// The first and the last zone that is read from a file.
type ReadFiles = HashMap<PathBuf, (usize, usize)>;

impl ConfigReader {
    /// Reports zones whose text would be written over a zone file, or over the text of another zone.
    pub(super) fn check_text_files(&mut self, zones: &[PendingZone], resolved: &[ResolvedKeys]) {
        if resolved.iter().all(|shared| shared.policy.write_file.is_none()) {
            return;
        }
        let (read, mut written) = (read_files(zones, resolved), HashSet::new());
        for (index, zone) in zones.iter().enumerate() {
            let policy = &resolved[zone.shared as usize].policy;
            let Some(path) = policy.text_file(zone.name.as_ref()) else { continue };
            let (position, name) = (zone.position(&self.files), &zone.name);
            let (first, last) = read.get(&path).copied().unwrap_or((index, index));
            let other = if first == index { last } else { first };
            if policy.needs_file() && read.contains_key(&path) && other == index {
                let message = format!("zone {name}: `write-file` is its own zone file");
                self.add_error(position, message, "write to another file: comments and includes would be lost");
            } else if other != index {
                let message = format!("zone {name}: `write-file` is the zone file of {}", zones[other].name);
                self.add_error(position, message, "write to another file: the zone file would be replaced");
            } else if !written.insert(path) {
                let message = format!("zone {name}: `write-file` is that of another zone too");
                self.add_error(position, message, "write {name} in the path for the name of the zone");
            }
        }
    }

    /// The same for templates of zones that are added at run time.
    pub(super) fn check_text_files_of_templates(&mut self, templates: &Templates) {
        for (name, source) in templates.iter().filter(|(_, source)| member_template_problem(source).is_none()) {
            let Some(written) = source.policy.text_file(NameRef::ROOT) else { continue };
            if source.policy.needs_file() && source.file(NameRef::ROOT) == Some(written) {
                let message = format!("template {name}: `write-file` is the zone file");
                let help = "write to another file: comments and includes would be lost";
                self.add_error(self.template_position(name), message, help);
            } else if !source.policy.has_text_file_per_zone() {
                let message = format!("template {name}: `write-file` is the same for all zones");
                self.add_error(
                    self.template_position(name),
                    message,
                    "write {name} in the path for the name of the zone",
                );
            }
        }
    }
}

fn read_files(zones: &[PendingZone], resolved: &[ResolvedKeys]) -> ReadFiles {
    let mut files = ReadFiles::new();
    for (index, zone) in zones.iter().enumerate() {
        let pattern = zone.pattern.as_ref().or(resolved[zone.shared as usize].pattern.as_ref());
        if let Some(pattern) = pattern {
            files.entry(expand(pattern, zone.name.as_ref())).or_insert((index, index)).1 = index;
        }
    }
    files
}
