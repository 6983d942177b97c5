//! UDP: datagrams are received and answered in batches, as `zonda` does it.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use netio::udp_server::{REQUEST_LEN, ServerBatch, ServerSocket};

use super::EchoCounters;
use super::answer::Answerer;

/// Datagrams received in one system call.
const BATCH_LEN: usize = 128;

/// Serves UDP on the calling thread until `stop`.
pub fn serve(socket: ServerSocket, mut answerer: Answerer, stop: &AtomicBool) -> io::Result<EchoCounters> {
    let mut batch = ServerBatch::new(socket, BATCH_LEN, answerer.max_len(REQUEST_LEN));
    let mut counters = EchoCounters::default();
    while !stop.load(Ordering::Relaxed) {
        let received = batch.receive()?;
        if received == 0 {
            continue;
        }
        answerer.begin_batch();
        let mut queued = 0;
        for index in 0..received {
            let slot = batch.slot(index);
            if let Some(len) = answerer.answer(slot.request, slot.reply) {
                batch.set_reply(index, len);
                queued += 1;
            }
        }
        counters.udp_batches += 1;
        counters.udp.queries += received as u64;
        counters.udp.responses += (queued - batch.send()) as u64;
    }
    counters.udp_drops = batch.receive_drops()?.into();
    Ok(counters)
}
