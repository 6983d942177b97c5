//! Where the configuration comes from: a file, the command line, or both; read at the start and again at each reload.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use wire::Name;
use zone::{FilePosition, Finding, Severity};

use crate::cli::{ConfigFile, Serve, ZoneArguments};
use crate::config::value::FilePath;
use crate::config::zone_path::name_of_stem;
use crate::config::{self, Config, Endpoint, LogFormat, LogLevel, reader::ConfigReader};
use crate::input;
use crate::printable::path_text;
use crate::state_dir;

/// All that can say how to serve.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The configuration file.
    pub file: Option<PathBuf>,
    /// Zones of the command line.
    pub zones: ZoneArguments,
    /// What stands in for `listen`, if any.
    pub listen: Vec<Endpoint>,
    /// What stands in for `log-format`.
    pub log_format: Option<LogFormat>,
    /// What stands in for `log-level`.
    pub log_level: Option<LogLevel>,
}

/// The ending of a zone file in a folder.
const ZONE_FILE_ENDING: &str = "zone";

/// How far into a file an `$ORIGIN` is looked for, in octets: behind the longest licence.
const ORIGIN_WITHIN: u64 = 1 << 16;

impl Sources {
    /// The file named or found, and the zones; a file is only looked for where no zones are named.
    pub fn new(config: &ConfigFile, zones: &ZoneArguments) -> Sources {
        let has_zones = !zones.named.is_empty() || !zones.paths.is_empty();
        let found = || if has_zones { None } else { config::find() };
        Sources { file: config.path.clone().or_else(found), zones: zones.clone(), ..Sources::default() }
    }

    /// What `zonda serve` was given.
    pub fn of_serve(arguments: &Serve) -> Sources {
        Sources {
            listen: arguments.listen.clone(),
            log_format: arguments.log_format,
            log_level: arguments.log_level,
            ..Sources::new(&arguments.config, &arguments.zones)
        }
    }

    /// Whether nothing says what to serve.
    pub fn is_empty(&self) -> bool {
        self.file.is_none() && self.zones.named.is_empty() && self.zones.paths.is_empty()
    }

    /// Reads everything.
    pub fn read(&self) -> Result<Config, Vec<Finding>> {
        let mut reader = ConfigReader::default();
        if let Some(file) = &self.file {
            reader.read_file(file);
        }
        for zone in &self.zones.named {
            reader.add_argument(zone.name.clone(), &zone.file);
        }
        let mut empty_folders = Vec::new();
        for path in &self.zones.paths {
            match add_path(&mut reader, path) {
                Ok(0) => empty_folders.push(path.clone()),
                Ok(_) => (),
                Err(diagnostic) => reader.add_finding(diagnostic),
            }
        }
        let mut config = Config { empty_folders, ..reader.finish()? };
        if !self.listen.is_empty() {
            config.server.listen.clone_from(&self.listen);
        }
        config.server.log_format = self.log_format.unwrap_or(config.server.log_format);
        config.server.log_level = self.log_level.unwrap_or(config.server.log_level);
        Ok(config)
    }
}

/// The state-dir that a configuration names, whatever else is wrong with it, or else the default.
pub fn state_dir(config: &ConfigFile) -> PathBuf {
    let mut reader = ConfigReader::default();
    if let Some(file) = config.path.clone().or_else(config::find) {
        reader.read_file(&file);
    }
    reader.server.state_dir.map_or_else(state_dir::default_path, |FilePath(path)| path)
}

/// Where a configuration is looked for, for a message that none was found.
pub fn nothing_found() -> Finding {
    let paths: Vec<String> = config::search_path().iter().map(|path| path_text(path)).collect();
    Finding {
        severity: Severity::Error,
        position: FilePosition::default(),
        message: format!("there is no configuration: {} do not exist", paths.join(" and ")),
        help: "name a folder of zone files, or a configuration with --config".into(),
    }
}

