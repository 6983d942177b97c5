//! TCP and TLS: the answers of a [`StreamServer`], and what it counts.

use std::convert::Infallible;
use std::io;
use std::sync::atomic::AtomicBool;

use super::EchoCounters;
use super::answer::Answerer;
use crate::stream_server::{StreamResponder, StreamServer};

/// Answers the queries on connections.
pub struct StreamAnswerer {
    answerer: Answerer,
    counters: EchoCounters,
}

impl StreamAnswerer {
    pub fn new(answerer: Answerer) -> StreamAnswerer {
        StreamAnswerer { answerer, counters: EchoCounters::default() }
    }
}

/// Serves TCP and TLS on the calling thread until `stop`.
pub fn serve(server: StreamServer<StreamAnswerer>, stop: &AtomicBool) -> io::Result<EchoCounters> {
    let (responder, streams) = server.run(stop)?;
    let (connections, handshakes_resumed) = (streams.connections, streams.handshakes_resumed);
    Ok(EchoCounters { connections, handshakes_resumed, ..responder.counters })
}

impl StreamResponder for StreamAnswerer {
    type Rest = Infallible;

    fn begin_batch(&mut self) {
        self.answerer.begin_batch();
    }

    fn respond(&mut self, query: &[u8], is_tls: bool, out: &mut Vec<u8>) -> io::Result<Option<Infallible>> {
        let at = out.len();
        out.resize(at + 2 + self.answerer.max_len(query.len()), 0);
        let len = self.answerer.answer(query, &mut out[at + 2..]);
        out.truncate(at + len.map_or(0, |len| 2 + len));
        if let Some(len) = len {
            out[at..at + 2].copy_from_slice(&(len as u16).to_be_bytes());
        }
        let exchanges = if is_tls { &mut self.counters.tls } else { &mut self.counters.tcp };
        exchanges.queries += 1;
        exchanges.responses += u64::from(len.is_some());
        Ok(None)
    }

    fn resume(&mut self, rest: &mut Infallible, _: &mut Vec<u8>) -> io::Result<bool> {
        match *rest {}
    }
}
