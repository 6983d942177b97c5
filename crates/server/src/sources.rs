//! The sources of the configuration: a file, the command line, or both. They are read at the start and by each reload.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use wire::Name;
use zone::{FilePosition, Finding, Severity};

use crate::cli::{ConfigFile, ServeArguments, ZoneArguments};
use crate::config::value::FilePath;
use crate::config::zone_path::name_of_stem;
use crate::config::{self, Config, Endpoint, LogFormat, LogLevel, reader::ConfigReader};
use crate::input;
use crate::printable::path_text;
use crate::state_dir;

/// The configuration file and the options that replace or complete it.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The configuration file.
    pub file: Option<PathBuf>,
    /// Zones of the command line.
    pub zones: ZoneArguments,
    /// Replaces `listen`, unless empty.
    pub listen: Vec<Endpoint>,
    /// Replaces `log-format`.
    pub log_format: Option<LogFormat>,
    /// Replaces `log-level`.
    pub log_level: Option<LogLevel>,
}

/// The ending of a zone file in a folder.
const ZONE_FILE_ENDING: &str = "zone";

/// How far into a file to look for `$ORIGIN`, in octets: enough for a licence at the start.
const ORIGIN_WITHIN: u64 = 1 << 16;

impl Sources {
    /// The named file, or else the default file if there are no zones on the command line; and these zones.
    pub fn new(config: &ConfigFile, zones: &ZoneArguments) -> Sources {
        let has_zones = !zones.named.is_empty() || !zones.paths.is_empty();
        let found = || if has_zones { None } else { config::find() };
        Sources { file: config.path.clone().or_else(found), zones: zones.clone(), ..Sources::default() }
    }

    /// The sources for `zonda serve`.
    pub fn of_serve(arguments: &ServeArguments) -> Sources {
        Sources {
            listen: arguments.listen.clone(),
            log_format: arguments.log_format,
            log_level: arguments.log_level,
            ..Sources::new(&arguments.config, &arguments.zones)
        }
    }

    /// Whether there is neither a file nor a zone.
    pub fn is_empty(&self) -> bool {
        self.file.is_none() && self.zones.named.is_empty() && self.zones.paths.is_empty()
    }

    /// Reads the file and the folders, and applies the options.
    pub fn read(&self) -> Result<Config, Vec<Finding>> {
        let mut reader = ConfigReader::default();
        if let Some(file) = &self.file {
            reader.read_file(file);
        }
        for zone in &self.zones.named {
            reader.add_argument(zone.name.clone(), &zone.file);
        }
        for path in &self.zones.paths {
            match add_path(&mut reader, path) {
                Ok(0) => reader.add_empty_source(path.clone()),
                Ok(_) => (),
                Err(diagnostic) => reader.add_finding(diagnostic),
            }
        }
        let mut config = reader.finish()?;
        if !self.listen.is_empty() {
            config.server.listen.clone_from(&self.listen);
        }
        config.server.log_format = self.log_format.unwrap_or(config.server.log_format);
        config.server.log_level = self.log_level.unwrap_or(config.server.log_level);
        Ok(config)
    }
}

/// The state-dir of a configuration, whatever else is wrong with it, or the default. The error is a file that cannot be read: it may
/// name another folder.
pub fn state_dir(config: &ConfigFile) -> Result<PathBuf, Finding> {
    let mut reader = ConfigReader::default();
    if let Some(file) = config.path.clone().or_else(config::find) {
        input::open(&file).map_err(|error| {
            let message = format!("the configuration cannot be read: {error}");
            found(
                Severity::Error,
                &file,
                message,
                "correct the path, run this as root, or name the state-dir with --state-dir",
            )
        })?;
        reader.read_file(&file);
    }
    Ok(reader.server.state_dir.map_or_else(state_dir::default_path, |FilePath(path)| path))
}

/// The error that no default configuration file exists.
pub fn nothing_found() -> Finding {
    let paths: Vec<String> = config::search_path().iter().map(|path| path_text(path)).collect();
    Finding {
        severity: Severity::Error,
        position: FilePosition::default(),
        message: format!("there is no configuration: {} do not exist", paths.join(" and ")),
        help: "name a folder of zone files, or name a configuration file with --config".into(),
    }
}

/// Adds the zone of a file or the zones of a folder; returns the number of files.
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

/// The zone of a file, by its name `NAME.zone`, else by its first `$ORIGIN`.
fn name_of_file(path: &Path) -> Result<Name, Finding> {
    let help = "rename it to NAME.zone, start it with $ORIGIN NAME., or use --zone NAME=FILE";
    if path.extension().is_some_and(|ending| ending == ZONE_FILE_ENDING) {
        let stem = path.file_stem().map(OsStr::as_bytes);
        let message = || "the name of this file is not a domain name followed by `.zone`".to_owned();
        return stem.and_then(name_of_stem).ok_or_else(|| found(Severity::Error, path, message(), help));
    }
    match first_origin(path) {
        Ok(Some(name)) => Ok(name),
        Ok(None) => Err(found(Severity::Error, path, "the zone of this file is unknown".into(), help)),
        Err(error) => Err(unreadable(path, &error)),
    }
}

/// The name in the first `$ORIGIN` line of a file, if it is absolute and precedes all records.
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
    let help = "name a zone file, or a folder of them, that the user of zonda can read";
    found(Severity::Error, path, format!("this cannot be read: {error}"), help)
}

fn found(severity: Severity, path: &Path, message: String, help: &str) -> Finding {
    let file: Arc<str> = path_text(path).into();
    Finding { severity, position: FilePosition { file, line: 0, column: 0 }, message, help: help.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_zone_of_a_file_is_in_its_name_or_its_origin() {
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
