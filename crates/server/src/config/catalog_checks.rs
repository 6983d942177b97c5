//! Checks of catalog zones (RFC 9432): the templates of their members, and which zones a catalog of this server lists.

use std::collections::HashSet;

use wire::{Name, NameRef};
use zone::Severity;
use zone::catalog::MAX_PRODUCED_NAME_LEN;

use super::reader::{ConfigReader, PendingZone};
use super::resolve::{DEFAULT_TEMPLATE, ResolvedKeys, Templates};
use super::value::CatalogRole;
use super::zone_checks::error;
use super::zone_config::{ZonePolicy, ZoneSource};
use crate::printable::quoted;

impl ConfigReader {
    /// Reports catalogs whose members could not be served or listed. `zones` are ordered by name.
    pub(super) fn check_catalogs(&mut self, zones: &[PendingZone], resolved: &[ResolvedKeys], templates: &Templates) {
        let policy = |zone: &PendingZone| resolved[zone.shared as usize].policy.clone();
        let is_produced = |zone: &&PendingZone| policy(zone).catalog == Some(CatalogRole::Produce);
        let produced: HashSet<Name> = zones.iter().filter(is_produced).map(|zone| zone.name.clone()).collect();
        let mut found = Vec::new();
        for zone in zones {
            let policy = policy(zone);
            let has_file = zone.pattern.is_some() || resolved[zone.shared as usize].has_file();
            let mistake = match policy.catalog {
                Some(CatalogRole::Consume) => consumed_mistake(&policy, templates),
                Some(CatalogRole::Produce) => produced_mistake(zone.name.as_ref(), &policy, has_file),
                None => None,
            };
            if let Some((message, help)) = mistake.or_else(|| member_mistake(&zone.name, &policy, &produced)) {
                let position = zone.position(&self.files);
                found.push((position, format!("zone {}: {message}", zone.name), help));
            }
        }
        for (name, source) in templates {
            if let Some((message, help)) = member_mistake(&Name::root(), &source.policy, &produced) {
                let position = self.template_position(name);
                found.push((position, format!("template {name}: {message}"), help));
            }
        }
        for (position, message, help) in found {
            self.findings.add_with(Severity::Error, || error(position, message, help));
        }
    }
}

type Mistake = Option<(String, String)>;

/// What is wrong with a consumed catalog.
fn consumed_mistake(policy: &ZonePolicy, templates: &Templates) -> Mistake {
    let named = policy.catalog_templates.0.values();
    if named.len() == 0 && !templates.contains_key(DEFAULT_TEMPLATE) {
        let help = "add [template.default] with `primaries` or `file`, or set `catalog-templates`";
        return Some(("the members of this catalog have no template".into(), help.into()));
    }
    // Members of other groups take the default template, which may be meant for zones of another kind.
    let default = Some(DEFAULT_TEMPLATE.to_owned()).filter(|_| named.len() == 0);
    named.chain(default.iter()).find_map(|name| {
        let problem = member_template_problem(templates.get(name)?)?;
        let help = "set `primaries`, or a `file` with {name} in it, in the template";
        Some((format!("the template {} of its members {problem}", quoted(name)), help.into()))
    })
}

/// Why zones without keys of their own cannot be served from this template.
pub fn member_template_problem(source: &ZoneSource) -> Option<&'static str> {
    match source.policy.primaries.is_empty() {
        _ if source.policy.catalog.is_some() => Some("sets `catalog`"),
        true if !source.has_file() => Some("has neither `primaries` nor `file`"),
        true if !source.has_file_per_zone() => Some("has the same `file` for all zones"),
        _ => None,
    }
}

/// What is wrong with a catalog of this server.
fn produced_mistake(name: NameRef<'_>, policy: &ZonePolicy, has_file: bool) -> Mistake {
    if has_file || !policy.primaries.is_empty() {
        let message = "a catalog with catalog = \"produce\" is made by this server".into();
        return Some((message, "remove `file` and `primaries`, or set catalog = \"consume\"".into()));
    }
    (name.wire().len() > MAX_PRODUCED_NAME_LEN)
        .then(|| ("the name is too long for a catalog".into(), "choose a shorter name".into()))
}

/// What is wrong with the catalog that is to list a zone.
fn member_mistake(name: &Name, policy: &ZonePolicy, produced: &HashSet<Name>) -> Mistake {
    match &policy.catalog_member {
        Some(catalog) if catalog == name => {
            Some(("a catalog does not list itself".into(), "remove `catalog-member`".into()))
        }
        Some(catalog) if !produced.contains(catalog) => {
            let message = format!("`catalog-member`: {catalog} is not a catalog of this server");
            Some((message, format!("add [[zone]] with name = \"{catalog}\" and catalog = \"produce\"")))
        }
        None if policy.catalog_group.is_some() => {
            Some(("`catalog-group` is set without `catalog-member`".into(), "set both, or none".into()))
        }
        _ => None,
    }
}
