//! The counters of the listeners: each thread has its own, and readers sum them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A counter that one thread writes and any may read: adding takes no locked instruction.
#[derive(Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds; to be called by one thread only.
    #[inline]
    pub(super) fn add(&self, count: usize) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(count as u64), Ordering::Relaxed);
    }

    fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub(super) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The name and the meaning of a counter.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// The name, as in [`CounterTotals`].
    pub name: &'static str,
    /// One sentence.
    pub help: &'static str,
}

/// The table of counters: each row makes a counter, its sum and its documentation. `copied` ones are counted by the answering
/// code.
macro_rules! counters {
    (
        counted { $($(#[doc = $help:literal])+ $name:ident,)+ }
        copied { $($(#[doc = $copied_help:literal])+ $copied:ident,)+ }
    ) => {
        /// The counters of one thread, alone on their cache lines.
        #[derive(Default)]
        #[repr(align(128))]
        pub struct ListenerCounters {
            $($(#[doc = $help])+ pub $name: Counter,)+
            $($(#[doc = $copied_help])+ pub $copied: Counter,)+
            /// Answers by response code; BADVERS has its own count.
            pub rcodes: [Counter; 16],
        }

        /// Sums over threads.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct CounterTotals {
            $($(#[doc = $help])+ pub $name: u64,)+
            $($(#[doc = $copied_help])+ pub $copied: u64,)+
            /// Answers by response code; BADVERS has its own count.
            pub rcodes: [u64; 16],
        }

        /// All counters except [`CounterTotals::rcodes`], in the order of [`CounterTotals::values`].
        pub const METRICS: &[Metric] = &[
            $(Metric { name: stringify!($name), help: concat!($($help),+).trim_ascii() },)+
            $(Metric { name: stringify!($copied), help: concat!($($copied_help),+).trim_ascii() },)+
        ];

        impl ListenerCounters {
            /// Copies the counters of this thread's answering code.
            pub(super) fn copy_from(&self, counted: &answer::Counters) {
                $(self.$copied.set(counted.$copied);)+
                for (counter, count) in self.rcodes.iter().zip(counted.rcodes) {
                    counter.set(count);
                }
            }
        }

        impl CounterTotals {
            /// The sums in the order of [`METRICS`].
            pub fn values(&self) -> [u64; METRICS.len()] {
                [$(self.$name,)+ $(self.$copied,)+]
            }

            fn count(&mut self, counters: &ListenerCounters) {
                $(self.$name += counters.$name.value();)+
                $(self.$copied += counters.$copied.value();)+
                for (total, counter) in self.rcodes.iter_mut().zip(&counters.rcodes) {
                    *total += counter.value();
                }
            }
        }
    };
}

counters! {
    counted {
        /// Messages received.
        queries,
        /// Octets received in messages, without the length prefix of TCP.
        query_octets,
        /// Answers handed to the kernel, transfers aside.
        answers,
        /// Octets of those answers.
        answer_octets,
        /// Messages that were not answered, on purpose.
        dropped,
        /// Datagrams longer than any query.
        oversized,
        /// Answers that the kernel would not take.
        unsent,
        /// Queries whose handling broke down: each is a bug.
        panics,
        /// Connections accepted.
        connections,
        /// Connections closed at once because their client has too many of them or of transfers.
        refused,
        /// Connections closed to make room for another one, for its descriptor or for data.
        evicted,
        /// Connections closed because they made no progress for the idle timeout.
        expired,
        /// Times that there were no descriptors for a waiting connection and none to close.
        starved,
        /// Zone transfers begun.
        transfers,
        /// Octets of zone transfers, without the length prefixes.
        transfer_octets,
    }
    copied {
        /// Messages that were no queries: too short, or answers themselves.
        ignored,
        /// Answers with the TC bit because they did not fit.
        truncated,
        /// Answers to an unknown version of EDNS (BADVERS).
        bad_versions,
        /// Answers left out because their network had too many.
        rate_limited,
        /// Answers cut to the TC bit because their network had too many.
        slipped,
    }
}

impl ListenerCounters {
    /// Counts an answer.
    #[inline]
    pub(super) fn answered(&self, len: usize) {
        self.answers.add(1);
        self.answer_octets.add(len);
    }
}

impl CounterTotals {
    /// The sum over threads.
    pub fn of(counters: &[Arc<ListenerCounters>]) -> CounterTotals {
        let mut totals = CounterTotals::default();
        counters.iter().for_each(|counters| totals.count(counters));
        totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_sums_and_the_table_names_them() {
        let counters = [Arc::new(ListenerCounters::default()), Arc::new(ListenerCounters::default())];
        for (counters, len) in counters.iter().zip([5, 7]) {
            counters.answered(len);
            for slipped in [1, 3] {
                let mut rcodes = [0; 16];
                rcodes[3] = slipped;
                counters.copy_from(&answer::Counters { slipped, rcodes, ..Default::default() });
            }
        }
        let totals = CounterTotals::of(&counters);
        assert_eq!((totals.answers, totals.answer_octets, totals.slipped, totals.rcodes[3]), (2, 12, 6, 6));
        for (name, sum) in [("answer_octets", 12), ("slipped", 6)] {
            let row = METRICS.iter().position(|metric| metric.name == name).expect("in the table");
            assert_eq!(totals.values()[row], sum);
        }
        assert!(METRICS.iter().all(|metric| metric.help.ends_with('.')));
    }
}
