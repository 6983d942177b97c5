//! UDP workers: a pinned thread per socket, which receives, answers and sends datagrams in batches.

use super::counters::ListenerCounters;
use super::late_reply::udp_reply;
use super::panic_guard::catch_panic;
use super::proxy::{Proxies, ProxyError};
use super::responder::{Responder, finish_notify, pass_on_update};
use crate::rate_limited_log::RateLimitedLog;
use answer::{MAX_UDP, PREFETCH_BATCH, PendingUpdate, Request, Response, Transport};
use netio::clock;
use netio::udp_server::{ServerBatch, ServerSocket};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Datagrams per recvmmsg: enough to amortize the call, few enough to stay in the cache.
const BATCH: usize = 128;
/// Full batches still answered after a stop: what a receive buffer of 8 MiB holds.
const LAST_BATCHES: usize = 100;
/// Pause after a socket error, so that a lasting one does not spin.
const ERROR_PAUSE: Duration = Duration::from_millis(100);
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// A UDP thread.
pub(super) struct UdpWorker<R> {
    batch: ServerBatch,
    responder: R,
    proxies: Proxies,
    refusals: RateLimitedLog,
    counters: Arc<ListenerCounters>,
}

fn pause(error: io::Error, failures: &mut RateLimitedLog) {
    if let Some(left_out) = failures.permit() {
        tracing::error!(%error, left_out, "cannot receive over UDP; will retry");
    }
    thread::sleep(ERROR_PAUSE);
}

impl<R: Responder> UdpWorker<R> {
    /// To be called by the worker's own thread, so that its buffers are in memory near its processor.
    pub(super) fn new(
        socket: ServerSocket,
        responder: R,
        proxies: Proxies,
        counters: Arc<ListenerCounters>,
    ) -> UdpWorker<R> {
        let refusals = RateLimitedLog::new(1, LOG_INTERVAL);
        UdpWorker { batch: ServerBatch::new(socket, BATCH, MAX_UDP), responder, proxies, refusals, counters }
    }

    /// Serves until it is stopped.
    pub(super) fn run(mut self, stop: &AtomicBool) {
        let mut failures = RateLimitedLog::new(1, LOG_INTERVAL);
        while !stop.load(Ordering::Relaxed) {
            match self.batch.receive() {
                Ok(count) => self.answer_batch(count),
                Err(error) => pause(error, &mut failures),
            }
        }
        for _ in 0..LAST_BATCHES {
            match self.batch.receive_ready() {
                Ok(count) if count > 0 => self.answer_batch(count),
                _ => break,
            }
        }
    }

    /// Answers a batch. An empty one, too, must refresh the responder, so that replaced zones are released.
    fn answer_batch(&mut self, count: usize) {
        self.responder.refresh();
        self.counters.queries.add(count);
        let now_s = clock::real().as_secs() as u32;
        let (mut next, mut fetched) = (0, 0);
        while next < count {
            let completed = catch_panic(|| {
                while next < count {
                    if next == fetched {
                        fetched = count.min(next + PREFETCH_BATCH);
                        self.responder.prefetch((next..fetched).map(|index| self.batch.request(index)));
                    }
                    // Advance first, so that a panic skips only this query.
                    next += 1;
                    self.answer_one(next - 1, now_s);
                }
            });
            self.counters.panics.add(usize::from(completed.is_none()));
        }
        self.responder.log_refused();
        self.counters.copy_from(self.responder.counters());
        self.counters.unsent.add(self.batch.send());
    }

    #[inline]
    fn answer_one(&mut self, index: usize, now_s: u32) {
        let slot = self.batch.slot(index);
        self.counters.query_octets.add(slot.request.len());
        // A datagram longer than the buffer is cut short and gets the response to a malformed message.
        self.counters.oversized.add(usize::from(slot.truncated));
        let sender = slot.peer_ip();
        let (message, peer) = match self.proxies.message_in(slot.request, sender) {
            Ok(found) => found,
            Err(error) => return self.refuse(sender, error),
        };
        let request = Request { message, peer, transport: Transport::Udp, now_s };
        match self.responder.answer(request, slot.reply) {
            Response::Send(len) => {
                self.counters.answered(len);
                self.batch.set_reply(index, len);
            }
            Response::Notify(pending) => {
                let len = finish_notify(*pending, &mut self.responder, &self.counters, slot.reply);
                self.counters.answered(len);
                self.batch.set_reply(index, len);
            }
            Response::Update(pending) => self.pass_on_update(index, *pending),
            // RFC 5936 4.2: there are no transfers over UDP.
            Response::Drop | Response::Stream(_) => self.counters.dropped.add(1),
        }
    }

    #[cold]
    fn refuse(&mut self, peer: IpAddr, error: ProxyError) {
        self.counters.proxy_refused.add(1);
        if let Some(left_out) = self.refusals.permit() {
            tracing::warn!(%peer, left_out, "UDP: a datagram is dropped: {error}");
        }
    }

    #[cold]
    fn pass_on_update(&mut self, index: usize, pending: PendingUpdate) {
        match self.batch.late_reply(index) {
            Ok(datagram) => {
                let reply = udp_reply(pending.response, datagram);
                pass_on_update(pending.update, reply, &mut self.responder, &self.counters);
            }
            // Nothing may be changed that cannot be answered; the client repeats the message.
            Err(_) => self.counters.dropped.add(1),
        }
    }
}
