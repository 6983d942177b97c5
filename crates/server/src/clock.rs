//! The clocks of the writer and of what it calls. In tests a simulation can set them.

use std::time::{Duration, Instant};

/// The monotonic clock.
pub(crate) fn now() -> Instant {
    #[cfg(test)]
    if let Some((now, _)) = simulated::get() {
        return now;
    }
    Instant::now()
}

/// Time since 1970-01-01 UTC, coarse.
pub(crate) fn real() -> Duration {
    #[cfg(test)]
    if let Some((_, real)) = simulated::get() {
        return real;
    }
    netio::clock::real()
}

/// Seconds since 1970-01-01 UTC.
pub(crate) fn real_s() -> u32 {
    real().as_secs() as u32
}

/// Clocks of the calling thread that stand still until they are set.
#[cfg(test)]
pub(crate) mod simulated {
    use std::cell::Cell;
    use std::time::{Duration, Instant};

    thread_local! {
        static CLOCKS: Cell<Option<(Instant, Duration)>> = const { Cell::new(None) };
    }

    /// Sets the clocks; `None` makes them real again.
    pub fn set(clocks: Option<(Instant, Duration)>) {
        CLOCKS.set(clocks);
    }

    pub fn get() -> Option<(Instant, Duration)> {
        CLOCKS.get()
    }
}
