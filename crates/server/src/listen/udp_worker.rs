//! Datagrams: one thread a socket, pinned, which answers a batch at a time.

use super::Responder;
use super::counters::ListenerCounters;
use super::panic_guard::catch_panic;
use super::rate_limited_log::RateLimitedLog;
use answer::{MAX_UDP, Request, Response, Transport};
use netio::udp_server::{ServerBatch, ServerSocket};
use netio::{clock, cpu_affinity};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Datagrams a system call: enough that the call's own cost vanishes, few enough that they stay in the cache.
const BATCH: usize = 128;
/// Queries whose data are fetched together: enough that the first has come when it is asked for, few enough that the last
/// is still in the cache then.
const AHEAD: usize = 16;
/// How many full batches are still answered after a stop: what a receive buffer of 8 MiB holds.
const LAST_BATCHES: usize = 100;
/// How long to wait after the socket failed, so that a lasting error does not spin.
const ERROR_PAUSE: Duration = Duration::from_millis(100);

/// One thread's work.
pub(super) struct UdpWorker<R> {
    socket: ServerSocket,
    responder: R,
    counters: Arc<ListenerCounters>,
    stop: Arc<AtomicBool>,
}

impl<R: Responder> UdpWorker<R> {
    pub(super) fn new(
        socket: ServerSocket,
        responder: R,
        counters: Arc<ListenerCounters>,
        stop: Arc<AtomicBool>,
    ) -> UdpWorker<R> {
        UdpWorker { socket, responder, counters, stop }
    }

    /// Serves until it is stopped, on one processor.
    pub(super) fn run_on(self, processor: usize) {
        if let Err(error) = cpu_affinity::pin_thread(processor) {
            tracing::warn!(processor, %error, "cannot keep a UDP thread on its processor; it runs where the kernel likes");
        }
        let batch = ServerBatch::new(self.socket, BATCH, MAX_UDP);
        let mut batches = UdpResponder { batch, responder: self.responder, counters: self.counters };
        let mut failures = RateLimitedLog::new(1, Duration::from_secs(10));
        while !self.stop.load(Ordering::Relaxed) {
            match batches.batch.receive() {
                Ok(count) => batches.answer_batch(count),
                Err(error) => pause(error, &mut failures),
            }
        }
        for _ in 0..LAST_BATCHES {
            match batches.batch.receive_ready() {
                Ok(count) if count > 0 => batches.answer_batch(count),
                _ => break,
            }
        }
    }
}

fn pause(error: io::Error, failures: &mut RateLimitedLog) {
    if let Some(left_out) = failures.permit() {
        tracing::error!(%error, left_out, "cannot receive over UDP; trying again");
    }
    thread::sleep(ERROR_PAUSE);
}

struct UdpResponder<R> {
    batch: ServerBatch,
    responder: R,
    counters: Arc<ListenerCounters>,
}

impl<R: Responder> UdpResponder<R> {
    /// Answers what was received; that may be nothing, but what was published meanwhile is to be seen, and what it
    /// replaces to be let go of.
    fn answer_batch(&mut self, count: usize) {
        self.responder.refresh();
        self.counters.queries.add(count);
        let now_s = clock::real().as_secs() as u32;
        let (mut next, mut fetched) = (0, 0);
        while next < count {
            let whole = catch_panic(|| {
                while next < count {
                    if next == fetched {
                        fetched = count.min(next + AHEAD);
                        self.responder.prefetch((next..fetched).map(|index| self.batch.request(index)));
                    }
                    // Before it is answered: a panic leaves this one out and goes on with those behind it.
                    next += 1;
                    self.answer_one(next - 1, now_s);
                }
            });
            self.counters.panics.add(usize::from(whole.is_none()));
        }
        self.counters.take_over(self.responder.counters());
        self.counters.unsent.add(self.batch.send());
    }

    #[inline]
    fn answer_one(&mut self, index: usize, now_s: u32) {
        let slot = self.batch.slot(index);
        self.counters.query_octets.add(slot.request.len());
        // What did not fit is missing at the end, so that the message is malformed and gets the answer to that.
        self.counters.oversized.add(usize::from(slot.truncated));
        let request = Request { message: slot.request, peer: slot.peer_ip(), transport: Transport::Udp, now_s };
        match self.responder.answer(request, slot.reply) {
            Response::Send(len) => {
                self.counters.answered(len);
                self.batch.set_reply(index, len);
            }
            // RFC 5936 4.2: there are no transfers over UDP.
            Response::Drop | Response::Transfer(_) => self.counters.dropped.add(1),
        }
    }
}
