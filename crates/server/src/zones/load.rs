//! Reads one zone from its files into a version that can be served.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use wire::NameRef;
use zone::load::{LoadOptions, LoadOutcome};
use zone::text::{ErrorText, IncludedFile, ReadAt, RecordLimits};
use zone::{CheckMode, Difference, FilePosition, Finding, Severity, Zone, text};

use super::change_detection::{FilesRead, Fingerprint};
use super::load_progress::ReadProgress;
use super::read_pool::{LaneLimits, TooLarge};
use super::zone_file::{IncludeFolders, ZoneFile};
use crate::config::{ZoneLimits, ZonePolicy};
use crate::input;
use crate::printable::path_text;

/// What came of reading a zone's files.
pub struct LoadedZone {
    /// The zone, unless there were errors.
    pub zone: Option<Zone>,
    /// Whether it differs from the previous version.
    pub is_changed: bool,
    /// What was found, errors and warnings.
    pub findings: Vec<Finding>,
    /// What the files were like.
    pub fingerprint: Fingerprint,
    /// The files included.
    pub includes: Box<[PathBuf]>,
}

/// Errors listed for one zone; the first few explain the rest.
const ERROR_LIMIT: usize = 100;

/// What a zone is read for.
#[derive(Clone, Copy)]
pub enum LoadPurpose<'z> {
    /// To be served, sharing with the version served now what is the same.
    Serve(Option<&'z Zone>),
    /// To find all that is wrong with it by these checks.
    Check(CheckMode),
}

/// Reads a zone from its file, unless that is too big for the turn.
pub fn load(
    apex: NameRef<'_>,
    path: &Path,
    policy: &ZonePolicy,
    purpose: LoadPurpose<'_>,
    turn: LaneLimits,
    progress: &ReadProgress,
) -> Result<LoadedZone, TooLarge> {
    let job = ZoneLoad { apex, path, policy, purpose, progress, files: FilesRead::default() };
    let len = job.files.note(path);
    if len >= turn.below {
        return Err(TooLarge(len));
    }
    // A mistake of ours in reading must not end the server.
    let read = catch_unwind(AssertUnwindSafe(|| job.read(turn.threads)));
    let read = read.unwrap_or_else(|_| failed(path, "reading it broke zonda".into(), REPORT));
    // A zone that failed is tried again, whether its files have changed or not.
    let fingerprint = if read.zone.is_some() { job.files.fingerprint() } else { Fingerprint::NONE };
    let is_changed = read.difference.is_none_or(|difference| difference != Difference::default());
    let includes = job.files.others(path);
    Ok(LoadedZone { zone: read.zone, is_changed, findings: read.findings, fingerprint, includes })
}

const REPORT: &str = "this is a bug; please report it with the zone";

/// A zone to be read.
struct ZoneLoad<'j> {
    apex: NameRef<'j>,
    path: &'j Path,
    policy: &'j ZonePolicy,
    purpose: LoadPurpose<'j>,
    progress: &'j ReadProgress,
    files: FilesRead,
}

impl ZoneLoad<'_> {
    fn read(&self, threads: usize) -> LoadOutcome {
        let text = match self.open() {
            Ok(text) => text,
            Err(ErrorText { message, help }) => return failed(self.path, message, help),
        };
        let (previous, thorough, checks) = match self.purpose {
            LoadPurpose::Serve(previous) => (previous, false, self.policy.checks),
            LoadPurpose::Check(checks) => (None, true, checks),
        };
        let ZoneLimits { max_records, max_generated, nsec3_max_iterations } = self.policy.limits;
        let folders = self.folders();
        let options = text::ParseOptions {
            apex: self.apex,
            threads,
            include: &|written, place| self.include(written, place, &folders),
            progress: &|octets| self.progress.count_octets(octets),
            error_limit: ERROR_LIMIT,
            check_mode: checks,
            limits: RecordLimits { records: unless_0(max_records), generated: unless_0(max_generated) },
        };
        let text = WatchedText { text, progress: self.progress };
        let source = text::Source { name: path_text(self.path).into(), bytes: &text };
        zone::load::load(source, &LoadOptions { text: options, previous, thorough, nsec3_max_iterations })
    }

    /// Opens the zone file. To be served, it must be a regular one: one zone's file must not hold up the others.
    fn open(&self) -> Result<Box<dyn ReadAt>, ErrorText> {
        let unreadable = |error: io::Error| {
            let help = help_to_read(&error);
            ErrorText { message: format!("the zone file cannot be read: {error}"), help }
        };
        if let Some(file) = ZoneFile::open(self.path).map_err(unreadable)? {
            return Ok(Box::new(file));
        }
        match self.purpose {
            LoadPurpose::Serve(_) => {
                let help = "write the zone to a file: it is read again with reloads";
                Err(ErrorText { message: "the zone file is no regular file".into(), help })
            }
            LoadPurpose::Check(_) => input::read(self.path).map(|text| Box::new(text) as _).map_err(unreadable),
        }
    }

    /// Where included files may be.
    fn folders(&self) -> IncludeFolders<'_> {
        let own = self.path.parent().unwrap_or(Path::new(""));
        let others = self.policy.config_folder.iter().chain(&self.policy.include_paths);
        IncludeFolders::new(std::iter::once(own).chain(others.map(PathBuf::as_path)))
    }

    /// Opens an included file; its path starts at the folder of the file that includes it.
    fn include(
        &self,
        written: &Path,
        place: &FilePosition,
        folders: &IncludeFolders<'_>,
    ) -> Result<IncludedFile, ErrorText> {
        let includer = self.files.named(&place.file);
        let path = includer.parent().unwrap_or(Path::new("")).join(written);
        self.files.note(&path);
        folders.open(&path)
    }
}

/// The text of a zone file, with a note of when nothing is left to be read of it and of those that it includes.
struct WatchedText<'j> {
    text: Box<dyn ReadAt>,
    progress: &'j ReadProgress,
}

impl ReadAt for WatchedText<'_> {
    fn size(&self) -> usize {
        self.text.size()
    }

    fn read_at(&self, offset: usize, buffer: &mut [u8]) -> io::Result<()> {
        self.text.read_at(offset, buffer)
    }

    fn check_unchanged(&self) -> io::Result<()> {
        let result = self.text.check_unchanged();
        self.progress.end_reading();
        result
    }
}

/// A limit of the configuration, where 0 is none.
fn unless_0(limit: u32) -> u64 {
    if limit == 0 { u64::MAX } else { limit.into() }
}

fn failed(path: &Path, message: String, help: &str) -> LoadOutcome {
    let file: Arc<str> = path_text(path).into();
    let position = FilePosition { file: file.clone(), line: 0, column: 0 };
    let finding = Finding { severity: Severity::Error, position, message, help: help.into() };
    LoadOutcome { zone: None, difference: None, findings: vec![finding], files: vec![file] }
}

fn help_to_read(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "make the file, or correct its path in the configuration",
        io::ErrorKind::PermissionDenied => "let the user that zonda runs as read it",
        _ => "",
    }
}
