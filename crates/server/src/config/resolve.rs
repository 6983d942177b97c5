//! The end of reading: pending zones and templates become [`ZoneConfig`]s, or mistakes.

use std::path::Path;

use zone::{FilePosition, Finding, Severity};

use super::Config;
use super::read::{PendingZone, Reader, Template, diagnostic, folder_of};
use super::suggest::nearest;
use super::value::Text;
use super::zones::{ZoneConfig, ZonePolicy, ZoneSource};

/// The template of zones that name none.
const DEFAULT_TEMPLATE: &str = "default";

impl Reader {
    /// The configuration, unless there were mistakes.
    pub fn finish(mut self) -> Result<Config, Vec<Finding>> {
        let zones = self.resolve();
        if self.server.listen.is_empty() {
            let place = self.set.get(&("server", "listen")).cloned().unwrap_or_default();
            self.error(place, "`listen` is empty".into(), "name an address, or leave the key out");
        }
        if !self.has_errors {
            let (files, warnings) = (self.files, self.problems);
            return Ok(Config { server: self.server, zones, files, warnings, ..Config::default() });
        }
        let number =
            |place: &FilePosition| self.files.iter().position(|file| *file == place.file).unwrap_or(usize::MAX);
        self.problems
            .sort_by_key(|problem| (number(&problem.position), problem.position.line, problem.position.column));
        if self.more_problems > 0 {
            let message = format!("{} more mistakes are not shown", self.more_problems);
            self.problems.push(diagnostic(Severity::Error, FilePosition::default(), message, ""));
        }
        Err(self.problems)
    }

    fn resolve(&mut self) -> Vec<ZoneConfig> {
        let mut pending = std::mem::take(&mut self.zones);
        pending.sort_by(|a, b| a.name.wire().cmp(b.name.wire()));
        self.find_doubles(&pending);
        let mut notices = Notices::default();
        let mut zones = Vec::with_capacity(pending.len());
        for zone in pending {
            let place = self.place(&zone);
            let zone = self.resolve_zone(zone, &place);
            notices.look_at(&zone, &place);
            zones.push(zone);
        }
        notices.tell(self);
        zones
    }

    fn resolve_zone(&mut self, zone: PendingZone, place: &FilePosition) -> ZoneConfig {
        let keys = &self.kept[zone.kept as usize];
        let named = keys.template.as_ref().map(|Text(name)| name.as_str());
        let template = self.templates.get(named.unwrap_or(DEFAULT_TEMPLATE));
        let unknown = named.filter(|_| template.is_none()).map(str::to_owned);
        // A zone of the command line has no line.
        let config = (zone.line > 0).then(|| Path::new(&*self.files[zone.source as usize]));
        let config_folder = config.map(|file| folder_of(file).to_owned());
        let policy = ZonePolicy::of(keys, template.map(|template| &template.keys), config_folder);
        let file = |template: &Template| Some(template.folder.join(template.keys.file.as_ref()?));
        let inherited = if zone.pattern.is_none() { template.and_then(file) } else { None };
        let inherited = inherited.map(|file| self.interner.pattern(&file, zone.name.as_ref()));
        let policy = self.interner.policy(policy);
        if let Some(name) = unknown {
            self.unknown_template(&name, place);
        }
        let source = ZoneSource { pattern: zone.pattern.or(inherited), policy };
        if !source.has_file() && source.policy.primaries.is_empty() {
            let help = "add file = \"PATH\", here or in its template";
            self.error(place.clone(), format!("zone {} has no file", zone.name), help);
        }
        ZoneConfig { name: zone.name, source }
    }

    fn unknown_template(&mut self, name: &str, place: &FilePosition) {
        let help = match nearest(name, self.templates.keys().map(String::as_str)) {
            Some(known) => format!("did you mean `{known}`?"),
            None => format!("write [template.{name}], or leave `template` out"),
        };
        self.error(place.clone(), format!("there is no template `{name}`"), &help);
    }

    fn find_doubles(&mut self, zones: &[PendingZone]) {
        for pair in zones.windows(2).filter(|pair| pair[0].name == pair[1].name) {
            let help = format!("it was first named at {}; take one of them out", self.place(&pair[0]));
            self.error(self.place(&pair[1]), format!("zone {} is named twice", pair[1].name), &help);
        }
    }

    fn place(&self, zone: &PendingZone) -> FilePosition {
        FilePosition { file: self.files[zone.source as usize].clone(), line: zone.line, column: 1 }
    }
}

/// What is accepted and not yet done: of each kind the first zone, and how many there are.
#[derive(Default)]
struct Notices {
    primaries: Option<(FilePosition, String, usize)>,
    notify: Option<(FilePosition, String, usize)>,
}

impl Notices {
    fn look_at(&mut self, zone: &ZoneConfig, place: &FilePosition) {
        for (is_so, notice) in [
            (!zone.source.policy.primaries.is_empty(), &mut self.primaries),
            (!zone.source.policy.notify.is_empty(), &mut self.notify),
        ] {
            if is_so {
                notice.get_or_insert_with(|| (place.clone(), zone.name.to_string(), 0)).2 += 1;
            }
        }
    }

    fn tell(self, reader: &mut Reader) {
        for (notice, message, help) in [
            (
                self.primaries,
                "zones with `primaries` are not transferred in yet",
                "they are served from their `file` as it stands, or answered with SERVFAIL if they have none",
            ),
            (self.notify, "NOTIFY is not sent yet: `notify` does nothing", ""),
        ] {
            if let Some((place, first, count)) = notice {
                let message = format!("{message} ({count} in all, the first is {first})");
                reader.problem(diagnostic(Severity::Warning, place, message, help));
            }
        }
    }
}
