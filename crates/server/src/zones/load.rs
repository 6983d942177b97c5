//! Reads one zone from its files into a version that can be served.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use netio::map::Contents;
use zone::{Diagnostic, Place, Severity, Zone};

use super::progress::Progress;
use super::spread::Turn;
use super::stamp::{Files, Stamp};
use crate::config::ZoneConfig;

/// What came of reading a zone's files.
pub struct Loaded {
    /// The zone, unless there were errors.
    pub zone: Option<Arc<Zone>>,
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

/// Reads the zone, sharing with the `previous` version what is the same; `None` where it is too big for [`Turn::Beside`].
pub fn load(config: &ZoneConfig, previous: Option<&Arc<Zone>>, turn: Turn, progress: &Progress) -> Option<Loaded> {
    let path = config.file().expect("only zones with files are loaded");
    let threads = match turn {
        Turn::Alone(threads) => threads,
        Turn::Beside if std::fs::metadata(&path).is_ok_and(|file| file.len() >= BIG) => return None,
        Turn::Beside => 1,
    };
    let files = Files::default();
    files.note(&path);
    let read = || read(config, &path, &files, previous, threads, progress);
    // A mistake of ours in reading must not end the server.
    let (zone, findings) = catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| (None, vec![internal_error(&path)]));
    progress.count_zone();
    // A zone that failed is tried again whether its files have changed or not.
    let stamp = if zone.is_some() { files.stamp() } else { Stamp::NONE };
    Some(Loaded { zone, findings, stamp, includes: files.others(&path) })
}

fn read(
    config: &ZoneConfig,
    path: &Path,
    files: &Files,
    previous: Option<&Zone>,
    threads: usize,
    progress: &Progress,
) -> Read {
    let contents = match Contents::open(path) {
        Ok(contents) => contents,
        Err(error) => return Read::failed(unreadable(path, &error)),
    };
    let done = AtomicU64::new(0);
    let options = text::Options {
        apex: config.name.as_ref(),
        threads,
        include: &|written, place| include(written, place, files),
        progress: &|octets| progress.count_octets(octets),
        error_limit: ERROR_LIMIT,
    };
    let source = text::Source { name: path.display().to_string().into(), bytes: &contents };
    zone::load(source, &options, previous)
}

/// Reads an included file; its path starts at the folder of the file that includes it.
fn include(written: &str, place: &Place, files: &Files) -> Result<Vec<u8>, String> {
    let folder = Path::new(&*place.file).parent().unwrap_or(Path::new(""));
    let path = folder.join(written);
    files.note(&path);
    std::fs::read(&path).map_err(|error| error.to_string())
}
