//! Checks of the settings that zones share: contradictions, and settings without effect in this release.

use std::net::SocketAddr;
use std::sync::Arc;

use zone::{FilePosition, Finding, Severity};

use super::catalog_checks::member_template_problem;
use super::keys::Server;
use super::reader::{ConfigReader, PendingZone};
use super::resolve::{ResolvedKeys, Templates};
use super::value::{CatalogRole, DNS_PORT, Endpoint, FilePath, TlsEndpoint};
use super::zone_checks::{error, help_for_template};
use super::zone_config::ZonePolicy;
use crate::printable::quoted;
use crate::transfer::primary::MAX_PRIMARIES;

/// A zone setting without effect in this release: whether it is set, the message and the help.
type UnusedSetting = (fn(&ZonePolicy) -> bool, &'static str, &'static str);

const UNUSED_SETTINGS: [UnusedSetting; 2] = [
    (
        |policy| !policy.allow_update.is_empty() && !policy.primaries.is_empty() && !policy.forward_updates,
        "only the primary of a zone is updated: `allow-update` has no effect",
        "set `forward-updates = true`, or remove `allow-update`",
    ),
    (
        |policy| policy.forward_updates && policy.primaries.is_empty(),
        "there are no primaries to forward updates to: `forward-updates` has no effect",
        "set `primaries`, or remove `forward-updates`",
    ),
];

impl ConfigReader {
    /// Reports contradictions in the settings of zones, with the first zone that has them, and of templates.
    pub(super) fn check_policies(&mut self, zones: &[PendingZone], resolved: &[ResolvedKeys], templates: &Templates) {
        let mut unchecked = vec![true; resolved.len()];
        for zone in zones {
            if !std::mem::take(&mut unchecked[zone.shared as usize]) {
                continue;
            }
            let policy = &resolved[zone.shared as usize].policy;
            let position = zone.position(&self.files);
            for (message, help) in self.contradictions(policy) {
                self.add_error(position.clone(), format!("zone {}: {message}", zone.name), help);
            }
            for name in policy.catalog_templates.0.values().filter(|name| !self.templates.contains_key(*name)) {
                let help = help_for_template(name, self.templates.keys().map(String::as_str));
                let message = format!("`catalog-templates`: there is no template {}", quoted(name));
                self.findings.add_with(Severity::Error, || error(position.clone(), message, help));
            }
        }
        self.check_template_policies(resolved, templates);
    }

    /// Reports contradictions in templates, for zones that are added at run time. What was reported for a zone is not repeated.
    fn check_template_policies(&mut self, resolved: &[ResolvedKeys], templates: &Templates) {
        for (name, source) in templates.iter().filter(|(_, source)| member_template_problem(source).is_none()) {
            let policy = &source.policy;
            for (message, help) in self.contradictions(policy) {
                if !resolved.iter().any(|shared| Arc::ptr_eq(&shared.policy, policy)) {
                    self.add_error(self.template_position(name), format!("template {name}: {message}"), help);
                }
            }
        }
    }

    /// What contradicts itself in a policy, or contradicts the server's settings: messages and help.
    fn contradictions(&self, policy: &ZonePolicy) -> impl Iterator<Item = (String, &'static str)> + use<> {
        // RFC 2136 3.5: an update is on disk before it is acknowledged.
        let lacks_state_dir = !self.server.has_own_state_dir() && policy.is_updated();
        let help = "updates are kept there: set `state-dir` in [server], for example to \"/var/lib/zonda\", or run zonda with \
                    `StateDirectory=` of systemd, or STATE_DIRECTORY in its environment";
        let unkept = lacks_state_dir.then(|| ("`allow-update` needs `state-dir`".to_owned(), help));
        unkept.into_iter().chain(contradiction(policy))
    }

    /// Where a template begins.
    pub(super) fn template_position(&self, name: &str) -> FilePosition {
        self.position_of(&format!("template.{name}"))
    }

    /// Warns of settings without effect, each with the first zone that has it.
    pub(super) fn check_unused_settings(&mut self, zones: &[PendingZone], resolved: &[ResolvedKeys]) {
        for (is_set, message, help) in UNUSED_SETTINGS {
            let mut affected = zones.iter().filter(|zone| is_set(&resolved[zone.shared as usize].policy));
            if let Some(first) = affected.next() {
                let message = format!("{message} ({} in all, the first is {})", affected.count() + 1, first.name);
                let (severity, position, help) = (Severity::Warning, first.position(&self.files), help.into());
                self.findings.add_with(severity, || Finding { severity, position, message, help });
            }
        }
    }

