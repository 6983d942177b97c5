//! A disk in memory that loses or tears everything that was not synced, and fails on demand.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use server::storage::disk::{Disk, DiskFile};

/// A pseudo-random sequence.
#[derive(Clone)]
pub struct Random(fastrand::Rng);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(fastrand::Rng::with_seed(seed))
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.u64(..bound)
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// The unit in which a write is torn, in octets.
const SECTOR_LEN: usize = 512;

/// A clone is the same disk.
#[derive(Clone, Default)]
pub struct SimulatedDisk(Arc<Mutex<DiskState>>);

#[derive(Default)]
struct DiskState {
    /// What processes see, and what a power failure is sure to leave.
    visible: BTreeMap<String, usize>,
    durable: BTreeMap<String, usize>,
    files: Vec<FileState>,
    /// After this many more write operations all fail, the last one half done.
    crash_in: Option<u64>,
    /// The next sync fails.
    fails_sync: bool,
    /// How many reads fail.
    failing_reads: u32,
    /// A file, and where it cannot be read.
    unreadable: Option<(usize, Range<usize>)>,
    /// All syncs fail.
    fails_syncs: bool,
    /// Writes fail: the disk is full.
    is_full: bool,
    /// How much may still be written, if that is known.
    free_octets: Option<u64>,
    /// The folder is not in its place.
    is_moved: bool,
    /// Syncs from this line do nothing.
    ignored: Option<SyncSite>,
    /// The lines that synced.
    sites: BTreeMap<SyncSite, u64>,
}

/// File and line of a call.
pub type SyncSite = (&'static str, u32);

#[derive(Default)]
struct FileState {
    visible: Vec<u8>,
    durable: Vec<u8>,
    /// What was done since the last sync.
    writes: Vec<Write>,
}

#[derive(Clone)]
enum Write {
    /// At this offset.
    Octets(usize, Vec<u8>),
    /// The new length.
    Truncation(usize),
}

pub struct SimulatedFile {
    disk: SimulatedDisk,
    index: usize,
}

impl SimulatedDisk {
    fn lock(&self) -> MutexGuard<'_, DiskState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// After `count` more operations that write, everything fails.
    pub fn crash_in(&self, count: Option<u64>) {
        self.lock().crash_in = count;
    }

    pub fn has_crashed(&self) -> bool {
        self.lock().crash_in == Some(0)
    }

    /// The next sync fails, and what it should have made durable is lost.
    pub fn fail_next_sync(&self) {
        self.lock().fails_sync = true;
    }

    /// The next reads of files fail, so many of them.
    pub fn fail_reads(&self, count: u32) {
        self.lock().failing_reads = count;
    }

    /// A part of a file cannot be read from now on.
    pub fn set_unreadable(&self, name: &str, part: Range<usize>) {
        let mut state = self.lock();
        state.unreadable = state.visible.get(name).map(|index| (*index, part));
    }

    /// All syncs fail from now on, or none.
    pub fn set_failing(&self, fails: bool) {
        self.lock().fails_syncs = fails;
    }

    pub fn set_full(&self, is_full: bool) {
        self.lock().is_full = is_full;
    }

    /// What the disk says about its free space; writes succeed all the same.
    pub fn set_free(&self, octets: u64) {
        self.lock().free_octets = Some(octets);
    }

    pub fn set_moved(&self, is_moved: bool) {
        self.lock().is_moved = is_moved;
    }

    /// Syncs from this line do nothing from now on.
    pub fn ignore(&self, site: Option<SyncSite>) {
        self.lock().ignored = site;
    }

    /// The lines that synced, and how often.
    pub fn sites(&self) -> BTreeMap<SyncSite, u64> {
        self.lock().sites.clone()
    }

    /// The power fails: of what was not synced, some is lost, some is torn, some is there.
    pub fn lose_power(&self, random: &mut Random) {
        let mut state = self.lock();
        let state = &mut *state;
        (state.crash_in, state.fails_sync, state.fails_syncs, state.is_full) = (None, false, false, false);
        state.is_moved = false;
        let mut names: Vec<String> = state.visible.keys().chain(state.durable.keys()).cloned().collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let [now, then] = [&state.visible, &state.durable].map(|files| files.get(&name).copied());
            match if random.one_in(2) { now } else { then } {
                Some(index) => _ = state.durable.insert(name, index),
                None => _ = state.durable.remove(&name),
            }
        }
        state.visible = state.durable.clone();
        let keeps = random.below(3);
        for file in &mut state.files {
            for write in std::mem::take(&mut file.writes) {
                let (offset, bytes) = match write {
                    Write::Octets(offset, bytes) => (offset, bytes),
                    Write::Truncation(len) => {
                        if keeps == 2 || keeps == 1 && random.one_in(2) {
                            file.durable.truncate(len);
                        }
                        continue;
                    }
                };
                for (index, sector) in bytes.chunks(SECTOR_LEN).enumerate() {
                    if keeps == 0 || keeps == 1 && random.one_in(2) {
                        continue;
                    }
                    let part =
                        if random.one_in(8) { random.below(sector.len() as u64 + 1) as usize } else { sector.len() };
                    overwrite(&mut file.durable, offset + index * SECTOR_LEN, &sector[..part]);
                }
            }
            file.visible = file.durable.clone();
        }
    }

    /// Flips a bit of a file; false if it has no such octet.
    pub fn flip(&self, name: &str, offset: usize, mask: u8) -> bool {
        let mut state = self.lock();
        let Some(&index) = state.visible.get(name) else { return false };
        let file = &mut state.files[index];
        let Some(octet) = file.visible.get_mut(offset) else { return false };
        *octet ^= mask;
        file.durable = file.visible.clone();
        true
    }

    /// Cuts a file.
    pub fn truncate(&self, name: &str, len: usize) {
        let mut state = self.lock();
        let index = state.visible[name];
        state.files[index].visible.truncate(len);
        state.files[index].durable = state.files[index].visible.clone();
    }

    /// A copy that is a disk of its own.
    pub fn fork(&self) -> SimulatedDisk {
        let state = self.lock();
        let files = state.files.iter().map(|file| FileState {
            visible: file.visible.clone(),
            durable: file.durable.clone(),
            writes: file.writes.clone(),
        });
        let (visible, durable, files) = (state.visible.clone(), state.durable.clone(), files.collect());
        SimulatedDisk(Arc::new(Mutex::new(DiskState { visible, durable, files, ..DiskState::default() })))
    }

    pub fn file_len(&self, name: &str) -> usize {
        let state = self.lock();
        state.visible.get(name).map_or(0, |&index| state.files[index].visible.len())
    }

    /// Counts an operation that writes.
    fn step(state: &mut DiskState) -> io::Result<()> {
        if let Some(left) = &mut state.crash_in {
            *left = left.saturating_sub(1);
            if *left == 0 {
                return Err(io::Error::other("the machine has crashed"));
            }
        }
        Ok(())
    }

    /// Fails if a sync is to fail.
    fn fail_sync(state: &mut DiskState) -> io::Result<()> {
        match std::mem::take(&mut state.fails_sync) || state.fails_syncs {
            true => Err(io::Error::other("the disk has failed")),
            false => Ok(()),
        }
    }

    /// Whether a sync from this line is to be done.
    fn sync_step(state: &mut DiskState, site: &'static Location<'static>) -> io::Result<bool> {
        SimulatedDisk::step(state)?;
        let site = (site.file(), site.line());
        *state.sites.entry(site).or_default() += 1;
        Ok(state.ignored != Some(site))
    }
}

