//! The queues of a read pool, its threads by lane, and the reads in progress.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use super::{MAX_STALLED, PoolStatus, ReadTask, STALLED_AFTER, STUCK_AFTER};

/// Each lane has the files below this many octets that are too large for the lane before it.
pub const SIZE_LIMITS: [u64; LANE_COUNT] = [4 << 20, 32 << 20, 256 << 20, u64::MAX];
pub const LANE_COUNT: usize = 4;

/// With this many stalled reads no file is begun in their directories: a hung mount blocks all its files, and the rest of
/// [`MAX_STALLED`] is for others.
const MAX_STALLED_ALIKE: usize = MAX_STALLED / 2;

/// All lanes and the reads in progress.
pub struct Lanes<J> {
    /// Files read at once in the first lane.
    threads: usize,
    lanes: [Lane<J>; LANE_COUNT],
    active: Vec<ActiveRead<J>>,
}

struct Lane<J> {
    waiting: VecDeque<Arc<ReadTask<J>>>,
    /// Files in the directories of stalled reads: begun when no other file waits.
    held_back: VecDeque<Arc<ReadTask<J>>>,
    threads: usize,
    /// Those of the threads that wait for a task.
    idle: usize,
}

impl<J> Default for Lane<J> {
    fn default() -> Lane<J> {
        Lane { waiting: VecDeque::new(), held_back: VecDeque::new(), threads: 0, idle: 0 }
    }
}

/// A read that a thread is in.
struct ActiveRead<J> {
    task: Arc<ReadTask<J>>,
    lane: usize,
    octets: u64,
    last_progress: Instant,
    is_stalled: bool,
}

impl<J> Lanes<J> {
    /// Empty lanes, of which the first reads `threads` files at once.
    pub fn new(threads: usize) -> Lanes<J> {
        Lanes { threads, lanes: SIZE_LIMITS.map(|_| Lane::default()), active: Vec::new() }
    }

    //----------- threads ------------------------------------------------------

    /// The threads of a lane whose reads are not stalled.
    fn running_threads(&self, lane: usize) -> usize {
        self.lanes[lane].threads - self.stalled().filter(|read| read.lane == lane).count()
    }

    /// How many files are read at once in a lane.
    fn capacity(&self, lane: usize) -> usize {
        if lane == 0 { self.threads } else { 1 }
    }

    /// Whether more tasks wait than threads for them, and there is room for one more.
    pub fn needs_thread(&self, lane: usize) -> bool {
        let Lane { waiting, held_back, idle, .. } = &self.lanes[lane];
        waiting.len() + held_back.len() > *idle && self.running_threads(lane) < self.capacity(lane)
    }

    /// Whether a stalled read went on after its thread was replaced.
    pub fn has_surplus_thread(&self, lane: usize) -> bool {
        self.running_threads(lane) > self.capacity(lane)
    }

    pub fn thread_started(&mut self, lane: usize) {
        self.lanes[lane].threads += 1;
    }

    pub fn thread_ended(&mut self, lane: usize) {
        self.lanes[lane].threads -= 1;
    }

    /// Whether a thread of this lane waits for a task.
    pub fn has_idle_thread(&self, lane: usize) -> bool {
        self.lanes[lane].idle > 0
    }

    /// A thread of this lane begins or ends to wait for a task.
    pub fn set_idle(&mut self, lane: usize, is_idle: bool) {
        let lane = &mut self.lanes[lane];
        lane.idle = if is_idle { lane.idle + 1 } else { lane.idle - 1 };
    }

    #[cfg(test)]
    pub fn thread_count(&self) -> usize {
        self.lanes.iter().map(|lane| lane.threads).sum()
    }

    //----------- tasks --------------------------------------------------------

    pub fn push(&mut self, lane: usize, task: Arc<ReadTask<J>>) {
        self.lanes[lane].waiting.push_back(task);
    }

    /// Whether a thread of this lane has something to begin.
    pub fn has_work(&self, lane: usize) -> bool {
        self.may_begin() && !self.lanes[lane].waiting.is_empty()
            || self.may_begin_held_back() && !self.lanes[lane].held_back.is_empty()
    }

