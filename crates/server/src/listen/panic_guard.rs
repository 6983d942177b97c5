//! A panic costs one query, not the server: it is caught, logged and counted, and the thread goes on.

use super::rate_limited_log::RateLimitedLog;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::sync::{Mutex, Once, PoisonError};
use std::time::Duration;

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`; `None` when it panicked.
///
/// What it was working on must be made anew or not depend on its last use: buffers that every query fills again do not.
#[inline]
pub(super) fn catch_panic<T>(work: impl FnOnce() -> T) -> Option<T> {
    GUARDED.set(true);
    let result = panic::catch_unwind(AssertUnwindSafe(work)).ok();
    GUARDED.set(false);
    result
}

/// From now on guarded panics go to the log, at most one a second: a query that causes one can be sent by the million.
/// All others go where they went before.
pub(super) fn log_panics() {
    static INSTALLED: Once = Once::new();
    static LOG: Mutex<RateLimitedLog> = Mutex::new(RateLimitedLog::new(1, Duration::from_secs(1)));
    INSTALLED.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !GUARDED.get() {
                return before(info);
            }
            if let Some(left_out) = LOG.lock().unwrap_or_else(PoisonError::into_inner).permit() {
                log(info, left_out);
            }
        }));
    });
}

fn log(info: &PanicHookInfo<'_>, left_out: u64) {
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    let payload = info.payload();
    let message =
        payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    tracing::error!(place, message, left_out, "a query broke its handler; it is left unanswered, please report this");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_caught_and_work_goes_on() {
        log_panics();
        assert_eq!(catch_panic(|| 1), Some(1));
        assert_eq!(catch_panic(|| -> u8 { panic!("a test") }), None);
        assert_eq!(catch_panic(|| 2), Some(2));
    }
}
