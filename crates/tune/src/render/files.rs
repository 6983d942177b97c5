//! Files for `--write FOLDER`: sysctl.d, limits.d and a systemd drop-in, with the reasons as comments.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};

use crate::advice::{Action, Case, Place, Row};

/// The first line of each file. A file that begins otherwise is not ours and is not overwritten.
const MARK: &str = "# Written by `zonda tune`.";

/// A file to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedFile {
    /// Its path below the folder given.
    pub path: PathBuf,
    /// Its contents.
    pub text: String,
}

/// The files that set what should be set; none for a place where nothing is to set.
pub fn plan(case: &Case, rows: &[Row]) -> Vec<PlannedFile> {
    let (_, unit) = case.workload.server.process();
    let file = |path: &str, text: String| Some(PlannedFile { path: path.into(), text });
    let planned = [
        of_place(rows, Place::Sysctl, |row, value| format!("{} = {value}\n", row.name))
            .and_then(|body| file(&format!("sysctl.d/60-{unit}-tune.conf"), body + &left_alone(rows))),
        of_place(rows, Place::Login, |_, value| format!("* soft nofile {value}\n* hard nofile {value}\n"))
            .and_then(|body| file(&format!("limits.d/60-{unit}-tune.conf"), body)),
        of_place(rows, Place::Unit, |row, value| format!("[Service]\n{}={value}\n", row.name))
            .and_then(|body| file(&format!("systemd/{unit}.service.d/60-tune.conf"), body)),
        by_hand(rows).and_then(|body| file("by-hand.txt", body)),
    ];
    planned.into_iter().flatten().collect()
}

/// Writes the files below `folder`, which is made if it is missing; the paths written.
///
/// If there is a file of another author, that is an error and nothing is written. Each file is replaced as a whole.
pub fn write(folder: &Path, files: &[PlannedFile]) -> io::Result<Vec<PathBuf>> {
    let paths: Vec<PathBuf> = files.iter().map(|file| folder.join(&file.path)).collect();
    let named = |path: &Path, error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    for path in &paths {
        check_author(path).map_err(|error| named(path, error))?;
    }
    for (path, file) in paths.iter().zip(files) {
        replace(path, &file.text).map_err(|error| named(path, error))?;
    }
    Ok(paths)
}

/// An error if there is a file that is not ours.
fn check_author(path: &Path) -> io::Result<()> {
    let mut start = Vec::new();
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        // Others than regular files may block or never end.
        Ok(found) if found.is_file() => _ = File::open(path)?.take(MARK.len() as u64).read_to_end(&mut start)?,
        Ok(_) => {}
    }
    if start == MARK.as_bytes() {
        return Ok(());
    }
    let message = "it exists and was not written by `zonda tune` (help: move it away or choose another folder)";
    Err(io::Error::new(io::ErrorKind::AlreadyExists, message))
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let new = path.with_extension("new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // O_EXCL follows no link: whoever may write to the folder must not choose what is overwritten.
    let written = File::create_new(&new).and_then(|mut file| file.write_all(text.as_bytes()));
    let replaced = written.and_then(|()| fs::rename(&new, path));
    if replaced.is_err() {
        // It may be incomplete, on a full disk for example.
        _ = fs::remove_file(&new);
    }
    replaced
}

/// The settings of one place, each with its reasons; `None` if none is to set.
fn of_place(rows: &[Row], place: Place, line: impl Fn(&Row, &str) -> String) -> Option<String> {
    let mut text = format!("{MARK}\n");
    let empty = text.len();
    for row in rows.iter().filter(|row| row.place == place && row.action == Action::Set) {
        let Some(value) = &row.advised else { continue };
        text += "\n";
        comment(&mut text, &format!("{}: {}", row.name, row.why));
        comment(&mut text, &format!("was: {}", row.now.as_deref().unwrap_or("not set")));
        comment(&mut text, &format!("evidence: {}", row.evidence));
        comment(&mut text, &format!("risk: {}", row.risk));
        text += &line(row, value);
    }
    (text.len() > empty).then_some(text)
}

/// The sysctls that sources recommend and that are left, as comments.
fn left_alone(rows: &[Row]) -> String {
    let mut text = String::from("\n# Left alone:\n");
    for row in rows.iter().filter(|row| row.place == Place::Sysctl && row.action == Action::Leave) {
        comment(&mut text, &format!("{}: {}", row.name, row.why));
    }
    text
}

/// What no file of the system sets: cards, processors, the server's own configuration.
fn by_hand(rows: &[Row]) -> Option<String> {
    let is_by_hand =
        |row: &&Row| matches!(row.place, Place::Device | Place::Habit | Place::Config(_)) && row.action == Action::Set;
    let mut text = format!("{MARK}\n# To be done by hand, or by a script at the start of the host.\n");
    let empty = text.len();
    for row in rows.iter().filter(is_by_hand) {
        _ = write!(text, "\n{}\n    now: {}\n", row.name, row.now.as_deref().unwrap_or("not set"));
        _ = write!(text, "    advised: {}\n    why: {}\n", row.advised.as_deref().unwrap_or_default(), row.why);
    }
    (text.len() > empty).then_some(text)
}

/// A comment of one line: no text may end it early.
fn comment(text: &mut String, words: &str) {
    _ = writeln!(text, "# {}", words.replace(['\n', '\r'], " "));
}
