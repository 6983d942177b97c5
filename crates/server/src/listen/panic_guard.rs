//! A panic while a query is answered costs that query, not the server: it is caught, logged and counted.

use crate::rate_limited_log::RateLimitedLog;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::sync::{Mutex, Once, PoisonError};
use std::time::Duration;

thread_local! {
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`; `None` if it panicked.
///
/// What `work` leaves half changed must not matter later; buffers that every query overwrites are fine.
#[inline]
pub(super) fn catch_panic<T>(work: impl FnOnce() -> T) -> Option<T> {
    // A guard may be within another one.
    let was_guarded = IS_GUARDED.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(work)).ok();
    IS_GUARDED.set(was_guarded);
    result
}

/// Installs a hook that logs guarded panics, at most one per second as the network can cause them; others go to the previous
/// hook.
pub(super) fn log_panics() {
    static INSTALLED: Once = Once::new();
    static LOG: Mutex<RateLimitedLog> = Mutex::new(RateLimitedLog::new(1, Duration::from_secs(1)));
    INSTALLED.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !IS_GUARDED.get() {
                return previous(info);
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
    tracing::error!(
        place,
        message,
        left_out,
        "zonda panicked while answering a query, which gets no response; please report this bug"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_caught() {
        log_panics();
        assert_eq!(catch_panic(|| 1), Some(1));
        assert_eq!(catch_panic(|| -> u8 { panic!("a test") }), None);
        assert_eq!(catch_panic(|| 2), Some(2));
    }
}
