//! Warnings about entries of `allow-update` with names or types that no record of the zone can have.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use wire::{Name, Rtype};
use zone::{Finding, Severity};

use super::reader::{ConfigReader, PendingZone};
use super::resolve::{ResolvedKeys, Templates};
use super::zone_config::ZonePolicy;

impl ConfigReader {
    /// Warns of names and types that permit nothing, each with the first zone that has them.
    pub(super) fn check_update_rights(
        &mut self,
        zones: &[PendingZone],
        resolved: &[ResolvedKeys],
        templates: &Templates,
    ) {
        let mut zones_of: Vec<Vec<&PendingZone>> = vec![Vec::new(); resolved.len()];
        for zone in zones.iter().filter(|zone| is_limited(&resolved[zone.shared as usize].policy)) {
            zones_of[zone.shared as usize].push(zone);
        }
        for (shared, zones) in resolved.iter().zip(&zones_of) {
            let Some(first) = zones.first() else { continue };
            // Zones that get the settings of a template later may have the names.
            let is_of_template = templates.values().any(|source| Arc::ptr_eq(&source.policy, &shared.policy));
            let names = if is_of_template { Vec::new() } else { unmatched_names(&shared.policy, zones) };
            for name in names {
                let message = format!("`allow-update` permits {name}, which is not in the zone");
                self.warn_of_update_right(
                    first,
                    message,
                    format!("names are complete, as in \"{}\"", example(name, first)),
                );
            }
            for rtype in unmatched_types(&shared.policy) {
                let message = format!("`allow-update` permits {rtype}, which is no type of records");
                self.warn_of_update_right(
                    first,
                    message,
                    "leave out `types` to permit all but those that define or sign the zone",
                );
            }
        }
    }

    fn warn_of_update_right(&mut self, zone: &PendingZone, message: String, help: impl Into<String>) {
        let message = format!("zone {}: {message}", zone.name);
        let (severity, position) = (Severity::Warning, zone.position(&self.files));
        self.findings.add_with(severity, || Finding { severity, position, message, help: help.into() });
    }
}

/// Whether names or types limit what clients may update. Secondaries forward updates whatever these say.
fn is_limited(policy: &ZonePolicy) -> bool {
    policy.primaries.is_empty()
        && policy.allow_update.iter().any(|right| !right.names.is_empty() || !right.types.is_empty())
}

/// The names that are in none of the zones.
fn unmatched_names<'p>(policy: &'p ZonePolicy, zones: &[&PendingZone]) -> Vec<&'p Name> {
    let mut seen = HashSet::new();
    let names = policy.allow_update.iter().flat_map(|right| &right.names).filter(|name| seen.insert(*name));
    names.filter(|name| !zones.iter().any(|zone| may_be_in(name, &zone.name))).collect()
}

/// Whether a zone may have the name, or if its first label is `*`, any name below the rest.
fn may_be_in(name: &Name, apex: &Name) -> bool {
    let rest = name.as_ref().parent().filter(|_| name.as_ref().is_wildcard());
    let covers_zone = rest.is_some_and(|rest| apex.as_ref().is_at_or_below(rest));
    covers_zone || rest.unwrap_or(name.as_ref()).is_at_or_below(apex.as_ref())
}

/// The name below the apex, if it is not too long; else the apex.
fn example(name: &Name, zone: &PendingZone) -> Name {
    let text = name.to_string();
    Name::from_text(text.trim_end_matches('.').as_bytes(), Some(zone.name.as_ref()))
        .unwrap_or_else(|_| zone.name.clone())
}

/// The types of which there are no records (RFC 2136 3.4.1.2).
fn unmatched_types(policy: &ZonePolicy) -> BTreeSet<Rtype> {
    policy.allow_update.iter().flat_map(|right| &right.types).copied().filter(|rtype| rtype.is_meta()).collect()
}
