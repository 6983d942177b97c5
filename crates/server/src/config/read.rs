//! Walks configuration files with the table of keys and collects what they say and what is wrong with them.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use zone::{Diagnostic, Place, Severity};

use super::Config;
use super::blocks::{Block, blocks};
use super::include::matches;
use super::keys::{Server, Top, Zone};
use super::section::{Key, Section};
use super::suggest::nearest;
use super::value::Text;
use super::zones::{Interner, ZoneConfig, ZonePolicy};

/// More mistakes than this are not shown: the first few explain the rest.
const MAX_PROBLEMS: usize = 100;

/// The template of zones that name none.
const DEFAULT_TEMPLATE: &str = "default";

/// What stands for a file where the command line names a zone.
const COMMAND_LINE: &str = "command line";

/// What has been read so far.
#[derive(Default)]
pub struct Reader {
    /// `[server]`, as far as it was read.
    pub server: Server,
    top: Top,
    /// Where each key of `[server]` and of the top was set.
    set: HashMap<(&'static str, &'static str), Place>,
    templates: BTreeMap<String, Template>,
    zones: Vec<PendingZone>,
    /// The keys of pending zones but name and file, equal ones mostly once; pending zones have their number.
    kept: Vec<Zone>,
    files: Vec<Arc<str>>,
    problems: Vec<Diagnostic>,
    more_problems: usize,
    has_errors: bool,
}

struct Template {
    keys: Zone,
    folder: PathBuf,
    place: Place,
}

/// A zone whose template may still be to come.
struct PendingZone {
    name: wire::Name,
    kept: u32,
    file: Option<Box<str>>,
    source: u32,
    line: u32,
}

/// The block being read: where its mistakes are.
struct Context<'b> {
    file: Arc<str>,
    source: u32,
    folder: &'b Path,
    block: Block<'b>,
    is_included: bool,
}

impl Reader {
    /// Reads a file and those it includes.
    pub fn file(&mut self, path: &Path) {
        self.one_file(path, false);
        let folder = folder_of(path);
        for pattern in std::mem::take(&mut self.top.include) {
            let place = self.set.get(&("", "include")).cloned().unwrap_or_default();
            match matches(&folder.join(&pattern)) {
                Ok(paths) => paths.iter().for_each(|path| self.one_file(path, true)),
                Err(error) => {
                    let message = format!("the included `{}` cannot be read: {error}", pattern.display());
                    self.error(place, message, "mend the path, or take it out of `include`");
                }
            }
        }
    }

    /// Takes a zone from the command line.
    pub fn zone_argument(&mut self, name: wire::Name, file: &Path) {
        if self.files.last().is_none_or(|last| &**last != COMMAND_LINE) {
            self.files.push(COMMAND_LINE.into());
        }
        let kept = self.keep(Zone::default());
        let file = Some(file.display().to_string().into());
        self.zones.push(PendingZone { name, kept, file, source: self.files.len() as u32 - 1, line: 0 });
    }

    /// Takes a finding from elsewhere.
    pub fn problem(&mut self, problem: Diagnostic) {
        self.has_errors |= problem.severity == Severity::Error;
        match self.problems.len() < MAX_PROBLEMS {
            true => self.problems.push(problem),
            false => self.more_problems += 1,
        }
    }

    fn one_file(&mut self, path: &Path, is_included: bool) {
        let file: Arc<str> = path.display().to_string().into();
        let source = self.files.len() as u32;
        self.files.push(file.clone());
        let text = match std::fs::read(path).map(String::from_utf8) {
            Ok(Ok(text)) => text,
            Ok(Err(error)) => {
                let octets = error.utf8_error().valid_up_to();
                let message = format!("octet {octets} is not UTF-8");
                return self.error(Place { file, line: 0, column: 0 }, message, "save the file as UTF-8");
            }
            Err(error) => {
                let message = format!("the configuration cannot be read: {error}");
                return self.error(Place { file, line: 0, column: 0 }, message, help_to_read(&error));
            }
        };
        for block in blocks(&text) {
            self.block(&Context { file: file.clone(), source, folder: folder_of(path), block, is_included });
        }
    }

