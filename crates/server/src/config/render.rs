//! The effective configuration as TOML that can be read back: every key with its value and the first sentence about it.

use std::fmt::Write;

use zone::CheckMode;

use super::Config;
use super::keys::{Server, Zone};
use super::section::{Key, Section};
use super::value::Whole;
use super::zones::{ZoneConfig, ZoneLimits};
use crate::printable::Printable;

/// The configuration as one TOML text. Secrets are hidden; defaults are marked.
pub fn toml(config: &Config) -> String {
    let mut out = String::from("# The effective configuration of zonda.\n");
    for file in &config.files {
        _ = writeln!(out, "# Read from {}", Printable(file));
    }
    out.push_str("\n[server]\n");
    server(&config.server, &mut out);
    let mut zones: Vec<&ZoneConfig> = config.zones.iter().collect();
    zones.sort_by(|a, b| a.name.cmp(&b.name));
    for zone in zones {
        zone_table(zone, &mut out);
    }
    out
}

fn server(server: &Server, out: &mut String) {
    for (index, key) in Server::KEYS.iter().enumerate() {
        let value = server.toml(index);
        let is_default = value == Server::default().toml(index);
        _ = writeln!(out, "\n# {}{}", summary(key), if is_default { " (default)" } else { "" });
        _ = match value {
            Some(value) => writeln!(out, "{} = {value}", key.name),
            None => writeln!(out, "# {} is not set", key.name),
        };
    }
}

fn zone_table(zone: &ZoneConfig, out: &mut String) {
    fn unless_empty<T: Clone>(list: &[T]) -> Option<Vec<T>> {
        (!list.is_empty()).then(|| list.to_vec())
    }
    fn unless_default(limit: u32, default: u32) -> Option<Whole<0, { u32::MAX }>> {
        (limit != default).then_some(Whole(limit))
    }
    let (limits, default) = (&zone.source.policy.limits, ZoneLimits::default());
    let iterations = limits.nsec3_max_iterations;
    let keys = Zone {
        name: Some(zone.name.clone()),
        template: None,
        file: zone.source.file(zone.name.as_ref()),
        primaries: unless_empty(&zone.source.policy.primaries),
        allow_transfer: unless_empty(&zone.source.policy.allow_transfer),
        notify: unless_empty(&zone.source.policy.notify),
        include_paths: unless_empty(&zone.source.policy.include_paths),
        max_records: unless_default(limits.max_records, default.max_records),
        max_generated: unless_default(limits.max_generated, default.max_generated),
        nsec3_max_iterations: (iterations != default.nsec3_max_iterations).then_some(Whole(iterations.into())),
        checks: Some(zone.source.policy.checks).filter(|checks| *checks != CheckMode::default()),
    };
    out.push_str("\n[[zone]]\n");
    for (index, key) in Zone::KEYS.iter().enumerate() {
        if let Some(value) = keys.toml(index) {
            _ = writeln!(out, "{} = {value}", key.name);
        }
    }
}

/// The first sentence of a key's documentation: its first paragraph on one line.
fn summary(key: &Key) -> String {
    let lines = key.doc.lines().map(str::trim).take_while(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(" ")
}
