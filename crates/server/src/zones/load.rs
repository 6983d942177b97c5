//! Reads one zone from its files into a version that can be served.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use netio::map::Contents;
use wire::NameRef;
use zone::load::{Options, Outcome};
use zone::{Checks, Diagnostic, Difference, Place, Severity, Zone, text};

use super::progress::Progress;
use super::spread::Turn;
use super::stamp::{Files, Stamp};

/// What came of reading a zone's files.
pub struct Loaded {
    /// The zone, unless there were errors.
    pub zone: Option<Zone>,
    /// Whether it differs from the previous version.
    pub is_changed: bool,
    /// What was found, errors and warnings.
    pub findings: Vec<Diagnostic>,
    /// What the files were like.
    pub stamp: Stamp,
    /// The files included.
    pub includes: Box<[PathBuf]>,
}

/// From this size on, in octets, a zone file is worth all threads.
const BIG: u64 = 4 << 20;

/// Errors listed for one zone; the first few explain the rest.
const ERROR_LIMIT: usize = 100;

/// What a zone is read for.
#[derive(Clone, Copy)]
pub enum Aim<'z> {
    /// To be served, sharing with the version served now what is the same.
    Serve(Option<&'z Zone>),
    /// To find all that is wrong with it.
    Check,
}

/// Reads a zone from its file; `None` where that is too big for [`Turn::Beside`].
pub fn load(apex: NameRef<'_>, path: &Path, how: (Aim<'_>, Checks), turn: Turn, progress: &Progress) -> Option<Loaded> {
    let files = Files::default();
    let len = files.note(path);
    let threads = match turn {
        Turn::Alone(threads) => threads,
        Turn::Beside if len >= BIG => return None,
        Turn::Beside => 1,
    };
    // A mistake of ours in reading must not end the server.
    let work = AssertUnwindSafe(|| read(apex, path, &files, how, threads, progress));
    let read = catch_unwind(work).unwrap_or_else(|_| failed(path, "reading it broke zonda".into(), REPORT));
    progress.count_zone();
    // A zone that failed is tried again, whether its files have changed or not.
    let stamp = if read.zone.is_some() { files.stamp() } else { Stamp::NONE };
    let is_changed = read.difference.is_none_or(|difference| difference != Difference::default());
    let includes = files.others(path);
    Some(Loaded { zone: read.zone, is_changed, findings: read.diagnostics, stamp, includes })
}

const REPORT: &str = "this is a bug; please report it with the zone";

fn read(
    apex: NameRef<'_>,
    path: &Path,
    files: &Files,
    (aim, checks): (Aim<'_>, Checks),
    threads: usize,
    progress: &Progress,
) -> Outcome {
    if matches!(aim, Aim::Serve(_)) && may_not_end(path) {
        let message = "the zone file is no regular file".into();
        return failed(path, message, "write the zone to a file: it is read again with reloads");
    }
    let contents = match Contents::open(path) {
        Ok(contents) => contents,
        Err(error) => return failed(path, format!("the zone file cannot be read: {error}"), mend(&error)),
    };
    let done = AtomicU64::new(0);
    let text = text::Options {
        apex,
        threads,
        include: &|written, place| include(written, place, files),
        progress: &|octets| progress.count_octets(octets.saturating_sub(done.fetch_max(octets, Ordering::Relaxed))),
        error_limit: ERROR_LIMIT,
        checks,
    };
    let (previous, thorough) = match aim {
        Aim::Serve(previous) => (previous, false),
        Aim::Check => (None, true),
    };
    let source = text::Source { name: path.display().to_string().into(), bytes: &contents };
    zone::load::load(source, &Options { text, previous, thorough })
}

/// Reads an included file; its path starts at the folder of the file that includes it.
fn include(written: &str, place: &Place, files: &Files) -> Result<(Arc<str>, Vec<u8>), String> {
    let folder = Path::new(&*place.file).parent().unwrap_or(Path::new(""));
    let path = folder.join(written);
    files.note(&path);
    if may_not_end(&path) {
        return Err("it is no regular file".into());
    }
    let bytes = std::fs::read(&path).map_err(|error| error.to_string())?;
    Ok((path.display().to_string().into(), bytes))
}

/// Whether reading may take for ever, or all memory: a pipe has no end before somebody writes to it, some devices have none at
/// all. One zone's file must not hold up the others.
fn may_not_end(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}

fn failed(path: &Path, message: String, help: &str) -> Outcome {
    let file: Arc<str> = path.display().to_string().into();
    let place = Place { file: file.clone(), line: 0, column: 0 };
    let diagnostic = Diagnostic { severity: Severity::Error, place, message, help: help.into() };
    Outcome { zone: None, difference: None, diagnostics: vec![diagnostic], files: vec![file] }
}

fn mend(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "make the file, or mend its path in the configuration",
        io::ErrorKind::PermissionDenied => "let the user that zonda runs as read it",
        _ => "",
    }
}
