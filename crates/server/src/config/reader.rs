//! Reads configuration files table by table, and collects their values and every mistake in them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};
use wire::Name;
use zone::suggest::nearest;
use zone::{FilePosition, Finding, Findings, Severity};

use super::blocks::{LineStarts, PlainZone, blocks};
use super::configured_key::ConfiguredKey;
use super::file_patterns::matching_files;
use super::key_spec::{KeyTable, ValueError};
use super::keys::{Server, TopLevelKeys, TsigKeyTable, ZoneKeys};
use super::value::{BoundedText, DomainName, FilePath};
use super::zone_config::share;
use super::zone_path::file_pattern;
use crate::input;
use crate::printable::{path_text, quoted};

/// The file of zones that the command line names, in messages.
const COMMAND_LINE: &str = "command line";

/// The tables of a configuration and their headers.
const TABLES: [(&str, &str); 4] =
    [("server", "[server]"), ("key", "[[key]]"), ("zone", "[[zone]]"), ("template", "[template.NAME]")];

/// All that was read so far.
#[derive(Default)]
pub struct ConfigReader {
    /// `[server]`.
    pub server: Server,
    /// The positions of templates and of the keys of `[server]`.
    set_at: HashMap<String, FilePosition>,
    /// `[template.NAME]`.
    pub(super) templates: BTreeMap<String, Template>,
    pub(super) zones: Vec<PendingZone>,
    /// See [`PendingZone::shared`].
    pub(super) shared: Vec<SharedKeys>,
    /// `[[key]]`.
    pub(super) keys: Vec<ConfiguredKey>,
    pub(super) key_positions: KeyPositions,
    /// The file patterns of zones, each once.
    patterns: HashSet<Arc<[u8]>>,
    /// Every file that was read, in this order.
    pub(super) files: Vec<Arc<str>>,
    /// The TOML files among them.
    toml_files: HashSet<FileId>,
    /// See [`super::Config::empty_sources`].
    pub(super) empty_sources: Vec<PathBuf>,
    pub(super) findings: Findings,
}

/// `[template.NAME]`.
pub(super) struct Template {
    pub(super) keys: ZoneKeys,
    /// The folder of the configuration file.
    pub(super) config_folder: Arc<Path>,
}

/// Device and inode.
type FileId = (u64, u64);

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

impl PendingZone {
    /// Where the zone is named, in one of [`ConfigReader::files`].
    pub(super) fn position(&self, files: &[Arc<str>]) -> FilePosition {
        FilePosition { file: files[self.file as usize].clone(), line: self.line, column: 1 }
    }
}

/// Where keys are defined and named.
#[derive(Default)]
pub(super) struct KeyPositions {
    /// Where each `[[key]]` is, also a faulty one.
    pub(super) defined: HashMap<Name, FilePosition>,
    /// Where each name is used first.
    pub(super) used: HashMap<Name, FilePosition>,
}

/// Keys that zones can have in common.
#[derive(Debug, Default, PartialEq)]
pub(super) struct SharedKeys {
    /// All but `name` and `file`.
    pub(super) keys: ZoneKeys,
    /// The folder of the configuration file; none for zones of the command line.
    pub(super) config_folder: Option<Arc<Path>>,
}

/// The file being read, and where in it.
pub(super) struct Source<'t> {
    file: Arc<str>,
    file_index: u32,
    pub(super) folder: Arc<Path>,
    is_included: bool,
    lines: &'t LineStarts,
    /// The offset of the block that is read; all other offsets count from there.
    block_start: usize,
}

