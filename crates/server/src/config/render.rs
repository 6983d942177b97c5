//! The effective configuration as TOML that zonda can read: every key with its value and a summary.

use std::fmt::Write;

use super::Config;
use super::configured_key::ConfiguredKey;
use super::key_spec::KeyTable;
use super::keys::{Server, TsigKeyTable, ZoneKeys};
use super::manual::paragraphs;
use super::value::{
    BoundedText, CheckSetting, DomainName, FilePath, SerialSetting, TsigAlgorithm, TsigSecret, WholeNumber,
};
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
    config.keys.iter().for_each(|key| write_key(key, &mut out));
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

fn write_key(key: &ConfiguredKey, out: &mut String) {
    out.push_str("\n[[key]]\n");
    let is_file = key.secret_file.is_some();
    let table = TsigKeyTable {
        name: Some(DomainName(key.name().to_owned())),
        algorithm: Some(TsigAlgorithm(key.algorithm)),
        // Printed without its octets.
        secret: (!is_file).then_some(TsigSecret(Vec::new())),
        secret_file: key.secret_file.clone().map(FilePath),
        min_mac_octets: WholeNumber(if key.key.accepts_truncated() { key.key.min_mac_len() as u32 } else { 0 }),
    };
    for (key, value) in table.values() {
        if let Some(value) = value.filter(|value| value != key.default) {
            _ = writeln!(out, "{} = {value}", key.name);
        }
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
    let ZonePolicy { include_paths, limits, timers, .. } = &*zone.source.policy;
    let policy = ZonePolicy::clone(&zone.source.policy);
    let [refresh, retry, expire] = [timers.refresh_s, timers.retry_s, timers.expire_s]
        .map(|(min, max)| [min, max].map(|bound| Some(WholeNumber(bound))));
    ZoneKeys {
        name: Some(DomainName(zone.name.clone())),
        template: None,
        file: zone.source.file(zone.name.as_ref()).map(FilePath),
        include_paths: Some(include_paths.iter().cloned().map(FilePath).collect()),
        max_records: Some(WholeNumber(limits.max_records)),
        max_generated: Some(WholeNumber(limits.max_generated)),
        nsec3_max_iterations: Some(WholeNumber(limits.nsec3_max_iterations.into())),
        max_bytes: Some(WholeNumber(limits.max_bytes)),
        max_shrink_percent: Some(WholeNumber(limits.max_shrink_percent.into())),
        primaries: Some(policy.primaries),
        allow_notify: Some(policy.allow_notify),
        allow_transfer: Some(policy.allow_transfer),
        allow_update: Some(policy.allow_update),
        forward_updates: Some(policy.forward_updates),
        notify: Some(policy.notify),
        notify_ns: Some(policy.notify_ns),
        source: Some(policy.source),
        min_refresh_s: refresh[0],
        max_refresh_s: refresh[1],
        min_retry_s: retry[0],
        max_retry_s: retry[1],
        min_expire_s: expire[0],
        max_expire_s: expire[1],
        max_journal_bytes: Some(WholeNumber(policy.max_journal_bytes)),
        keep_versions: Some(WholeNumber(policy.keep_versions)),
        zonemd: Some(policy.zonemd),
        write_file: zone.source.policy.text_file(zone.name.as_ref()).map(FilePath),
        dnssec_check: Some(policy.dnssec.check),
        dnssec_scope: Some(policy.dnssec.scope),
        dnssec_min_validity_s: Some(WholeNumber(policy.dnssec.min_validity_s)),
        check_command: Some(policy.check_command.arguments.into_iter().map(BoundedText).collect()),
        check_timeout_s: Some(WholeNumber(policy.check_command.timeout_s)),
        serial_policy: Some(SerialSetting(policy.serial_policy)),
        catalog: policy.catalog,
        catalog_templates: Some(policy.catalog_templates),
        catalog_member: policy.catalog_member.map(DomainName),
        catalog_group: policy.catalog_group.map(BoundedText),
        checks: Some(CheckSetting(policy.checks)),
    }
}
