//! Spreads the loading of zones over threads: small zones side by side, then each big one with all threads.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;

/// Finished jobs that may wait for the one who takes them: enough that nobody waits long, few enough to stay small.
const QUEUE_LEN: usize = 64;

/// How a job is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Beside others, on one thread. It may decline: then it gets a turn alone.
    Beside,
    /// Alone, with this many threads to use.
    Alone(usize),
}

/// Calls `job` for every number below `count` and `take` with each result, on the calling thread, in no set order.
///
/// `job` gives `None` to decline [`Turn::Beside`]; it must not decline [`Turn::Alone`].
pub fn spread<T: Send>(
    count: usize,
    threads: usize,
    job: impl Fn(usize, Turn) -> Option<T> + Sync,
    mut take: impl FnMut(usize, T),
) {
    let (next, declined) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        let (sender, receiver) = sync_channel(QUEUE_LEN);
        for _ in 0..threads.min(count) {
            let sender = sender.clone();
            scope.spawn(|| {
                let sender = sender;
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        break;
                    }
                    match job(number, Turn::Beside) {
                        Some(result) => sender.send((number, result)).expect("the receiver outlives the threads"),
                        None => declined.lock().unwrap_or_else(PoisonError::into_inner).push(number),
                    }
                }
            });
        }
        drop(sender);
        receiver.iter().for_each(|(number, result)| take(number, result));
    });
    for number in declined.into_inner().unwrap_or_else(PoisonError::into_inner) {
        take(number, job(number, Turn::Alone(threads)).expect("a turn alone is not declined"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_is_done_once() {
        for (count, threads) in [(0, 4), (1, 4), (1000, 3), (5, 1)] {
            let mut results = vec![0; count];
            let job = |number, turn| match turn {
                Turn::Beside if number % 10 == 3 => None,
                Turn::Beside => Some(1),
                Turn::Alone(given) => (given == threads).then_some(2),
            };
            spread(count, threads, job, |number, result| results[number] += result);
            let expected: Vec<i32> = (0..count).map(|number| if number % 10 == 3 { 2 } else { 1 }).collect();
            assert_eq!(results, expected);
        }
    }
}
