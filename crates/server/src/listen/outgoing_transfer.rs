//! A transfer that a connection sends, and its line in the log.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use answer::ResponseStream;
use zone::transfer_stream::TransferContent;

use crate::clock;

/// A transfer in progress.
pub(super) struct OutgoingTransfer {
    stream: ResponseStream,
    transport: &'static str,
    began: Instant,
    messages: u64,
    octets: u64,
}

impl OutgoingTransfer {
    /// A transfer over a connection of this transport, which begins now.
    pub(super) fn new(stream: ResponseStream, transport: &'static str) -> OutgoingTransfer {
        OutgoingTransfer { stream, transport, began: clock::now(), messages: 0, octets: 0 }
    }

    /// Writes the next message, as [`ResponseStream::next_message`] does.
    pub(super) fn next_message(&mut self, out: &mut [u8], now_s: u32) -> Option<usize> {
        let len = self.stream.next_message(out, now_s)?;
        self.messages += 1;
        self.octets += len as u64;
        Some(len)
    }

    /// The messages.
    pub(super) fn stream(&self) -> &ResponseStream {
        &self.stream
    }

    /// How long ago it began.
    pub(super) fn age(&self) -> Duration {
        clock::now().saturating_duration_since(self.began)
    }

    /// What the log says after the last message.
    pub(super) fn end(&self) -> &'static str {
        if self.stream.has_failed() { "zone transfer failed: a record fits in no message" } else { "zone transferred" }
    }

    /// Writes the line in the log. `left_out` lines before it were not written.
    pub(super) fn log(&self, peer: IpAddr, end: &str, left_out: u64) {
        let OutgoingTransfer { stream, transport, messages, octets, .. } = self;
        let kind = match stream.content() {
            TransferContent::Full => "axfr",
            TransferContent::Incremental => "ixfr",
            TransferContent::SoaOnly => "soa",
        };
        let (zone, serial, from_serial, records) =
            (stream.apex(), stream.serial(), stream.from_serial(), stream.records());
        let key = stream.key().map(tracing::field::display);
        let duration_ms = self.began.elapsed().as_millis() as u64;
        tracing::info!(
            %zone, %peer, transport, key, kind, from_serial, serial, records, octets, messages, duration_ms, left_out, "{end}"
        );
    }
}
