//! The names of frozen zones, in a file of the state-dir: they stay frozen when zonda is restarted.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use wire::Name;

use crate::replace_file::replace_file;

/// The file in the state-dir: one name per line.
pub const FROZEN_ZONES: &str = "frozen-zones";

/// Writes the file.
pub struct FrozenZonesFile {
    path: PathBuf,
    /// Held while the names are asked for and written, so that later ones are not replaced by earlier ones.
    writing: Mutex<()>,
}

impl FrozenZonesFile {
    /// The file at this path.
    pub fn new(path: PathBuf) -> FrozenZonesFile {
        FrozenZonesFile { path, writing: Mutex::new(()) }
    }

    /// Writes the names that `names` returns; `None` leaves the file as it is.
    pub fn write(&self, names: impl FnOnce() -> Option<Vec<Name>>) -> io::Result<()> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(names) = names() else { return Ok(()) };
        let text: String = names.iter().map(|name| format!("{name}\n")).collect();
        replace_file(&self.path, 0o600, |mut file| file.write_all(text.as_bytes()))
    }
}

/// The names in the file; none if there is no file. Lines that are not names are skipped.
pub fn read(path: &Path) -> io::Result<HashSet<Name>> {
    let text = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(HashSet::new()),
        text => text?,
    };
    // Damage of one line loses that line, not the start of the daemon.
    Ok(String::from_utf8_lossy(&text)
        .lines()
        .filter_map(|line| line.parse::<Name>().ok())
        .map(|name| name.to_lowercase())
        .collect())
}