    fn block(&mut self, context: &Context<'_>) {
        let (table, errors) = DeTable::parse_recoverable(context.block.text);
        for error in &errors {
            self.refuse(context, error.span().unwrap_or_default(), error.message().to_owned(), "");
        }
        for (key, value) in table.get_ref() {
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("server", DeValue::Table(server)) => self.server(context, server),
                ("zone", DeValue::Array(zones)) => zones.iter().for_each(|zone| self.zone(context, zone)),
                ("template", DeValue::Table(templates)) => self.templates(context, templates),
                ("server", _) => self.refuse(context, key.span(), "`server` is one table".into(), "write [server]"),
                ("zone", _) => self.refuse(context, key.span(), "`zone` is a list of tables".into(), "write [[zone]]"),
                ("template", _) => {
                    self.refuse(context, key.span(), "`template` holds tables by name".into(), "write [template.NAME]");
                }
                (name, DeValue::Table(_) | DeValue::Array(_)) if Top::KEYS.iter().all(|key| key.name != name) => {
                    self.refuse(
                        context,
                        key.span(),
                        format!("there is no section `{name}`"),
                        &unknown_section_help(name),
                    );
                }
                (name, _) => self.top_key(context, name, key.span(), value),
            }
        }
    }

    fn top_key(&mut self, context: &Context<'_>, name: &str, span: Range<usize>, value: &Spanned<DeValue<'_>>) {
        let is_include = name == "include";
        if is_include && context.is_included {
            let message = "an included file cannot include others".to_owned();
            return self.refuse(context, span, message, "name the files in the first file's `include`");
        }
        let mut top = std::mem::take(&mut self.top);
        self.once(context, "", &mut top, name, span, value);
        self.top = top;
    }

    fn server(&mut self, context: &Context<'_>, table: &DeTable<'_>) {
        let mut server = std::mem::take(&mut self.server);
        for (key, value) in table {
            self.once(context, "server", &mut server, key.get_ref(), key.span(), value);
        }
        if let Some(folder) = &mut server.state_dir {
            *folder = context.folder.join(&folder);
        }
        self.server = server;
    }

    /// Takes a key that may stand once in all files.
    fn once<S: Section>(
        &mut self,
        context: &Context<'_>,
        section: &'static str,
        into: &mut S,
        name: &str,
        span: Range<usize>,
        value: &Spanned<DeValue<'_>>,
    ) {
        let Some(key) = self.key(context, into, name, span.clone(), value) else { return };
        if let Some(first) = self.set.insert((section, key.name), context.place(span.start)) {
            self.refuse(context, span, format!("`{}` is set twice", key.name), &format!("it was first set at {first}"));
        }
    }

    /// Takes a key of a section; `None` and a message if that has no such key.
    fn key<S: Section>(
        &mut self,
        context: &Context<'_>,
        into: &mut S,
        name: &str,
        span: Range<usize>,
        value: &Spanned<DeValue<'_>>,
    ) -> Option<&'static Key> {
        let Some(index) = S::KEYS.iter().position(|key| key.name == name) else {
            self.refuse(context, span, format!("there is no key `{name}` here"), &unknown_key_help::<S>(name));
            return None;
        };
        for refusal in into.set(index, value).err().unwrap_or_default() {
            self.refuse(context, refusal.span, format!("`{name}`: {}", refusal.message), &refusal.help);
        }
        Some(&S::KEYS[index])
    }

    fn templates(&mut self, context: &Context<'_>, templates: &DeTable<'_>) {
        for (name, value) in templates {
            let DeValue::Table(table) = value.get_ref() else {
                let message = "`template` holds tables by name".to_owned();
                self.refuse(context, name.span(), message, "write [template.NAME]");
                continue;
            };
            let mut keys = Zone::default();
            for (key, value) in table {
                match key.get_ref().as_ref() {
                    own @ ("name" | "template") => {
                        self.refuse(
                            context,
                            key.span(),
                            format!("a template has no `{own}`"),
                            "it belongs in [[zone]]",
                        );
                    }
                    other => _ = self.key(context, &mut keys, other, key.span(), value),
                }
            }
            let place = context.place(name.span().start);
            let template = Template { keys, folder: context.folder.to_owned(), place };
            if let Some(first) = self.templates.insert(name.get_ref().to_string(), template) {
                let message = format!("there are two templates `{}`", name.get_ref());
                self.refuse(context, name.span(), message, &format!("the first is at {}", first.place));
            }
        }
    }

    fn zone(&mut self, context: &Context<'_>, zone: &Spanned<DeValue<'_>>) {
        let DeValue::Table(table) = zone.get_ref() else {
            return self.refuse(context, zone.span(), "`zone` is a list of tables".into(), "write [[zone]]");
        };
        let mut keys = Zone::default();
        let mut is_named = false;
        for (key, value) in table {
            is_named |= key.get_ref() == "name";
            self.key(context, &mut keys, key.get_ref(), key.span(), value);
        }
        let (line, _) = context.block.position(zone.span().start);
        let Some(name) = keys.name.take() else {
            if !is_named {
                self.refuse(context, zone.span(), "this zone has no name".into(), "add name = \"example.com\"");
            }
            return;
        };
        let file = keys.file.take().map(|file| context.folder.join(file).display().to_string().into());
        let kept = self.keep(keys);
        self.zones.push(PendingZone { name, kept, file, source: context.source, line });
    }

    /// The number of these keys among those kept. Neighbours are mostly alike, so only the last are searched.
    fn keep(&mut self, keys: Zone) -> u32 {
        const NEIGHBOURS: usize = 16;
        let from = self.kept.len().saturating_sub(NEIGHBOURS);
        match self.kept[from..].iter().position(|kept| *kept == keys) {
            Some(at) => (from + at) as u32,
            None => {
                self.kept.push(keys);
                (self.kept.len() - 1) as u32
            }
        }
    }

    //----------- the end ------------------------------------------------------

    /// The configuration, unless there were mistakes.
    pub fn finish(mut self) -> Result<Config, Vec<Diagnostic>> {
        let mut zones = self.resolved_zones();
        zones.sort_by(|a, b| a.name.wire().cmp(b.name.wire()));
        self.find_doubles(&zones);
        self.find_fileless(&zones);
        let warnings = self.warnings(&zones);
        self.problems.extend(warnings);
        let files = &self.files;
        let file_number = |place: &Place| files.iter().position(|file| *file == place.file);
        self.problems.sort_by_key(|problem| {
            (file_number(&problem.place).unwrap_or(usize::MAX), problem.place.line, problem.place.column)
        });
        if !self.has_errors {
            return Ok(Config { server: self.server, zones, files: self.files, warnings: self.problems });
        }
        if self.more_problems > 0 {
            let message = format!("{} more mistakes are not shown", self.more_problems);
            self.problems.push(diagnostic(Severity::Error, Place::default(), message, ""));
        }
        Err(self.problems)
    }

    fn resolved_zones(&mut self) -> Vec<ZoneConfig> {
        let mut interner = Interner::default();
        let (pending, kept) = (std::mem::take(&mut self.zones), std::mem::take(&mut self.kept));
        let templates: Vec<Option<String>> = kept.iter().map(|keys| self.template_of(keys)).collect();
        let mut unknown = Vec::new();
        let mut zones = Vec::with_capacity(pending.len());
        for zone in pending {
            let keys = &kept[zone.kept as usize];
            let template = templates[zone.kept as usize].as_ref().and_then(|name| self.templates.get(name));
            if template.is_none()
                && let Some(Text(name)) = &keys.template
            {
                unknown.push((zone.source, zone.line, name.clone()));
            }
            let inherited = || template.and_then(|template| Some(template.folder.join(template.keys.file.as_ref()?)));
            let file = zone.file.map(String::from).or_else(|| Some(inherited()?.display().to_string()));
            let policy = ZonePolicy::of(keys, template.map(|template| &template.keys));
            zones.push(interner.zone(zone.name, file.as_deref(), policy, zone.source, zone.line));
        }
        for (source, line, name) in unknown {
            let help = match nearest(&name, self.templates.keys().map(String::as_str)) {
                Some(known) => format!("did you mean `{known}`?"),
                None => format!("write [template.{name}], or leave `template` out"),
            };
            self.error(self.place(source, line), format!("there is no template `{name}`"), &help);
        }
        zones
    }

    fn template_of(&self, keys: &Zone) -> Option<String> {
        let named = keys.template.as_ref().map(|Text(name)| name.as_str());
        Some(named.unwrap_or(DEFAULT_TEMPLATE).to_owned())
    }

    fn find_doubles(&mut self, zones: &[ZoneConfig]) {
        for pair in zones.windows(2).filter(|pair| pair[0].name == pair[1].name) {
            let message = format!("zone {} is named twice", pair[1].name);
            let help =
                format!("it was first named at {}; take one of them out", self.place(pair[0].source, pair[0].line));
            self.error(self.place(pair[1].source, pair[1].line), message, &help);
        }
    }

    fn find_fileless(&mut self, zones: &[ZoneConfig]) {
        for zone in zones.iter().filter(|zone| !zone.has_file() && zone.policy.primaries.is_empty()) {
            let help = "add file = \"PATH\", here or in its template";
            self.error(self.place(zone.source, zone.line), format!("zone {} has no file", zone.name), help);
        }
    }

    /// What is accepted and not yet done. One of a kind speaks for the others.
    fn warnings(&self, zones: &[ZoneConfig]) -> Vec<Diagnostic> {
        let mut warnings = Vec::new();
        let mut warn = |is_so: fn(&ZonePolicy) -> bool, message: &str, help: &str| {
            let mut with = zones.iter().filter(|zone| is_so(&zone.policy));
            if let Some(first) = with.next() {
                let message = format!("{message} ({} in all, the first is {})", 1 + with.count(), first.name);
                let place = self.place(first.source, first.line);
                warnings.push(diagnostic(Severity::Warning, place, message, help));
            }
        };
        warn(
            |policy| !policy.primaries.is_empty(),
            "zones with `primaries` are not transferred in yet",
            "they are served from their `file` as it stands, or answered with SERVFAIL if they have none",
        );
        warn(|policy| !policy.notify.is_empty(), "NOTIFY is not sent yet: `notify` does nothing", "");
        warnings
    }

    //----------- mistakes -----------------------------------------------------

    fn place(&self, source: u32, line: u32) -> Place {
        Place { file: self.files[source as usize].clone(), line, column: 1 }
    }

    fn refuse(&mut self, context: &Context<'_>, span: Range<usize>, message: String, help: &str) {
        self.error(context.place(span.start), message, help);
    }

    fn error(&mut self, place: Place, message: String, help: &str) {
        self.problem(diagnostic(Severity::Error, place, message, help));
    }
}

