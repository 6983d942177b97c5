//! Loads one zone from its files.

use std::fs::Metadata;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use wire::NameRef;
use zone::encoded_change::EncodedChange;
use zone::load::{LoadOptions, LoadOutcome, SerialRules};
use zone::text::{ErrorText, IncludedFile, ReadAt, RecordLimits};
use zone::{CheckMode, FilePosition, Finding, Severity, Zone, text};

use super::acceptance::{self, CandidateVersion, Rejection, Remark, VersionOrigin};
use super::change_detection::{FilesRead, Fingerprint};
use super::load_progress::ReadProgress;
use super::read_pool::{ReadLimits, TooLarge};
use super::zone_file::{IncludeFolders, ZoneFile};
use crate::clock;
use crate::config::{ZoneLimits, ZonePolicy};
use crate::input;
use crate::printable::path_text;

/// The result of reading a zone's files.
pub struct LoadedZone {
    /// The zone, unless there were errors.
    pub zone: Option<Zone>,
    /// Whether it differs from the previous version.
    pub is_changed: bool,
    /// The serial of the file, which the policy of the zone may have replaced.
    pub file_serial: Option<u32>,
    /// How it differs, unless it is big and was built anew.
    pub change: Option<EncodedChange>,
    /// Errors and warnings.
    pub findings: Vec<Finding>,
    /// Detects later changes of the files.
    pub fingerprint: Fingerprint,
    /// The included files.
    pub includes: Box<[PathBuf]>,
}

/// Errors listed for one zone.
const ERROR_LIMIT: usize = 100;

/// What a zone is loaded for.
#[derive(Clone, Copy)]
pub enum LoadPurpose<'z> {
    /// To be served; shares unchanged data with the version served now, if any.
    Serve(Option<&'z Zone>),
    /// To report all problems that these checks find.
    Check(CheckMode),
}

impl<'z> LoadPurpose<'z> {
    /// The version served now.
    fn base(self) -> Option<&'z Zone> {
        match self {
            LoadPurpose::Serve(base) => base,
            LoadPurpose::Check(_) => None,
        }
    }
}

/// Loads a zone from its file, unless that is too large for the lane.
pub fn load(
    apex: NameRef<'_>,
    path: &Path,
    policy: &ZonePolicy,
    purpose: LoadPurpose<'_>,
    limits: ReadLimits,
    progress: &ReadProgress,
) -> Result<LoadedZone, TooLarge> {
    let job = ZoneLoad { apex, path, policy, purpose, progress, files: FilesRead::default() };
    let metadata = job.files.add(path);
    if let Ok(len) = metadata.as_ref().map(Metadata::len)
        && len >= limits.size_limit
    {
        return Err(TooLarge(len));
    }
    let loaded = without_panic(path, || job.load(metadata, limits.threads));
    Ok(LoadedZone { includes: job.files.includes(path), ..loaded })
}

/// The result of `load`. A bug in it must not end the thread: the zone would be loading for ever.
fn without_panic(path: &Path, load: impl FnOnce() -> LoadedZone) -> LoadedZone {
    catch_unwind(AssertUnwindSafe(load)).unwrap_or_else(|_| LoadedZone {
        zone: None,
        is_changed: true,
        file_serial: None,
        change: None,
        findings: failed(path, "zonda panicked while loading it".into(), REPORT).findings,
        fingerprint: Fingerprint::NONE,
        includes: Box::default(),
    })
}

/// Refuses a zone that may not be published; a finding says why. The external command comes later, as it may take long.
fn check_acceptance(base: Option<&Zone>, read: &mut LoadOutcome, policy: &ZonePolicy) {
    let Some(version) = &read.zone else { return };
    match acceptance::check(CandidateVersion { base, version, origin: VersionOrigin::Whole }, policy) {
        Ok(remarks) => read.findings.extend(remarks.iter().map(|remark| warning(read.files[0].clone(), remark))),
        Err(rejection) => {
            read.findings.insert(0, refusal(read.files[0].clone(), &rejection));
            read.zone = None;
        }
    }
}

/// Sets the serial by the policy of the zone.
fn settle_serial(previous: &Zone, read: &mut LoadOutcome, policy: &ZonePolicy) {
    let now_s = clock::real().as_secs();
    let rules = SerialRules { previous, policy: policy.serial_policy, now_s, check_mode: policy.checks };
    if read.settle_serial(&rules) {
        read.findings.push(warning(read.files[0].clone(), &Remark::StaleDigest));
    }
}

/// The finding for what is said about a zone that may be published.
fn warning(file: Arc<str>, remark: &Remark) -> Finding {
    finding(Severity::Warning, file, format!("the zone: {remark}"))
}

/// The finding for a zone that may not be published.
pub fn refusal(file: Arc<str>, rejection: &Rejection) -> Finding {
    finding(Severity::Error, file, format!("the zone is refused: {rejection}"))
}

fn finding(severity: Severity, file: Arc<str>, message: String) -> Finding {
    Finding { severity, position: FilePosition::of_file(&file), message, help: String::new() }
}

/// The change from one version to the next, for IXFR. Versions that share nothing are only compared if they are small: a big zone is
/// built anew if much of it has changed, and then its secondaries had better transfer it whole.
fn change_between(old: &Zone, new: &Zone, is_shared: bool) -> Option<EncodedChange> {
    const SMALL: usize = 1 << 20;
    (is_shared || old.heap_size() + new.heap_size() <= SMALL).then(|| EncodedChange::between(old, new))
}