impl Source<'_> {
    pub(super) fn position(&self, offset: usize) -> FilePosition {
        let (line, column) = self.lines.position(self.block_start + offset);
        FilePosition { file: self.file.clone(), line, column }
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
        let pattern = Some(share(&mut self.patterns, file_pattern(file, name.as_ref())));
        let (shared, file) = (self.share(SharedKeys::default()), self.files.len() as u32 - 1);
        self.zones.push(PendingZone { name, pattern, shared, file, line: 0 });
    }

    /// Notes a folder without a zone file.
    pub fn add_empty_source(&mut self, folder: PathBuf) {
        self.empty_sources.push(folder);
    }

    /// Adds a finding of the caller.
    pub fn add_finding(&mut self, finding: Finding) {
        self.findings.add_with(finding.severity, || finding);
    }

    /// Where a key of `[server]` is set, or `template.NAME`.
    pub(super) fn position_of(&self, key: &str) -> FilePosition {
        self.set_at.get(key).cloned().unwrap_or_default()
    }

    pub(super) fn add_error(&mut self, position: FilePosition, message: impl Into<String>, help: impl Into<String>) {
        let (message, help) = (message.into(), help.into());
        self.add_finding(Finding { severity: Severity::Error, position, message, help });
    }

    /// Reads one TOML file and its zone lists; returns the files that it includes.
    fn read_toml(&mut self, path: &Path, is_included: bool) -> Vec<PathBuf> {
        let Some((file, file_index, text)) = self.open(path) else { return Vec::new() };
        self.toml_files.extend(file_id(path));
        let (folder, lines) = (path.parent().unwrap_or(Path::new("")).into(), &LineStarts::of(&text));
        let mut source = Source { file, file_index, folder, is_included, lines, block_start: 0 };
        let mut top_level = TopLevelKeys::default();
        // The keys that the last zone shares, if it was read from a block of its own.
        let mut shared = None;
        for block in blocks(&text) {
            source.block_start = block.start;
            let repeated =
                block.repeated.zip(shared).and_then(|(zone, shared)| self.repeat_zone(&source, zone, shared));
            if repeated.is_none() {
                self.read_block(&source, block.text, &mut top_level);
                shared = self.zones.last().map(|zone| zone.shared).filter(|_| !self.findings.has_errors());
            }
        }
        // Top-level keys are in the first block.
        source.block_start = 0;
        let included = self.matching_files(&source, "include", &top_level.include);
        // Before they are read: the pattern of a zone list must match none of them.
        self.toml_files.extend(included.iter().filter_map(|path| file_id(path)));
        for list in self.matching_files(&source, "zone-list", &top_level.zone_list) {
            self.read_zone_list(&list, &source.folder);
        }
        included
    }

    /// The name, the index and the text of a file; an error if it cannot be read or is not UTF-8.
    pub(super) fn open(&mut self, path: &Path) -> Option<(Arc<str>, u32, String)> {
        let (file, index): (Arc<str>, _) = (path_text(path).into(), self.files.len() as u32);
        self.files.push(file.clone());
        match input::read(path).map(String::from_utf8) {
            Ok(Ok(text)) => return Some((file, index, text)),
            Ok(Err(error)) => {
                let valid = String::from_utf8_lossy(&error.as_bytes()[..error.utf8_error().valid_up_to()]);
                let (line, column) = LineStarts::of(&valid).position(valid.len());
                self.add_error(FilePosition { file, line, column }, "this is not UTF-8", "save the file as UTF-8");
            }
            Err(error) => {
                let message = format!("the configuration cannot be read: {error}");
                self.add_error(FilePosition::of_file(&file), message, "name a file that the user of zonda can read");
            }
        }
        None
    }

    /// The files that match the entries of `key`.
    fn matching_files(&mut self, source: &Source<'_>, key: &str, entries: &[Spanned<FilePath>]) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for entry in entries {
            let pattern = || quoted(&entry.as_ref().to_string());
            let path = source.folder.join(&entry.as_ref().0);
            match matching_files(&path) {
                Ok(found) if found.is_empty() => self.empty_sources.push(path),
                Ok(found) => {
                    let is_toml = |path: &PathBuf| file_id(path).is_some_and(|id| self.toml_files.contains(&id));
                    let (toml_files, found): (Vec<PathBuf>, Vec<PathBuf>) = found.into_iter().partition(is_toml);
                    files.extend(found);
                    if let Some(toml_file) = toml_files.first() {
                        let message = format!("{} matches the configuration file {}", pattern(), path_text(toml_file));
                        let help =
                            format!("write a pattern for the files of `{key}` only, or move them to their own folder");
                        self.error(source, entry.span(), message, help);
                    }
                }
                Err(error) => {
                    let message = format!("{} cannot be read: {error}", pattern());
                    self.error(source, entry.span(), message, format!("correct the path, or remove it from `{key}`"));
                }
            }
        }
        files
    }

    fn read_block(&mut self, source: &Source<'_>, block: &str, top_level: &mut TopLevelKeys) {
        let (table, errors) = DeTable::parse_recoverable(block);
        for error in &errors {
            self.error(source, error.span().unwrap_or_default(), error.message(), syntax_help(error.message()));
        }
        for (key, value) in table.into_inner() {
            let span = value.span();
            match (key.get_ref().as_ref(), value.into_inner()) {
                ("server", DeValue::Table(server)) => self.read_server(source, server),
                ("key", DeValue::Array(keys)) => keys.into_iter().for_each(|key| self.read_key_table(source, key)),
                ("zone", DeValue::Array(zones)) => zones.into_iter().for_each(|zone| self.read_zone(source, zone)),
                ("template", DeValue::Table(templates)) => {
                    templates.into_iter().for_each(|(name, keys)| self.read_template(source, name, keys));
                }
                ("include", _) if source.is_included => {
                    let help = "name the files in `include` of the main configuration file";
                    self.error(source, key.span(), "an included file cannot include others", help);
                }
                (_, value) => self.read_key(source, top_level, key, Spanned::new(span, value)),
            }
        }
    }

    fn read_server(&mut self, source: &Source<'_>, table: DeTable<'_>) {
        let mut server = std::mem::take(&mut self.server);
        for (key, value) in table {
            self.check_set_once(source, key.get_ref(), key.span());
            let name = key.get_ref().to_string();
            self.read_key(source, &mut server, key, value);
            let path = match name.as_str() {
                "state-dir" => &mut server.state_dir,
                "tls-cert" => &mut server.tls_cert,
                "tls-key" => &mut server.tls_key,
                "tls-ca" => &mut server.tls_ca,
                "tls-ticket-keys" => &mut server.tls_ticket_keys,
                _ => continue,
            };
            if let Some(FilePath(path)) = path {
                *path = source.folder.join(&*path);
            }
        }
        self.server = server;
    }

    fn read_template(&mut self, source: &Source<'_>, name: Spanned<DeString<'_>>, value: Spanned<DeValue<'_>>) {
        let DeValue::Table(mut table) = value.into_inner() else {
            return self.error(source, name.span(), "a template is a table", "write [template.NAME]");
        };
        for own in ["name", "template"] {
            if let Some((key, _)) = table.remove_entry(own) {
                self.error(source, key.span(), format!("a template cannot set `{own}`"), "set it in [[zone]]");
            }
        }
        self.check_set_once(source, &format!("template.{}", name.get_ref()), name.span());
        let keys = self.read_zone_keys(source, table);
        let template = Template { keys, config_folder: source.folder.clone() };
        self.templates.insert(name.get_ref().to_string(), template);
    }

    fn read_zone(&mut self, source: &Source<'_>, zone: Spanned<DeValue<'_>>) {
        let span = zone.span();
        let DeValue::Table(table) = zone.into_inner() else {
            return self.error(source, span, "a zone is a table", "write [[zone]]");
        };
        if !table.contains_key("name") {
            self.error(source, span.clone(), "this zone has no name", "add name = \"example.com\"");
        }
        let mut keys = self.read_zone_keys(source, table);
        let Some(DomainName(name)) = keys.name.take() else { return };
        let file = keys.file.take().map(|FilePath(file)| file);
        let shared = self.share(SharedKeys { keys, config_folder: Some(source.folder.clone()) });
        self.add_zone(source, span.start, name, file, shared);
    }

    /// Adds a zone that shares its other keys with the last one; `None` if its name or file is wrong, which is to be reported.
    fn repeat_zone(&mut self, source: &Source<'_>, zone: PlainZone<'_>, shared: u32) -> Option<()> {
        let DomainName(name) = zone.name.parse().ok()?;
        let file = zone.file.map(str::parse).transpose().ok()?;
        self.add_zone(source, 0, name, file.map(|FilePath(file)| source.folder.join(file)), shared);
        Some(())
    }

    /// Adds a zone whose table starts at `offset` of the block.
    fn add_zone(&mut self, source: &Source<'_>, offset: usize, name: Name, file: Option<PathBuf>, shared: u32) {
        let pattern = file.map(|file| share(&mut self.patterns, file_pattern(&file, name.as_ref())));
        let FilePosition { line, .. } = source.position(offset);
        self.zones.push(PendingZone { name, pattern, shared, file: source.file_index, line });
    }

    /// The keys of a zone or a template, with paths that start where those of the command line do.
    fn read_zone_keys(&mut self, source: &Source<'_>, table: DeTable<'_>) -> ZoneKeys {
        let mut keys = ZoneKeys::default();
        self.note_key_names(source, &table);
        table.into_iter().for_each(|(key, value)| self.read_key(source, &mut keys, key, value));
        let paths = keys.include_paths.iter_mut().flatten().chain(&mut keys.file).chain(&mut keys.write_file);
        paths.for_each(|FilePath(path)| *path = source.folder.join(&*path));
        // A program without a slash is looked up in $PATH.
        if let Some(BoundedText(program)) = keys.check_command.iter_mut().flatten().next()
            && program.contains('/')
        {
            *program = path_text(&source.folder.join(&*program));
        }
        let servers = keys.primaries.iter_mut().chain(&mut keys.notify).flatten();
        servers.for_each(|server| server.resolve_paths(&source.folder));
        keys
    }

    /// Sets a key of `table`, or reports why not.
    pub(super) fn read_key<T: KeyTable>(
        &mut self,
        source: &Source<'_>,
        table: &mut T,
        name: Spanned<DeString<'_>>,
        value: Spanned<DeValue<'_>>,
    ) {
        let (span, name) = (name.span(), name.get_ref());
        let Some(key) = T::KEYS.iter().find(|key| key.name == name) else {
            return self.findings.add_with(Severity::Error, || Finding {
                severity: Severity::Error,
                position: source.position(span.start),
                message: format!("there is no key {} here", quoted(name)),
                help: unknown_key_help::<T>(name),
            });
        };
        for ValueError { offset, message, help } in table.read(key, value) {
            self.error(source, offset..offset, format!("`{name}`: {message}"), help);
        }
    }

    fn check_set_once(&mut self, source: &Source<'_>, name: &str, span: Range<usize>) {
        if let Some(first) = self.set_at.insert(name.to_owned(), source.position(span.start)) {
            self.error(source, span, format!("{} is set twice", quoted(name)), format!("it was first set at {first}"));
        }
    }

    /// The index of these keys in [`ConfigReader::shared`]. Only the last few are searched: neighbours are mostly alike.
    pub(super) fn share(&mut self, keys: SharedKeys) -> u32 {
        const NEIGHBOURS: usize = 16;
        let start = self.shared.len().saturating_sub(NEIGHBOURS);
        let known = self.shared[start..].iter().position(|shared| *shared == keys);
        let index = known.map_or(self.shared.len(), |at| start + at);
        if known.is_none() {
            self.shared.push(keys);
        }
        index as u32
    }

    pub(super) fn error(
        &mut self,
        source: &Source<'_>,
        span: Range<usize>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.add_error(source.position(span.start), message, help);
    }
}

