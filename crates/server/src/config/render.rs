//! The effective configuration as TOML that zonda can read: every key with its value and a summary.

use std::fmt::Write;

use super::Config;
use super::key_spec::KeyTable;
use super::keys::{Server, ZoneKeys};
use super::manual::paragraphs;
use super::value::{CheckSetting, DomainName, FilePath, WholeNumber};
use super::zone_config::{ZoneConfig, ZonePolicy};
use crate::printable::Printable;

/// The configuration as one TOML text. Secrets are hidden; defaults are marked.
pub fn toml(config: &Config) -> String {
    let mut out = String::from("# The effective configuration of zonda.\n");
    for file in &config.files {
        _ = writeln!(out, "# Read from {}", Printable(file));
    }
    out.push_str("\n[server]\n");
    write_server(&config.server, &mut out);
    let mut zones: Vec<&ZoneConfig> = config.zones.iter().collect();
    zones.sort_by(|a, b| a.name.cmp(&b.name));
    for zone in zones {
        write_zone(zone, &mut out);
    }
    out
}

fn write_server(server: &Server, out: &mut String) {
    for ((key, value), (_, default)) in server.values().zip(Server::default().values()) {
        let summary = paragraphs(key.doc).swap_remove(0);
        _ = writeln!(out, "\n# {summary}{}", if value == default { " (default)" } else { "" });
        _ = match value {
            Some(value) => writeln!(out, "{} = {value}", key.name),
            None => writeln!(out, "# {} is not set", key.name),
        };
    }
}

fn write_zone(zone: &ZoneConfig, out: &mut String) {
    out.push_str("\n[[zone]]\n");
    for (key, value) in zone_keys(zone).values() {
        if let Some(value) = value.filter(|value| value != key.default) {
            _ = writeln!(out, "{} = {value}", key.name);
        }
    }
}

fn zone_keys(zone: &ZoneConfig) -> ZoneKeys {
    let ZonePolicy { primaries, allow_transfer, notify, include_paths, limits, checks, .. } = &*zone.source.policy;
    ZoneKeys {
        name: Some(DomainName(zone.name.clone())),
        template: None,
        file: zone.source.file(zone.name.as_ref()).map(FilePath),
        include_paths: Some(include_paths.iter().cloned().map(FilePath).collect()),
        max_records: Some(WholeNumber(limits.max_records)),
        max_generated: Some(WholeNumber(limits.max_generated)),
        nsec3_max_iterations: Some(WholeNumber(limits.nsec3_max_iterations.into())),
        primaries: Some(primaries.clone()),
        allow_transfer: Some(allow_transfer.clone()),
        notify: Some(notify.clone()),
        checks: Some(CheckSetting(*checks)),
    }
}
