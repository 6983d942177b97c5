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
            /// Responses by RCODE, counted before RRL; `bad_versions` and `bad_cookies` have BADVERS and BADCOOKIE.
            pub rcodes: [Counter; 16],
        }

        /// Sums over threads.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct CounterTotals {
            $($(#[doc = $help])+ pub $name: u64,)+
            $($(#[doc = $copied_help])+ pub $copied: u64,)+
            /// Responses by RCODE, counted before RRL; `bad_versions` and `bad_cookies` have BADVERS and BADCOOKIE.
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
        /// Messages received, of any opcode, malformed ones included.
        queries,
        /// Octets of these messages, without TCP length prefixes.
        query_octets,
        /// Responses of any RCODE, except zone transfers and those to the messages in `updates`.
        answers,
        /// Octets of these responses, without TCP length prefixes.
        answer_octets,
        /// Messages without a response: those in `ignored` and `rate_limited`.
        dropped,
        /// UDP datagrams longer than the receive buffer, answered as malformed; those of QUIC are dropped.
        oversized,
        /// UDP responses that the kernel did not send, counted in `answers` too; for QUIC datagrams, which are repeated.
        unsent,
        /// Panics while a message was handled; each is a bug.
        panics,
        /// Connections accepted, refused ones included.
        connections,
        /// TLS and QUIC handshakes that resumed an earlier session.
        resumed,
        /// Connections, and over QUIC transfers, refused because their client exceeds its limit of connections or of transfers.
        refused,
        /// Messages and connections refused: without a valid PROXY header from a proxy, or with one from another address.
        proxy_refused,
        /// Connections closed to make room: for another connection, its file descriptor, or memory.
        evicted,
        /// Connections closed after the idle timeout.
        expired,
        /// Times that accepting TCP connections was paused because there was no file descriptor.
        starved,
        /// QUIC clients asked to prove their address before their handshake (Retry).
        retries,
        /// QUIC Initial packets, which begin connections, dropped because too many wait; clients repeat them.
        initials_dropped,
        /// QUIC connections closed because the client broke the rules of DNS over QUIC.
        protocol_errors,
        /// Outgoing zone transfers started.
        transfers,
        /// Octets of outgoing zone transfers, without TCP length prefixes.
        transfer_octets,
        /// Outgoing zone transfers ended because they took two hours and their version had been replaced.
        transfers_overdue,
        /// NOTIFY messages accepted.
        notifies,
        /// NOTIFY messages answered with SERVFAIL because too many wait; `rcodes` counts them as NOERROR.
        notifies_rejected,
        /// UPDATE messages passed on to be applied or forwarded; no other counter has their responses.
        updates,
        /// UPDATE messages answered with SERVFAIL because too many wait.
        updates_rejected,
    }
    copied {
        /// Messages ignored because they are shorter than a header or are responses.
        ignored,
        /// Responses with TC set because they exceeded the size limit, counted before RRL.
        truncated,
        /// BADVERS responses, to EDNS versions other than 0, counted before RRL.
        bad_versions,
        /// BADCOOKIE responses, to queries without a question whose server cookie is invalid, counted before RRL.
        bad_cookies,
        /// NOTIFY messages refused: malformed, from a client or with a signature that is not accepted, or for a zone that is not served here.
        notifies_refused,
        /// Responses dropped by RRL.
        rate_limited,
        /// Responses truncated by RRL (slip).
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

/// Reads the counters of all threads, on any thread.
#[derive(Clone, Default)]
pub struct CounterReader {
    pub(super) udp: Vec<Arc<ListenerCounters>>,
    pub(super) tcp: Vec<Arc<ListenerCounters>>,
    pub(super) tls: Vec<Arc<ListenerCounters>>,
    pub(super) quic: Vec<Arc<ListenerCounters>>,
}

impl CounterReader {
    /// The totals of each transport, with its name.
    pub fn totals(&self) -> [(&'static str, CounterTotals); 4] {
        [("udp", &self.udp), ("tcp", &self.tcp), ("tls", &self.tls), ("quic", &self.quic)]
            .map(|(transport, counters)| (transport, CounterTotals::of(counters)))
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
