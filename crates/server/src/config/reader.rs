//! Reads configuration files table by table, and collects their values and every mistake in them.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};
use wire::Name;
use zone::{FilePosition, Finding, Findings, Severity};

use super::blocks::{Block, blocks};
use super::file_patterns::matching_files;
use super::key_table::{KeySpec, KeyTable, ValueError};
use super::keys::{Server, TopLevelKeys, ZoneKeys};
use super::suggest::nearest;
use super::value::{DomainName, FilePath};
use super::zone_path::PatternCache;
use crate::input;
use crate::printable::path_text;

/// The file of zones that the command line names, in messages.
const COMMAND_LINE: &str = "command line";

/// The tables that a configuration can have, and their headers.
const SECTIONS: [(&str, &str); 3] = [("server", "[server]"), ("zone", "[[zone]]"), ("template", "[template.NAME]")];

/// All that was read so far.
#[derive(Default)]
pub struct ConfigReader {
    /// `[server]`.
    pub server: Server,
    /// Where each key of `[server]` was set.
    pub(super) server_keys: HashMap<&'static str, FilePosition>,
    pub(super) templates: BTreeMap<String, Template>,
    pub(super) zones: Vec<PendingZone>,
    /// See [`PendingZone::shared`].
    pub(super) shared: Vec<SharedKeys>,
    pub(super) patterns: PatternCache,
    /// Every file that was read, in this order.
    pub(super) files: Vec<Arc<str>>,
    pub(super) findings: Findings,
}

/// `[template.NAME]`.
pub(super) struct Template {
    pub(super) keys: ZoneKeys,
    position: FilePosition,
}

/// A zone whose template may not have been read yet.
pub(super) struct PendingZone {
    pub(super) name: Name,
    /// The pattern of its file, if the zone has a file of its own.
    pub(super) pattern: Option<Arc<[u8]>>,
    /// The index of its other keys in [`ConfigReader::shared`]: most zones have the same ones as their neighbours.
    pub(super) shared: u32,
    /// The index in [`ConfigReader::files`] of the file that names it, and the line; 0 on the command line.
    pub(super) file: u32,
    pub(super) line: u32,
}

/// Keys that zones can have in common.
#[derive(Debug, Default, PartialEq)]
pub(super) struct SharedKeys {
    /// All but `name` and `file`.
    pub(super) keys: ZoneKeys,
    /// The folder of the configuration file; none for zones of the command line.
    pub(super) config_folder: Option<Arc<Path>>,
}

/// The file being read.
struct SourceFile {
    name: Arc<str>,
    index: u32,
    folder: Arc<Path>,
    is_included: bool,
}

/// The table being read.
struct SourceBlock<'t> {
    file: &'t SourceFile,
    block: Block<'t>,
}

impl SourceBlock<'_> {
    fn position(&self, offset: usize) -> FilePosition {
        let (line, column) = self.block.position(offset);
        FilePosition { file: self.file.name.clone(), line, column }
    }
}

impl ConfigReader {
    /// Reads a configuration file and the files it includes.
    pub fn read_file(&mut self, path: &Path) {
        for included in self.read_toml(path, false) {
            self.read_toml(&included, true);
        }
    }

    /// Adds a zone of the command line.
    pub fn add_argument(&mut self, name: Name, file: &Path) {
        if self.files.last().is_none_or(|last| &**last != COMMAND_LINE) {
            self.files.push(COMMAND_LINE.into());
        }
        let pattern = Some(self.patterns.of_file(file, name.as_ref()));
        let (shared, file) = (self.share(SharedKeys::default()), self.files.len() as u32 - 1);
        self.zones.push(PendingZone { name, pattern, shared, file, line: 0 });
    }

    /// Adds a finding of the caller.
    pub fn add_finding(&mut self, finding: Finding) {
        self.findings.add_with(finding.severity, || finding);
    }

    pub(super) fn add_error(&mut self, position: FilePosition, message: impl Into<String>, help: impl Into<String>) {
        let (message, help) = (message.into(), help.into());
        self.add_finding(Finding { severity: Severity::Error, position, message, help });
    }

    /// Reads one TOML file and its zone lists; returns the files that it includes.
    fn read_toml(&mut self, path: &Path, is_included: bool) -> Vec<PathBuf> {
        let Some((name, text)) = self.open(path) else { return Vec::new() };
        let folder = path.parent().unwrap_or(Path::new("")).into();
        let file = SourceFile { name, index: self.files.len() as u32 - 1, folder, is_included };
        let mut top_level = TopLevelKeys::default();
        for block in blocks(&text) {
            self.read_block(&SourceBlock { file: &file, block }, &mut top_level);
        }
        // Top-level keys are in the first block, so their offsets count from the start of the file.
        let whole = SourceBlock { file: &file, block: Block { text: &text, line: 1 } };
        for list in self.matching_files(&whole, "zone-list", &top_level.zone_list) {
            self.read_zone_list(&list, &file.folder);
        }
        self.matching_files(&whole, "include", &top_level.include)
    }

