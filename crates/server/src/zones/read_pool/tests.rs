//! Reads that end when the test lets them.

use std::sync::mpsc::{Receiver, channel};

use super::*;

const SOON: Duration = Duration::from_secs(10);

/// A file of this length whose read blocks until the sender of the channel is dropped.
struct Fake {
    len: u64,
    end: Mutex<Receiver<()>>,
}

/// The results are the files with the number of threads that read them.
fn pool(threads: usize) -> (ReadPool<Fake, usize>, Receiver<(String, usize)>) {
    let (sender, results) = channel();
    let read = |task: &ReadTask<Fake>, limits: ReadLimits| {
        if task.job.len >= limits.size_limit {
            return Err(TooLarge(task.job.len));
        }
        _ = task.job.end.lock().unwrap_or_else(PoisonError::into_inner).recv();
        Ok(limits.threads)
    };
    let done = move |finished: Vec<(Arc<ReadTask<Fake>>, usize)>| {
        finished.into_iter().for_each(|(task, threads)| _ = sender.send((task.file.display().to_string(), threads)));
    };
    (ReadPool::new(threads, read, done), results)
}

/// Submits a file; its read ends when the returned sender is dropped.
fn submit(pool: &ReadPool<Fake, usize>, file: &str, len: u64) -> Sender {
    let (end, receiver) = channel();
    pool.submit(Arc::new(ReadTask::new(file.into(), Fake { len, end: Mutex::new(receiver) })));
    end
}

type Sender = std::sync::mpsc::Sender<()>;

fn next(results: &Receiver<(String, usize)>) -> Option<(String, usize)> {
    results.recv_timeout(SOON).ok()
}

fn threads(pool: &ReadPool<Fake, usize>) -> usize {
    pool.shared.lock().lanes.thread_count()
}

fn wait_until(condition: impl Fn() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < SOON, "too long");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits for a status of a pool whose clock is ahead.
fn check_until(pool: &ReadPool<Fake, usize>, condition: impl Fn(&PoolStatus<Fake>) -> bool) {
    wait_until(|| condition(&pool.check_progress(Instant::now() + 2 * STUCK_AFTER)));
}

#[test]
fn a_large_file_has_all_threads_and_delays_no_smaller_one() {
    let (pool, results) = pool(1);
    let huge = submit(&pool, "huge", 1 << 30);
    let huge_too = submit(&pool, "huge too", 2 << 30);
    let big = submit(&pool, "big", 5 << 20);
    drop(submit(&pool, "small", 1));
    assert_eq!(next(&results), Some(("small".into(), 1)));
    drop(huge_too);
    drop(big);
    assert_eq!(next(&results), Some(("big".into(), 1)));
    drop(huge);
    assert_eq!((next(&results), next(&results)), (Some(("huge".into(), 1)), Some(("huge too".into(), 1))));
    let (pool, results) = self::pool(8);
    drop(submit(&pool, "big", 5 << 20));
    assert_eq!(next(&results), Some(("big".into(), 8)));
}

#[test]
fn many_small_files_are_read_by_few_threads() {
    let (pool, results) = pool(3);
    (0..1000).for_each(|number| drop(submit(&pool, &number.to_string(), 1)));
    let mut files: Vec<u32> = (0..1000).filter_map(|_| next(&results)?.0.parse().ok()).collect();
    files.sort_unstable();
    assert!(files.into_iter().eq(0..1000));
    assert!(threads(&pool) <= 3);
    wait_until(|| threads(&pool) == 0);
}

#[test]
fn reads_that_block_are_replaced_and_bounded() {
    let (pool, results) = pool(2);
    let hung: Vec<_> = (0..50).map(|number| submit(&pool, &format!("hung/{number}"), 1)).collect();
    // Tasks that wait for the blocked ones are stuck, too.
    check_until(&pool, |status| status.stuck == 50);
    assert!((MAX_STALLED / 2..MAX_STALLED / 2 + 2).contains(&threads(&pool)), "{}", threads(&pool));
    drop(submit(&pool, "other/file", 1));
    assert_eq!(next(&results), Some(("other/file".into(), 1)), "files of another directory are read");
    drop(hung);
    assert_eq!((0..50).filter_map(|_| next(&results)).count(), 50);
    // Threads that are no longer needed end.
    wait_until(|| threads(&pool) <= 2);
}

#[test]
fn a_read_that_makes_progress_is_not_stuck() {
    let (pool, results) = pool(1);
    let (end, receiver) = channel::<()>();
    let task = Arc::new(ReadTask::new("file".into(), Fake { len: 1, end: Mutex::new(receiver) }));
    pool.submit(task.clone());
    check_until(&pool, |status| status.newly_stuck.len() == 1);
    task.progress.count_octets(1);
    assert_eq!((pool.check_progress(Instant::now()).stuck, task.is_stuck()), (0, false));
    task.progress.end_reading();
    let status = pool.check_progress(Instant::now() + 2 * STUCK_AFTER);
    assert_eq!((status.stuck, status.octets), (0, 1), "what follows the reading does not block");
    drop(end);
    assert!(next(&results).is_some());
}

#[test]
fn a_read_that_blocks_keeps_no_result_back() {
    let (pool, results) = pool(1);
    let (end, receiver) = channel::<()>();
    let fake = |end| Arc::new(ReadTask::new("file".into(), Fake { len: 1, end: Mutex::new(end) }));
    let first = submit(&pool, "first", 1);
    pool.submit(fake(receiver));
    drop(submit(&pool, "last", 1));
    drop(first);
    wait_until(|| !pool.shared.lock().finished.is_empty());
    assert!(results.try_recv().is_err(), "more files wait");
    pool.check_progress(Instant::now());
    assert_eq!(next(&results), Some(("first".into(), 1)));
    drop(end);
    assert_eq!((next(&results), next(&results)), (Some(("file".into(), 1)), Some(("last".into(), 1))));
}