/// `None` if there is no such file; reading it reports that.
fn file_id(path: &Path) -> Option<FileId> {
    std::fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino())).ok()
}

/// What to do about text that is not TOML.
fn syntax_help(message: &str) -> &'static str {
    match message.starts_with("duplicate key") {
        true => "remove one of them",
        false => {
            "write KEY = VALUE, with names and addresses in double quotes and lists in brackets: listen = [\"192.0.2.1\"]"
        }
    }
}

/// Which key or table was meant, or where the key belongs.
fn unknown_key_help<T: KeyTable>(name: &str) -> String {
    if let Some(key) = nearest(name, T::KEYS.iter().map(|key| key.name)) {
        return format!("did you mean `{key}`?");
    }
    if let Some((_, header)) = TABLES.iter().find(|(table, _)| nearest(name, [*table]).is_some()) {
        return format!("did you mean {header}?");
    }
    let tables = [
        ("before the first table", TopLevelKeys::KEYS),
        ("in [server]", Server::KEYS),
        ("in [[zone]] or [template.NAME]", ZoneKeys::KEYS),
        ("in [[key]]", TsigKeyTable::KEYS),
    ];
    match tables.iter().find(|(_, keys)| keys.iter().any(|key| key.name == name)) {
        Some((place, _)) => format!("`{name}` belongs {place}"),
        None => "zonda.toml(5) lists the keys: `zonda man zonda.toml`".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_zones_are_read_as_others() {
        let folder = tempfile::tempdir().expect("a folder");
        let read = |comment: &str| {
            let mut text = "[server]\nworkers = 1\n".to_owned();
            for (number, name) in ["a", "B.test", "c..d", "e"].into_iter().enumerate() {
                text += &format!("[[zone]]\nname = \"{name}\"\nfile = \"{name}.zone\"\nallow-transfer = [\"::1\"]\n");
                text += &comment.repeat(number);
            }
            let path = folder.path().join("zonda.toml");
            std::fs::write(&path, text).expect("a file");
            let mut reader = ConfigReader::default();
            reader.read_file(&path);
            let zones =
                reader.zones.into_iter().map(|zone| (zone.name.to_string(), zone.pattern, zone.shared, zone.line));
            (zones.collect::<Vec<_>>(), reader.findings.finish(&"".into()).len())
        };
        let (repeated, others) = (read(""), read(" "));
        assert_eq!((repeated.0.len(), repeated.1), (3, 1), "one name is wrong");
        assert_eq!(repeated, others);
        assert_eq!(repeated.0.iter().map(|zone| zone.3).collect::<Vec<_>>(), [3, 7, 15]);
    }
}