impl Context<'_> {
    fn place(&self, offset: usize) -> Place {
        let (line, column) = self.block.position(offset);
        Place { file: self.file.clone(), line, column }
    }
}

fn diagnostic(severity: Severity, place: Place, message: String, help: &str) -> Diagnostic {
    Diagnostic { severity, place, message, help: help.to_owned() }
}

/// Where the key belongs, or which key was meant.
fn unknown_key_help<S: Section>(name: &str) -> String {
    if let Some(key) = nearest(name, S::KEYS.iter().map(|key| key.name)) {
        return format!("did you mean `{key}`?");
    }
    let sections = [
        ("before the first table", Top::KEYS),
        ("in [server]", Server::KEYS),
        ("in [[zone]] or [template.NAME]", Zone::KEYS),
    ];
    match sections.iter().find(|(_, keys)| keys.iter().any(|key| key.name == name)) {
        Some((place, _)) => format!("`{name}` belongs {place}"),
        None => "zonda.toml(5) lists the keys: `zonda man zonda.toml`".into(),
    }
}

fn unknown_section_help(name: &str) -> String {
    match nearest(name, ["server", "zone", "template"]) {
        Some(section) => format!("did you mean `{section}`?"),
        None => "there are [server], [[zone]] and [template.NAME]".into(),
    }
}

fn help_to_read(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::NotFound => "name an existing file with --config",
        std::io::ErrorKind::PermissionDenied => "let the user that runs zonda read it",
        _ => "",
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}
