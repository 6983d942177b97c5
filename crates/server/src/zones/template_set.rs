//! The templates of the configuration, for zones that are added while the daemon runs.

use std::collections::HashMap;
use std::sync::Arc;

use answer::ZoneExtras;
use wire::Name;

use super::zone_entry::Acls;
use crate::config::catalog_checks::member_template_problem;
use crate::config::{Templates, ZoneSource};

/// The settings of a zone that has no keys of its own; all zones of a template share them.
#[derive(Clone)]
pub struct TemplateSource {
    /// Its file and policy.
    pub source: Arc<ZoneSource>,
    /// Its access lists.
    pub extras: Arc<ZoneExtras>,
}

/// The templates by name.
#[derive(Default)]
pub struct TemplateSet(HashMap<String, TemplateSource>);

impl TemplateSet {
    /// Takes the templates of a new configuration. Those that did not change stay the same objects.
    pub fn update(&mut self, templates: &Templates) {
        let (mut acls, old) = (Acls::default(), std::mem::take(&mut self.0));
        let entry = |(name, source): (&String, &Arc<ZoneSource>)| {
            let unchanged = old.get(name).filter(|old| old.source == *source).cloned();
            let template =
                unchanged.unwrap_or_else(|| TemplateSource { source: source.clone(), extras: acls.of(&source.policy) });
            (name.clone(), template)
        };
        self.0 = templates.iter().map(entry).collect();
    }

    /// Whether a template says that its zones are listed in this catalog.
    pub fn any_is_listed_in(&self, catalog: &Name) -> bool {
        self.0.values().any(|template| template.source.policy.catalog_member.as_ref() == Some(catalog))
    }

    /// The template for a zone that is not configured; why it cannot be used otherwise.
    pub fn usable(&self, name: &str) -> Result<&TemplateSource, String> {
        let template = self.0.get(name).ok_or_else(|| format!("there is no template {name}: add [template.{name}]"))?;
        match member_template_problem(&template.source) {
            Some(problem) => Err(format!("the template {name} {problem}")),
            None => Ok(template),
        }
    }
}
