//! What the listeners count: each thread for itself, summed by whoever wants to know.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number that one thread writes and any may read: adding is a plain load and store, no locked instruction.
#[derive(Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds; only ever called by the one thread that the counter belongs to.
    #[inline]
    pub(super) fn add(&self, count: usize) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(count as u64), Ordering::Relaxed);
    }

    fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The name and the meaning of a counter.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// The name, as in [`Totals`].
    pub name: &'static str,
    /// One sentence.
    pub help: &'static str,
}

/// The one table: a row is a counter, its sum and its documentation.
macro_rules! counters {
    ($($(#[doc = $help:literal])+ $name:ident,)+) => {
        /// The counters of one thread, alone on their cache lines.
        #[derive(Default)]
        #[repr(align(128))]
        pub struct Counters {
            $($(#[doc = $help])+ pub $name: Counter,)+
            /// Answers by the RCODE in their header.
            pub rcodes: [Counter; 16],
        }

        /// Sums over threads.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Totals {
            $($(#[doc = $help])+ pub $name: u64,)+
            /// Answers by the RCODE in their header.
            pub rcodes: [u64; 16],
        }

        /// The counters but for [`Totals::rcodes`], in the order of [`Totals::values`].
        pub const METRICS: &[Metric] = &[$(Metric { name: stringify!($name), help: concat!($($help),+).trim_ascii() },)+];

        impl Totals {
            /// The sums in the order of [`METRICS`].
            pub fn values(&self) -> [u64; METRICS.len()] {
                [$(self.$name,)+]
            }

            fn count(&mut self, counters: &Counters) {
                $(self.$name += counters.$name.value();)+
                for (total, counter) in self.rcodes.iter_mut().zip(&counters.rcodes) {
                    *total += counter.value();
                }
            }
        }
    };
}

counters! {
    /// Messages received.
    queries,
    /// Octets received in messages, without the length prefix of TCP.
    query_octets,
    /// Answers handed to the kernel, transfers aside.
    answers,
    /// Octets of those answers.
    answer_octets,
    /// Answers with the TC bit.
    truncated,
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
    /// Connections closed at once because their client has too many.
    refused,
    /// Connections closed to make room: for another one, for its descriptor or for its data.
    evicted,
    /// Connections closed because they rested, sent or read for too long.
    expired,
    /// Times that there were no descriptors for a waiting connection and none to close.
    starved,
    /// Zone transfers begun.
    transfers,
    /// Octets of zone transfers, without the length prefixes.
    transfer_octets,
}

impl Counters {
    /// Counts an answer by what its header says.
    #[inline]
    pub(super) fn answered(&self, answer: &[u8]) {
        self.answers.add(1);
        self.answer_octets.add(answer.len());
        // RFC 1035 4.1.1: TC is bit 1 of the third octet, RCODE the low half of the fourth.
        if let [_, _, flags, rcode, ..] = answer {
            self.rcodes[usize::from(rcode & 15)].add(1);
            self.truncated.add(usize::from(flags >> 1 & 1));
        }
    }
}

impl Totals {
    /// The sum over threads.
    pub fn of(counters: &[Arc<Counters>]) -> Totals {
        let mut totals = Totals::default();
        counters.iter().for_each(|counters| totals.count(counters));
        totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_sums_and_the_table_names_them() {
        let counters = [Arc::new(Counters::default()), Arc::new(Counters::default())];
        counters[0].answered(&[0, 0, 0x82, 0x03, 0]);
        counters[1].answered(&[0, 0, 0x80, 0x83]);
        counters[1].dropped.add(7);
        let totals = Totals::of(&counters);
        assert_eq!((totals.answers, totals.answer_octets, totals.truncated, totals.rcodes[3]), (2, 9, 1, 2));
        let dropped = METRICS.iter().position(|metric| metric.name == "dropped").expect("in the table");
        assert_eq!(totals.values()[dropped], 7);
        assert!(METRICS.iter().all(|metric| metric.help.ends_with('.')));
    }
}
