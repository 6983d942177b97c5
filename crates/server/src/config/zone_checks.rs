//! Checks of zones one by one: names, templates, files.

use std::collections::HashMap;

use zone::suggest::nearest;
use zone::{FilePosition, Finding, Severity};

use super::reader::{ConfigReader, PendingZone};
use super::resolve::ResolvedKeys;
use crate::printable::quoted;

/// Templates compared with one that does not exist: many more than are ever used, few enough to do so for every error that is
/// listed.
const MAX_COMPARED_TEMPLATES: usize = 1000;

impl ConfigReader {
    /// Reports zones that are named twice or incomplete. Findings that are not listed are not made, as there may be very many.
    pub(super) fn check_zones(&mut self, zones: &[PendingZone], resolved: &[ResolvedKeys]) {
        for pair in zones.windows(2).filter(|pair| pair[0].name == pair[1].name) {
            self.findings.add_with(Severity::Error, || {
                let help = format!("it was first named at {}; remove one of them", pair[0].position(&self.files));
                error(pair[1].position(&self.files), format!("zone {} is named twice", pair[1].name), help)
            });
        }
        for zone in zones {
            let shared = &resolved[zone.shared as usize];
            let has_file = zone.pattern.is_some() || shared.has_file() || shared.unknown_template.is_some();
            if !has_file && shared.policy.needs_file() {
                let help = "set `file` in the zone's table or in its template, or `primaries` to transfer it";
                self.findings.add_with(Severity::Error, || {
                    error(zone.position(&self.files), format!("zone {} has no file", zone.name), help.into())
                });
            }
        }
        self.check_templates(zones, resolved);
    }

    /// Reports each template that zones name and that does not exist, once.
    fn check_templates(&mut self, zones: &[PendingZone], resolved: &[ResolvedKeys]) {
        let mut missing: HashMap<&str, (&PendingZone, usize)> = HashMap::new();
        for zone in zones {
            if let Some(name) = &resolved[zone.shared as usize].unknown_template {
                let (first, count) = missing.entry(name).or_insert((zone, 0));
                *first = std::cmp::min_by_key(*first, zone, |zone| (zone.file, zone.line));
                *count += 1;
            }
        }
        let mut missing: Vec<_> = missing.into_iter().collect();
        missing.sort_unstable_by_key(|(_, (first, _))| (first.file, first.line));
        for (name, (first, count)) in missing {
            self.findings.add_with(Severity::Error, || {
                let zones = if count == 1 { String::new() } else { format!(" ({count} zones name it)") };
                let help = help_for_template(name, self.templates.keys().map(String::as_str));
                error(first.position(&self.files), format!("there is no template {}{zones}", quoted(name)), help)
            });
        }
    }
}

pub(super) fn error(position: FilePosition, message: String, help: String) -> Finding {
    Finding { severity: Severity::Error, position, message, help }
}

/// The template that was meant, if one has a similar name.
pub(super) fn help_for_template<'t>(name: &str, templates: impl Iterator<Item = &'t str>) -> String {
    match nearest(name, templates.take(MAX_COMPARED_TEMPLATES)) {
        Some(known) => format!("did you mean {}?", quoted(known)),
        None => format!("add {}, or name no template", quoted(&format!("[template.{name}]"))),
    }
}