    /// The name and the text of a file; an error if it cannot be read or is not UTF-8.
    pub(super) fn open(&mut self, path: &Path) -> Option<(Arc<str>, String)> {
        let file: Arc<str> = path_text(path).into();
        self.files.push(file.clone());
        match input::read(path).map(String::from_utf8) {
            Ok(Ok(text)) => return Some((file, text)),
            Ok(Err(error)) => {
                let valid = String::from_utf8_lossy(&error.as_bytes()[..error.utf8_error().valid_up_to()]);
                let (line, column) = Block { text: &valid, line: 1 }.position(valid.len());
                self.add_error(FilePosition { file, line, column }, "this is not UTF-8", "save the file as UTF-8");
            }
            Err(error) => {
                let help = match error.kind() {
                    io::ErrorKind::NotFound => "name an existing file",
                    io::ErrorKind::PermissionDenied => "let the user that runs zonda read it",
                    _ => "",
                };
                let position = FilePosition::of_file(&file);
                self.add_error(position, format!("the configuration cannot be read: {error}"), help);
            }
        }
        None
    }

    /// The files that match the entries of `key`.
    fn matching_files(&mut self, source: &SourceBlock<'_>, key: &str, entries: &[Spanned<FilePath>]) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for entry in entries {
            match matching_files(&source.file.folder.join(&entry.as_ref().0)) {
                Ok(found) => files.extend(found),
                Err(error) => {
                    let message = format!("`{}` cannot be read: {error}", entry.as_ref());
                    self.error(source, entry.span(), message, format!("correct the path, or remove it from `{key}`"));
                }
            }
        }
        files
    }

    fn read_block(&mut self, source: &SourceBlock<'_>, top_level: &mut TopLevelKeys) {
        let (table, errors) = DeTable::parse_recoverable(source.block.text);
        for error in &errors {
            self.error(source, error.span().unwrap_or_default(), error.message(), "");
        }
        for (key, value) in table.into_inner() {
            let value_span = value.span();
            match (key.get_ref().as_ref(), value.into_inner()) {
                ("server", DeValue::Table(server)) => self.read_server(source, server),
                ("zone", DeValue::Array(zones)) => zones.into_iter().for_each(|zone| self.read_zone(source, zone)),
                ("template", DeValue::Table(templates)) => {
                    templates.into_iter().for_each(|(name, keys)| self.read_template(source, name, keys));
                }
                (name, value) => match section_error(name, &value) {
                    Some((message, help)) => self.error(source, key.span(), message, help),
                    None if name == "include" && source.file.is_included => {
                        let help = "name the files in `include` of the main configuration file";
                        self.error(source, key.span(), "an included file cannot include others", help);
                    }
                    None => self.read_key(source, top_level, key, Spanned::new(value_span, value)),
                },
            }
        }
    }

    fn read_server(&mut self, source: &SourceBlock<'_>, table: DeTable<'_>) {
        let mut server = std::mem::take(&mut self.server);
        for (name, value) in table {
            if let Some(key) = find_key::<Server>(name.get_ref()) {
                let first = self.server_keys.insert(key.name, source.position(name.span().start));
                if let Some(first) = first {
                    let (message, help) =
                        (format!("`{}` is set twice", key.name), format!("it was first set at {first}"));
                    self.error(source, name.span(), message, help);
                }
            }
            let is_state_dir = name.get_ref() == "state-dir";
            self.read_key(source, &mut server, name, value);
            if let Some(FilePath(folder)) = server.state_dir.as_mut().filter(|_| is_state_dir) {
                *folder = source.file.folder.join(&*folder);
            }
        }
        self.server = server;
    }

    fn read_template(&mut self, source: &SourceBlock<'_>, name: Spanned<DeString<'_>>, value: Spanned<DeValue<'_>>) {
        let DeValue::Table(table) = value.into_inner() else {
            return self.error(source, name.span(), "a template is a table", "write [template.NAME]");
        };
        let mut keys = ZoneKeys::default();
        for (key, value) in table {
            match key.get_ref().as_ref() {
                own @ ("name" | "template") => {
                    let message = format!("a template cannot set `{own}`");
                    self.error(source, key.span(), message, "set it in [[zone]]");
                }
                _ => self.read_key(source, &mut keys, key, value),
            }
        }
        keys.resolve_paths(&source.file.folder);
        let template = Template { keys, position: source.position(name.span().start) };
        if let Some(first) = self.templates.insert(name.get_ref().to_string(), template) {
            let message = format!("there are two templates `{}`", name.get_ref());
            self.error(source, name.span(), message, format!("the first is at {}", first.position));
        }
    }

    fn read_zone(&mut self, source: &SourceBlock<'_>, zone: Spanned<DeValue<'_>>) {
        let span = zone.span();
        let DeValue::Table(table) = zone.into_inner() else {
            return self.error(source, span, "a zone is a table", "write [[zone]]");
        };
        let is_named = table.contains_key("name");
        let mut keys = ZoneKeys::default();
        table.into_iter().for_each(|(key, value)| self.read_key(source, &mut keys, key, value));
        let Some(DomainName(name)) = keys.name.take() else {
            if !is_named {
                self.error(source, span, "this zone has no name", "add name = \"example.com\"");
            }
            return;
        };
        keys.resolve_paths(&source.file.folder);
        let pattern = keys.file.take().map(|FilePath(file)| self.patterns.of_file(&file, name.as_ref()));
        let shared = self.share(SharedKeys { keys, config_folder: Some(source.file.folder.clone()) });
        let (line, _) = source.block.position(span.start);
        self.zones.push(PendingZone { name, pattern, shared, file: source.file.index, line });
    }

    /// Sets a key of `table`, or reports why not.
    fn read_key<T: KeyTable>(
        &mut self,
        source: &SourceBlock<'_>,
        table: &mut T,
        name: Spanned<DeString<'_>>,
        value: Spanned<DeValue<'_>>,
    ) {
        let (span, name) = (name.span(), name.get_ref());
        let Some(key) = find_key::<T>(name) else {
            return self.error(source, span, format!("there is no key `{name}` here"), unknown_key_help::<T>(name));
        };
        for ValueError { offset, message, help } in table.read(key, value) {
            self.error(source, offset..offset, format!("`{name}`: {message}"), help);
        }
    }

    /// The index of these keys in [`ConfigReader::shared`]. Only the last few are searched: neighbours are mostly alike.
    pub(super) fn share(&mut self, keys: SharedKeys) -> u32 {
        const NEIGHBOURS: usize = 16;
        let start = self.shared.len().saturating_sub(NEIGHBOURS);
        let index =
            self.shared[start..].iter().position(|shared| *shared == keys).map_or(self.shared.len(), |at| start + at);
        if index == self.shared.len() {
            self.shared.push(keys);
        }
        index as u32
    }

    fn error(
        &mut self,
        source: &SourceBlock<'_>,
        span: Range<usize>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.add_error(source.position(span.start), message, help);
    }
}

