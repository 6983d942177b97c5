//! Walks configuration files with the table of keys and collects what they say and what is wrong with them.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use wire::Name;
use zone::{FilePosition, Finding, Severity};

use super::blocks::{Block, blocks};
use super::include::matches;
use super::keys::{Server, Top, Zone};
use super::section::{Key, Section};
use super::suggest::nearest;
use super::zones::Interner;
use crate::input;
use crate::printable::path_text;

/// More mistakes than this are not shown: the first few explain the rest.
const MAX_PROBLEMS: usize = 100;

/// What stands for a file where the command line names a zone.
const COMMAND_LINE: &str = "command line";

/// What has been read so far.
#[derive(Default)]
pub struct Reader {
    /// `[server]`, as far as it was read.
    pub server: Server,
    top: Top,
    /// Where each key of `[server]` and of the top was set.
    pub(super) set: HashMap<(&'static str, &'static str), FilePosition>,
    pub(super) templates: BTreeMap<String, Template>,
    pub(super) zones: Vec<PendingZone>,
    /// The keys of pending zones but name and file, equal ones mostly once; pending zones have their number.
    pub(super) kept: Vec<Zone>,
    pub(super) interner: Interner,
    pub(super) files: Vec<Arc<str>>,
    pub(super) problems: Vec<Finding>,
    pub(super) more_problems: usize,
    pub(super) has_errors: bool,
}

/// What stands in `[template.NAME]`.
pub(super) struct Template {
    pub(super) keys: Zone,
    pub(super) folder: PathBuf,
    place: FilePosition,
}

/// A zone whose template may still be to come.
pub(super) struct PendingZone {
    pub(super) name: Name,
    /// The path of its file as a pattern, if it has one of its own.
    pub(super) pattern: Option<Arc<[u8]>>,
    /// Which of [`Reader::kept`] are its keys.
    pub(super) kept: u32,
    /// Which of [`Reader::files`] names it, and in which line.
    pub(super) source: u32,
    pub(super) line: u32,
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
                    let message = format!("the included `{}` cannot be read: {error}", path_text(&pattern));
                    self.error(place, message, "correct the path, or take it out of `include`");
                }
            }
        }
    }

    /// Takes a zone from the command line.
    pub fn zone_argument(&mut self, name: Name, file: &Path) {
        if self.files.last().is_none_or(|last| &**last != COMMAND_LINE) {
            self.files.push(COMMAND_LINE.into());
        }
        let kept = self.keep(Zone::default());
        let pattern = Some(self.interner.pattern(file, name.as_ref()));
        self.zones.push(PendingZone { name, pattern, kept, source: self.files.len() as u32 - 1, line: 0 });
    }

    /// Takes a finding from elsewhere.
    pub fn problem(&mut self, problem: Finding) {
        self.has_errors |= problem.severity == Severity::Error;
        match self.problems.len() < MAX_PROBLEMS {
            true => self.problems.push(problem),
            false => self.more_problems += 1,
        }
    }

    fn one_file(&mut self, path: &Path, is_included: bool) {
        let file: Arc<str> = path_text(path).into();
        let source = self.files.len() as u32;
        self.files.push(file.clone());
        let text = match input::read(path).map(String::from_utf8) {
            Ok(Ok(text)) => text,
            Ok(Err(error)) => {
                let octets = error.utf8_error().valid_up_to();
                let message = format!("octet {octets} is not UTF-8");
                return self.error(FilePosition { file, line: 0, column: 0 }, message, "save the file as UTF-8");
            }
            Err(error) => {
                let message = format!("the configuration cannot be read: {error}");
                return self.error(FilePosition { file, line: 0, column: 0 }, message, help_to_read(&error));
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
        if let Some(folder) = server.state_dir.as_mut().filter(|_| table.contains_key("state-dir")) {
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
            keys.start_at(context.folder);
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
        keys.start_at(context.folder);
        let pattern = keys.file.take().map(|file| self.interner.pattern(&context.folder.join(file), name.as_ref()));
        let kept = self.keep(keys);
        self.zones.push(PendingZone { name, pattern, kept, source: context.source, line });
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

    //----------- mistakes -----------------------------------------------------

    fn refuse(&mut self, context: &Context<'_>, span: Range<usize>, message: String, help: &str) {
        self.error(context.place(span.start), message, help);
    }

    pub(super) fn error(&mut self, position: FilePosition, message: String, help: &str) {
        self.problem(diagnostic(Severity::Error, position, message, help));
    }
}

impl Zone {
    /// Lets relative paths start at the folder of the file they are in.
    fn start_at(&mut self, folder: &Path) {
        self.include_paths.iter_mut().flatten().for_each(|path| *path = folder.join(&*path));
    }
}

impl Context<'_> {
    fn place(&self, offset: usize) -> FilePosition {
        let (line, column) = self.block.position(offset);
        FilePosition { file: self.file.clone(), line, column }
    }
}

pub(super) fn diagnostic(severity: Severity, position: FilePosition, message: String, help: &str) -> Finding {
    Finding { severity, position, message, help: help.to_owned() }
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

pub(super) fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}
