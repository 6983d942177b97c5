//! Combines zones with their templates: [`ConfigReader::finish`] returns the configuration, or every mistake.

use std::collections::HashSet;
use std::sync::Arc;

use zone::suggest::nearest;
use zone::{FilePosition, Finding, Severity};

use super::Config;
use super::catalog_checks::inheritable;
use super::key_spec::KeyTable;
use super::keys::ZoneKeys;
use super::policy_checks::UNUSED_SETTINGS;
use super::reader::{ConfigReader, PendingZone, SharedKeys};
use super::value::{BoundedText, FilePath};
use super::zone_config::{ZoneConfig, ZonePolicy, ZoneSource, share};
use super::zone_path::template_pattern;
use crate::printable::quoted;

/// The template of zones that name none.
pub const DEFAULT_TEMPLATE: &str = "default";

/// Templates compared with one that does not exist: many more than are ever used, few enough to do so for every error that is
/// listed.
const MAX_COMPARED_TEMPLATES: usize = 1000;

/// [`SharedKeys`] with those of the template and the defaults.
pub(super) struct ResolvedKeys {
    /// The pattern of the template's zone file.
    pub(super) pattern: Option<Arc<[u8]>>,
    pub(super) policy: Arc<ZonePolicy>,
    /// The template's name, if there is no such template.
    unknown_template: Option<String>,
}

impl ResolvedKeys {
    /// The source of a zone without a file of its own.
    pub(super) fn into_source(self) -> ZoneSource {
        ZoneSource { pattern: self.pattern, policy: self.policy }
    }

    /// Whether the template has a zone file.
    pub(super) fn has_file(&self) -> bool {
        self.pattern.is_some()
    }
}

impl ConfigReader {
    /// The configuration, unless there were mistakes.
    pub fn finish(mut self) -> Result<Config, Vec<Finding>> {
        let (mut policies, defaults) = (HashSet::new(), ZoneKeys::with_defaults());
        let mut resolve = |shared: &SharedKeys| self.resolve(shared, &defaults, &mut policies);
        let resolved: Vec<ResolvedKeys> = self.shared.iter().map(&mut resolve).collect();
        let templates = self.resolve_templates(resolve);
        let mut pending = std::mem::take(&mut self.zones);
        let order = |zone: &PendingZone| (zone.file, zone.line);
        pending.sort_unstable_by(|a, b| a.name.wire().cmp(b.name.wire()).then_with(|| order(a).cmp(&order(b))));
        self.check_zones(&pending, &resolved);
        self.check_policies(&pending, &resolved);
        self.check_catalogs(&pending, &resolved, &templates);
        self.check_text_files(&pending, &resolved);
        self.check_key_names();
        self.check_tls();
        if self.server.listen.is_empty() {
            let position = self.set_at.get("listen").cloned().unwrap_or_default();
            self.add_error(position, "`listen` is empty", "name an address, or remove the key");
        }
        let has_errors = self.findings.has_errors();
        let mut findings = self.findings.finish(&Arc::default());
        if has_errors {
            let file_index = |file: &Arc<str>| self.files.iter().position(|known| known == file).unwrap_or(usize::MAX);
            findings.sort_by_cached_key(|Finding { position: FilePosition { file, line, column }, .. }| {
                (file_index(file), *line, *column)
            });
            return Err(findings);
        }
        let is_catalog = |zone: &&PendingZone| resolved[zone.shared as usize].policy.catalog.is_some();
        let catalogs = pending.iter().filter(is_catalog).map(|zone| zone.name.clone()).collect();
        let configured = |zone: PendingZone| {
            let ResolvedKeys { pattern, policy, .. } = &resolved[zone.shared as usize];
            let source = ZoneSource { pattern: zone.pattern.or_else(|| pattern.clone()), policy: policy.clone() };
            ZoneConfig { name: zone.name, source }
        };
        let zones = pending.into_iter().map(configured).collect();
        Ok(Config {
            server: self.server,
            keys: self.keys,
            zones,
            templates,
            catalogs,
            files: self.files,
            warnings: findings,
            ..Config::default()
        })
    }

    fn resolve(
        &self,
        shared: &SharedKeys,
        defaults: &ZoneKeys,
        policies: &mut HashSet<Arc<ZonePolicy>>,
    ) -> ResolvedKeys {
        let named = shared.keys.template.as_ref().map(|BoundedText(name)| name.as_str());
        let template = self.templates.get(named.unwrap_or(DEFAULT_TEMPLATE));
        let mut keys = shared.keys.clone();
        if let Some(template) = template {
            keys.inherit(&inheritable(&shared.keys, &template.keys));
        }
        keys.inherit(defaults);
        ResolvedKeys {
            pattern: keys.file.as_ref().map(|FilePath(file)| template_pattern(file)),
            policy: share(policies, ZonePolicy::new(keys, shared.config_folder.as_deref())),
            unknown_template: named.filter(|_| template.is_none()).map(str::to_owned),
        }
    }

    /// Reports zones that are named twice or incomplete. Findings that are not listed are not made, as there may be very many.
    fn check_zones(&mut self, zones: &[PendingZone], resolved: &[ResolvedKeys]) {
        let ConfigReader { findings, files, templates, .. } = self;
        let position =
            |zone: &PendingZone| FilePosition { file: files[zone.file as usize].clone(), line: zone.line, column: 1 };
        for pair in zones.windows(2).filter(|pair| pair[0].name == pair[1].name) {
            findings.add_with(Severity::Error, || {
                let help = format!("it was first named at {}; remove one of them", position(&pair[0]));
                error(position(&pair[1]), format!("zone {} is named twice", pair[1].name), help)
            });
        }
        for zone in zones {
            let ResolvedKeys { pattern, policy, unknown_template } = &resolved[zone.shared as usize];
            if let Some(name) = unknown_template {
                findings.add_with(Severity::Error, || {
                    let help = help_for_template(name, templates.keys().map(String::as_str));
                    error(position(zone), format!("there is no template {}", quoted(name)), help)
                });
            }
            if zone.pattern.is_none() && pattern.is_none() && policy.needs_file() {
                let help = "set `file` in the zone's table or in its template";
                findings.add_with(Severity::Error, || {
                    error(position(zone), format!("zone {} has no file", zone.name), help.into())
                });
            }
        }
        for (is_set, message, help) in UNUSED_SETTINGS {
            let mut affected = zones.iter().filter(|zone| is_set(&resolved[zone.shared as usize].policy));
            if let Some(first) = affected.next() {
                let message = format!("{message} ({} in all, the first is {})", affected.count() + 1, first.name);
                let (severity, position, help) = (Severity::Warning, position(first), help.into());
                findings.add_with(severity, || Finding { severity, position, message, help });
            }
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
