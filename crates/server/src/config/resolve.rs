//! Combines zones with their templates: [`ConfigReader::finish`] returns the configuration, or every mistake.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use zone::{FilePosition, Finding};

use super::Config;
use super::key_spec::KeyTable;
use super::keys::ZoneKeys;
use super::reader::{ConfigReader, PendingZone, SharedKeys, Template};
use super::value::{BoundedText, CatalogRole, FilePath};
use super::zone_config::{ZoneConfig, ZonePolicy, ZoneSource, share};
use super::zone_path::template_pattern;

/// The template of zones that name none.
pub const DEFAULT_TEMPLATE: &str = "default";

/// The zones that a template describes, with its values and the defaults.
pub type Templates = BTreeMap<String, Arc<ZoneSource>>;

/// [`SharedKeys`] with those of the template and the defaults.
pub(super) struct ResolvedKeys {
    /// The pattern of the template's zone file.
    pub(super) pattern: Option<Arc<[u8]>>,
    pub(super) policy: Arc<ZonePolicy>,
    /// The template's name, if there is no such template.
    pub(super) unknown_template: Option<String>,
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
        self.check_unused_settings(&pending, &resolved);
        self.check_policies(&pending, &resolved, &templates);
        self.check_update_rights(&pending, &resolved, &templates);
        self.check_catalogs(&pending, &resolved, &templates);
        self.check_text_files(&pending, &resolved);
        self.check_text_files_of_templates(&templates);
        self.check_key_names();
        self.check_tls();
        self.check_addresses();
        if self.server.listen.is_empty() {
            self.add_error(self.position_of("listen"), "`listen` is empty", "name an address, or remove the key");
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
            empty_sources: self.empty_sources,
            warnings: findings,
        })
    }

    /// Every template as the source of a zone that sets nothing else.
    fn resolve_templates(&self, mut resolve: impl FnMut(&SharedKeys) -> ResolvedKeys) -> Templates {
        let source = |(name, template): (&String, &Template)| {
            let keys = ZoneKeys { template: Some(BoundedText(name.clone())), ..ZoneKeys::default() };
            let shared = SharedKeys { keys, config_folder: Some(template.config_folder.clone()) };
            (name.clone(), Arc::new(resolve(&shared).into_source()))
        };
        self.templates.iter().map(source).collect()
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
}

/// The keys of `template` that a zone with these keys takes: a catalog needs no file of a template for ordinary zones, and
/// is listed in a catalog only if it says so itself.
fn inheritable(zone: &ZoneKeys, template: &ZoneKeys) -> ZoneKeys {
    let mut template = template.clone();
    let role = zone.catalog.or(template.catalog);
    if role.is_some() {
        (template.catalog_member, template.catalog_group) = (None, None);
    }
    if role == Some(CatalogRole::Produce) {
        (template.file, template.primaries) = (None, None);
    }
    template
}