    /// Checks that TLS and QUIC have what they need.
    pub(super) fn check_tls(&mut self) {
        let Server { listen_tls, listen_quic, tls_cert, tls_key, tls_self_signed, tls_ticket_keys, .. } = &self.server;
        let incomplete = match (tls_cert.is_some(), tls_key.is_some()) {
            (false, true) => Some(("tls-key", "`tls-cert`")),
            (true, false) => Some(("tls-cert", "`tls-key`")),
            (false, false) if *tls_self_signed => None,
            (false, false) if !listen_tls.is_empty() => Some(("listen-tls", "`tls-cert` and `tls-key`")),
            (false, false) if !listen_quic.is_empty() => Some(("listen-quic", "`tls-cert` and `tls-key`")),
            _ => None,
        };
        let has_two_certificates = *tls_self_signed && tls_cert.is_some();
        // RFC 9250 4.1.1: port 53 is never used, so that QUIC is not taken for DNS over UDP.
        let has_dns_port = listen_quic.iter().any(|TlsEndpoint(address)| address.port() == DNS_PORT);
        let has_listeners = !listen_tls.is_empty() || !listen_quic.is_empty();
        let certificates = [("tls-cert", tls_cert.is_some()), ("tls-self-signed", *tls_self_signed)];
        let unused = certificates.into_iter().find(|(_, is_set)| *is_set && !has_listeners);
        let secrets = [("tls-key", tls_key.clone()), ("tls-ticket-keys", tls_ticket_keys.clone())];
        if has_two_certificates {
            let message = "`tls-self-signed` and `tls-cert` are two certificates";
            return self.add_error(self.position_of("tls-self-signed"), message, "remove one of them");
        }
        if has_dns_port {
            let message = "`listen-quic` has port 53, which is for DNS over UDP";
            self.add_error(self.position_of("listen-quic"), message, "choose another port; clients expect 853");
        }
        if let Some((key, missing)) = incomplete {
            self.add_error(self.position_of(key), format!("`{key}` needs {missing}"), format!("set {missing} too"));
        }
        if let Some((key, _)) = unused {
            let message = format!("neither `listen-tls` nor `listen-quic` is set: `{key}` has no effect");
            let help = format!("set one of them, or remove `{key}`");
            let (severity, position) = (Severity::Warning, self.position_of(key));
            self.findings.add_with(severity, || Finding { severity, position, message, help });
        }
        for (key, file) in secrets {
            if let Some(FilePath(file)) = file {
                self.check_secrecy(&file, &self.position_of(key));
            }
        }
    }

    /// Reports an address of `listen-tls` or `listen-quic` that `listen` has: a start would take itself for another program.
    pub(super) fn check_addresses(&mut self) {
        let Server { listen, listen_tls, listen_quic, .. } = &self.server;
        let conflict = |encrypted: &[TlsEndpoint]| {
            let mut addresses = encrypted.iter().map(|TlsEndpoint(address)| *address);
            addresses.find(|address| listen.iter().any(|Endpoint(other)| overlap(*address, *other)))
        };
        // Another error has port 53.
        let of_quic = conflict(listen_quic).filter(|address| address.port() != DNS_PORT);
        for (key, transport, address) in [("listen-tls", "TCP", conflict(listen_tls)), ("listen-quic", "UDP", of_quic)]
        {
            let Some(address) = address else { continue };
            let message = format!("`{key}` has {address}, where `listen` has DNS over {transport}");
            self.add_error(self.position_of(key), message, "choose another port; clients expect 853");
        }
    }
}

/// Whether two sockets of one protocol cannot have these addresses.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let (ip, other_ip) = (one.ip(), other.ip());
    let is_any = ip.is_ipv4() == other_ip.is_ipv4() && (ip.is_unspecified() || other_ip.is_unspecified());
    one.port() == other.port() && one.port() != 0 && (ip == other_ip || is_any)
}

/// What contradicts itself in a policy: the message and the help.
pub(super) fn contradiction(policy: &ZonePolicy) -> Option<(String, &'static str)> {
    let timers = &policy.timers;
    let ranges = [("refresh", timers.refresh_s), ("retry", timers.retry_s), ("expire", timers.expire_s)];
    if let Some((name, (min, max))) = ranges.into_iter().find(|(_, (min, max))| min > max) {
        return Some((
            format!("`min-{name}-s` is {min} and `max-{name}-s` is {max}"),
            "the minimum must not be greater",
        ));
    }
    if policy.primaries.len() > MAX_PRIMARIES {
        let message =
            format!("`primaries` has {} entries, and at most {MAX_PRIMARIES} are asked", policy.primaries.len());
        return Some((message, "remove some"));
    }
    if policy.check_command.arguments.first().is_some_and(String::is_empty) {
        return Some(("`check-command` has no program".into(), "write the program first, then its arguments"));
    }
    if !policy.allow_update.is_empty() && policy.catalog == Some(CatalogRole::Produce) {
        let message = "`allow-update` is set for a catalog that this server makes".into();
        return Some((message, "remove `allow-update`"));
    }
    if !policy.catalog_templates.0.is_empty() && policy.catalog != Some(CatalogRole::Consume) {
        let message = "`catalog-templates` is set for a zone that is not a consumed catalog".into();
        return Some((message, "set catalog = \"consume\", or remove `catalog-templates`"));
    }
    None
}