impl ZoneKeys {
    /// Makes relative paths start at `folder`.
    fn resolve_paths(&mut self, folder: &Path) {
        let paths = self.include_paths.iter_mut().flatten().chain(&mut self.file);
        paths.for_each(|FilePath(path)| *path = folder.join(&*path));
    }
}

fn find_key<T: KeyTable>(name: &str) -> Option<&'static KeySpec> {
    T::KEYS.iter().find(|key| key.name == name)
}

/// The message and help for a section in the wrong form, or an unknown one; none for top-level keys.
fn section_error(name: &str, value: &DeValue<'_>) -> Option<(String, String)> {
    if let Some((_, header)) = SECTIONS.iter().find(|(section, _)| *section == name) {
        return Some((format!("`{name}` is not written as {header}"), format!("write {header}")));
    }
    let is_section = matches!(value, DeValue::Table(_) | DeValue::Array(_)) && find_key::<TopLevelKeys>(name).is_none();
    is_section.then(|| {
        let help = match nearest(name, SECTIONS.map(|(section, _)| section)) {
            Some(section) => format!("did you mean `{section}`?"),
            None => format!("the sections are {}", SECTIONS.map(|(_, header)| header).join(", ")),
        };
        (format!("there is no section `{name}`"), help)
    })
}

/// Which key was meant, or where the key belongs.
fn unknown_key_help<T: KeyTable>(name: &str) -> String {
    if let Some(key) = nearest(name, T::KEYS.iter().map(|key| key.name)) {
        return format!("did you mean `{key}`?");
    }
    let tables = [
        ("before the first table", TopLevelKeys::KEYS),
        ("in [server]", Server::KEYS),
        ("in [[zone]] or [template.NAME]", ZoneKeys::KEYS),
    ];
    match tables.iter().find(|(_, keys)| keys.iter().any(|key| key.name == name)) {
        Some((place, _)) => format!("`{name}` belongs {place}"),
        None => "zonda.toml(5) lists the keys: `zonda man zonda.toml`".into(),
    }
}