/// Adds the zone of a file, or those of a folder; returns how many files there are.
fn add_path(reader: &mut ConfigReader, path: &Path) -> Result<usize, Finding> {
    let metadata = std::fs::metadata(path).map_err(|error| unreadable(path, &error))?;
    if !metadata.is_dir() {
        add_file(reader, path);
        return Ok(1);
    }
    let mut count = 0;
    for entry in std::fs::read_dir(path).map_err(|error| unreadable(path, &error))? {
        let file = entry.map_err(|error| unreadable(path, &error))?.path();
        let is_hidden = file.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if file.extension().is_some_and(|ending| ending == ZONE_FILE_ENDING) && !is_hidden {
            count += 1;
            add_file(reader, &file);
        }
    }
    if count == 0 {
        let message = "there is no zone file in this folder".into();
        reader.add_finding(found(Severity::Warning, path, message, "name the files like example.com.zone"));
    }
    Ok(count)
}

fn add_file(reader: &mut ConfigReader, path: &Path) {
    match name_of_file(path) {
        Ok(name) => reader.add_argument(name, path),
        Err(diagnostic) => reader.add_finding(diagnostic),
    }
}

/// The zone that a file is for: by the file's name `NAME.zone`, else by the first `$ORIGIN` in it.
fn name_of_file(path: &Path) -> Result<Name, Finding> {
    let help = "call it NAME.zone, begin it with $ORIGIN NAME., or use --zone NAME=FILE";
    if path.extension().is_some_and(|ending| ending == ZONE_FILE_ENDING) {
        let stem = path.file_stem().map(OsStr::as_bytes);
        let message = || "this file's name is no domain name before its `.zone`".to_owned();
        return stem.and_then(name_of_stem).ok_or_else(|| found(Severity::Error, path, message(), help));
    }
    match first_origin(path) {
        Ok(Some(name)) => Ok(name),
        Ok(None) => Err(found(Severity::Error, path, "nothing says which zone this file is for".into(), help)),
        Err(error) => Err(unreadable(path, &error)),
    }
}

/// The name in the first `$ORIGIN` line of a file, if that is absolute and no record stands before it.
fn first_origin(path: &Path) -> std::io::Result<Option<Name>> {
    let start = BufReader::new(input::open(path)?.take(ORIGIN_WITHIN));
    for line in start.split(b'\n') {
        let line = line?;
        let line = line.split(|&byte| byte == b';').next().unwrap_or_default();
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        match words.next() {
            None => continue,
            Some(word) if word.eq_ignore_ascii_case(b"$ORIGIN") => {
                return Ok(words
                    .next()
                    .and_then(|name| Name::from_text(name, None).ok())
                    .map(|name| name.to_lowercase()));
            }
            Some(word) if word.starts_with(b"$") => continue,
            Some(_) => return Ok(None),
        }
    }
    Ok(None)
}

fn unreadable(path: &Path, error: &std::io::Error) -> Finding {
    found(Severity::Error, path, format!("this cannot be read: {error}"), "")
}

fn found(severity: Severity, path: &Path, message: String, help: &str) -> Finding {
    let file: Arc<str> = path_text(path).into();
    Finding { severity, position: FilePosition { file, line: 0, column: 0 }, message, help: help.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_tell_their_zone() {
        let folder = tempfile::tempdir().expect("a folder");
        for (file, text, expected) in [
            ("example.com.zone", "", Some("example.com.")),
            ("EXAMPLE.zone", "$ORIGIN other.\n", Some("example.")),
            ("root.zone", "", Some(".")),
            ("@.zone", "", Some(".")),
            ("a..b.zone", "", None),
            ("db.x", "; a comment\n\n$TTL 1\n$origin Example.NET. ; here\n", Some("example.net.")),
            ("relative", "$ORIGIN example\n", None),
            ("late", "@ SOA\n$ORIGIN example.\n", None),
            ("empty", "", None),
        ] {
            let path = folder.path().join(file);
            std::fs::write(&path, text).expect("a file");
            assert_eq!(name_of_file(&path).ok().map(|name| name.to_string()), expected.map(String::from), "{file}");
        }
    }
}