    fn may_begin(&self) -> bool {
        self.stalled().count() < MAX_STALLED
    }

    fn may_begin_held_back(&self) -> bool {
        self.stalled().count() < MAX_STALLED_ALIKE
    }

    fn stalled(&self) -> impl Iterator<Item = &ActiveRead<J>> {
        self.active.iter().filter(|read| read.is_stalled)
    }

    /// Begins the next task of a lane.
    pub fn begin(&mut self, lane: usize) -> Option<Arc<ReadTask<J>>> {
        let waiting = if self.may_begin() { self.next_waiting(lane) } else { None };
        let task = match waiting {
            None if self.may_begin_held_back() => self.lanes[lane].held_back.pop_front(),
            waiting => waiting,
        }?;
        task.set_stuck(false);
        let (octets, last_progress) = (task.progress.octets(), Instant::now());
        self.active.push(ActiveRead { task: task.clone(), lane, octets, last_progress, is_stalled: false });
        Some(task)
    }

    /// The next file whose directory has no stalled read; holds back those on the way to it.
    fn next_waiting(&mut self, lane: usize) -> Option<Arc<ReadTask<J>>> {
        while let Some(task) = self.lanes[lane].waiting.pop_front() {
            if self.stalled().all(|stalled| stalled.task.file.parent() != task.file.parent()) {
                return Some(task);
            }
            self.lanes[lane].held_back.push_back(task);
        }
        None
    }

    /// Ends a task that was begun.
    pub fn end(&mut self, task: &Arc<ReadTask<J>>) {
        let index = self.active.iter().position(|read| Arc::ptr_eq(&read.task, task));
        let read = self.active.swap_remove(index.expect("a task is active from begin to end"));
        if read.is_stalled {
            self.release_held_back();
        }
    }

    /// A stalled read goes on: others of its directory may, too.
    fn release_held_back(&mut self) {
        for lane in &mut self.lanes {
            lane.held_back.iter().for_each(|task| _ = task.set_stuck(false));
            lane.waiting.append(&mut lane.held_back);
        }
    }

    //----------- progress -----------------------------------------------------

    /// Finds the reads that are stalled or stuck, and the tasks that wait for them.
    pub fn check_progress(&mut self, now: Instant) -> PoolStatus<J> {
        let stalled_before = self.stalled().count();
        self.active.iter_mut().for_each(|read| read.check_progress(now));
        if self.stalled().count() < stalled_before {
            self.release_held_back();
        }
        let newly_stuck = self.active.iter().filter(|read| {
            let is_stuck = read.is_stalled && now.saturating_duration_since(read.last_progress) >= STUCK_AFTER;
            !read.task.set_stuck(is_stuck) && is_stuck
        });
        let newly_stuck = newly_stuck.map(|read| read.task.clone()).collect();
        let (may_begin, may_begin_held_back) = (self.may_begin(), self.may_begin_held_back());
        for lane in &self.lanes {
            lane.waiting.iter().for_each(|task| _ = task.set_stuck(!may_begin));
            lane.held_back.iter().for_each(|task| _ = task.set_stuck(!may_begin_held_back));
        }
        let queued = self.lanes.iter().flat_map(|lane| lane.waiting.iter().chain(&lane.held_back));
        let tasks = self.active.iter().map(|read| &read.task).chain(queued);
        let stuck = tasks.filter(|task| task.is_stuck()).count();
        let octets = self.active.iter().map(|read| read.task.progress.octets()).sum();
        PoolStatus { newly_stuck, stuck, octets }
    }
}

impl<J> ActiveRead<J> {
    fn check_progress(&mut self, now: Instant) {
        let octets = self.task.progress.octets();
        // Once all text is read, a large zone is built for a long time, which blocks on nothing.
        if octets != self.octets || self.task.progress.is_read() {
            (self.octets, self.last_progress) = (octets, now);
        }
        self.is_stalled = now.saturating_duration_since(self.last_progress) >= STALLED_AFTER;
    }
}