const REPORT: &str = "this is a bug; please report it with the zone";

/// The arguments of [`load`], and the files read.
struct ZoneLoad<'j> {
    apex: NameRef<'j>,
    path: &'j Path,
    policy: &'j ZonePolicy,
    purpose: LoadPurpose<'j>,
    progress: &'j ReadProgress,
    files: FilesRead,
}

impl ZoneLoad<'_> {
    /// Reads the zone, checks it and sets its serial. The caller adds the included files.
    fn load(&self, metadata: io::Result<Metadata>, threads: usize) -> LoadedZone {
        let base = self.purpose.base();
        let mut read = self.read(metadata, threads);
        let file_serial = read.zone.as_ref().map(Zone::serial);
        if read.is_changed() {
            check_acceptance(base, &mut read, self.policy);
            base.into_iter().for_each(|base| settle_serial(base, &mut read, self.policy));
        }
        let is_changed = read.is_changed();
        // A zone that failed is read again by the next reload even if its files are unchanged.
        let fingerprint = if read.zone.is_some() { self.files.fingerprint() } else { Fingerprint::NONE };
        let change = read
            .zone
            .as_ref()
            .filter(|_| is_changed)
            .and_then(|zone| change_between(base?, zone, read.difference.is_some()));
        let includes = Box::default();
        LoadedZone { zone: read.zone, is_changed, file_serial, change, findings: read.findings, fingerprint, includes }
    }

    fn read(&self, metadata: io::Result<Metadata>, threads: usize) -> LoadOutcome {
        let text = match self.open(metadata) {
            Ok(text) => text,
            Err(ErrorText { message, help }) => return failed(self.path, message, help),
        };
        let (previous, thorough, checks) = match self.purpose {
            LoadPurpose::Serve(previous) => (previous, false, self.policy.checks),
            LoadPurpose::Check(checks) => (None, true, checks),
        };
        let ZoneLimits { max_records, max_generated, nsec3_max_iterations, .. } = self.policy.limits;
        let folders = self.folders();
        let options = text::ParseOptions {
            apex: self.apex,
            threads,
            include: &|written, place| self.include(written, place, &folders),
            progress: &|octets| self.progress.count_octets(octets),
            error_limit: ERROR_LIMIT,
            check_mode: checks,
            limits: RecordLimits {
                records: limit_or_unlimited(max_records),
                generated: limit_or_unlimited(max_generated),
            },
        };
        let text = WatchedText { text, progress: self.progress };
        let source = text::Source { name: path_text(self.path).into(), bytes: &text };
        let options = LoadOptions { text: options, previous, thorough, nsec3_max_iterations };
        zone::load::load(source, &options)
    }

    /// Opens the zone file. To be served it must be a regular file: a pipe would block.
    fn open(&self, metadata: io::Result<Metadata>) -> Result<Box<dyn ReadAt>, ErrorText> {
        let unreadable = |error: io::Error| {
            let help = help_to_read(&error);
            ErrorText { message: format!("the zone file cannot be read: {error}"), help }
        };
        if let Some(file) = metadata.and_then(|metadata| ZoneFile::open(self.path, &metadata)).map_err(unreadable)? {
            return Ok(Box::new(file));
        }
        match self.purpose {
            LoadPurpose::Serve(_) => {
                let help = "write the zone to a regular file, as reloads read it again";
                Err(ErrorText { message: "the zone file is not a regular file".into(), help })
            }
            LoadPurpose::Check(_) => input::read(self.path).map(|text| Box::new(text) as _).map_err(unreadable),
        }
    }

    /// The folders that included files may be in.
    fn folders(&self) -> IncludeFolders<'_> {
        let own = self.path.parent().unwrap_or(Path::new(""));
        let others = self.policy.config_folder.iter().chain(&self.policy.include_paths);
        IncludeFolders::new(std::iter::once(own).chain(others.map(PathBuf::as_path)))
    }

    /// Opens an included file; its path is relative to the folder of the including file.
    fn include(
        &self,
        written: &Path,
        place: &FilePosition,
        folders: &IncludeFolders<'_>,
    ) -> Result<IncludedFile, ErrorText> {
        let includer = self.files.path_of(&place.file);
        let path = includer.parent().unwrap_or(Path::new("")).join(written);
        // Why it has none is reported as it is opened.
        _ = self.files.add(&path);
        folders.open(&path)
    }
}

/// The text of a zone file; records when all text is read, included files too.
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

/// A configured limit, where 0 means unlimited.
fn limit_or_unlimited(limit: u32) -> u64 {
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
        io::ErrorKind::NotFound => "create the file, or correct its path in the configuration",
        io::ErrorKind::PermissionDenied => "make it readable for the user that zonda runs as",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever panics after the text was read, too.
    #[test]
    fn a_load_that_panics_refuses_the_zone() {
        let loaded = without_panic(Path::new("file"), || panic!("a test"));
        assert!(loaded.zone.is_none() && loaded.fingerprint == Fingerprint::NONE);
        let error = loaded.findings.first().expect("an error").to_string();
        assert!(error.starts_with("file") && error.contains("zonda panicked while loading it"), "{error}");
    }
}