fn overwrite(content: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    if content.len() < offset + bytes.len() {
        content.resize(offset + bytes.len(), 0);
    }
    content[offset..offset + bytes.len()].copy_from_slice(bytes);
}

impl Disk for SimulatedDisk {
    type File = SimulatedFile;

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.lock().visible.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<SimulatedFile> {
        let mut state = self.lock();
        SimulatedDisk::step(&mut state)?;
        if state.visible.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let index = state.files.len();
        state.files.push(FileState::default());
        state.visible.insert(name.to_owned(), index);
        Ok(SimulatedFile { disk: self.clone(), index })
    }

    fn open(&self, name: &str) -> io::Result<SimulatedFile> {
        let index = *self.lock().visible.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(SimulatedFile { disk: self.clone(), index })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.lock();
        SimulatedDisk::step(&mut state)?;
        state.visible.remove(name).map(|_| ()).ok_or(io::ErrorKind::NotFound.into())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.lock();
        SimulatedDisk::step(&mut state)?;
        let index = state.visible.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.visible.insert(to.to_owned(), index);
        Ok(())
    }

    fn has(&self, name: &str, file: &SimulatedFile) -> bool {
        self.lock().visible.get(name) == Some(&file.index)
    }

    fn free_octets(&self) -> io::Result<u64> {
        self.lock().free_octets.ok_or(io::ErrorKind::Unsupported.into())
    }

    #[track_caller]
    fn sync_directory(&self) -> io::Result<()> {
        let mut state = self.lock();
        if !SimulatedDisk::sync_step(&mut state, Location::caller())? {
            return Ok(());
        }
        SimulatedDisk::fail_sync(&mut state)?;
        state.durable = state.visible.clone();
        Ok(())
    }

    fn check_place(&self) -> io::Result<()> {
        if self.lock().is_moved { Err(io::ErrorKind::NotFound.into()) } else { Ok(()) }
    }
}

impl DiskFile for SimulatedFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.disk.lock().files[self.index].visible.len() as u64)
    }

    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.disk.lock();
        let is_unreadable = state.unreadable.as_ref().is_some_and(|(index, part)| {
            *index == self.index && part.start < offset as usize + out.len() && offset < part.end as u64
        });
        if is_unreadable || state.failing_reads > 0 {
            state.failing_reads = state.failing_reads.saturating_sub(1);
            const EIO: i32 = 5;
            return Err(io::Error::from_raw_os_error(EIO));
        }
        let rest = state.files[self.index].visible.get(offset as usize..).unwrap_or_default();
        let len = rest.len().min(out.len());
        out[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.disk.lock();
        let stepped = SimulatedDisk::step(&mut state);
        let is_full = state.is_full;
        let part = if stepped.is_err() || is_full { &bytes[..bytes.len() / 2] } else { bytes };
        let file = &mut state.files[self.index];
        overwrite(&mut file.visible, offset as usize, part);
        file.writes.push(Write::Octets(offset as usize, part.to_vec()));
        stepped?;
        if is_full { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let mut state = self.disk.lock();
        SimulatedDisk::step(&mut state)?;
        let file = &mut state.files[self.index];
        file.visible.truncate(len as usize);
        file.writes.push(Write::Truncation(len as usize));
        Ok(())
    }

    #[track_caller]
    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.lock();
        if !SimulatedDisk::sync_step(&mut state, Location::caller())? {
            return Ok(());
        }
        // As Linux does it: what could not be written is dropped, still seen by readers, and the next sync succeeds.
        let writes = std::mem::take(&mut state.files[self.index].writes);
        SimulatedDisk::fail_sync(&mut state)?;
        if !state.visible.values().any(|index| *index == self.index) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let file = &mut state.files[self.index];
        for write in writes {
            match write {
                Write::Octets(offset, bytes) => overwrite(&mut file.durable, offset, &bytes),
                Write::Truncation(len) => file.durable.truncate(len),
            }
        }
        Ok(())
    }
}
