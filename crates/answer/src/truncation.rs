//! Truncation: how long a response may be; TC where a required RRset did not fit; the truncated responses of RRL and of TSIG.

use wire::HEADER_LEN;
use wire::message::Rcode;

use crate::config::AnswerConfig;
use crate::edns_response::{ResponseEdns, write_opt};
use crate::message_writer::MessageWriter;
use crate::query::Query;
use crate::request::{MAX_UDP, MIN_UDP, Transport};

/// The longest response to a query.
#[inline]
pub(crate) fn max_response_len(config: &AnswerConfig, query: &Query<'_>) -> usize {
    match query.request.transport {
        // RFC 9250 4.6: over QUIC, too, the payload size of EDNS does not matter.
        Transport::Tcp { .. } | Transport::Tls { .. } | Transport::Quic { .. } => usize::from(u16::MAX),
        // RFC 6891 6.2.3, 6.2.5: the client's payload size, at least 512, at most the server's own.
        Transport::Udp => {
            let wanted = query.edns.map_or(MIN_UDP, |edns| usize::from(edns.payload));
            wanted.clamp(MIN_UDP, usize::from(config.udp_payload).clamp(MIN_UDP, MAX_UDP))
        }
    }
}

impl MessageWriter<'_> {
    /// Sets TC, because an RRset that the response requires does not fit (RFC 2181 9). Of additional records only glue is required.
    pub(crate) fn set_truncated(&mut self) {
        self.truncated = true;
    }
}

/// Reduces the response in `out` to header, question and OPT, with TC set, so that a real client retries over TCP.
/// Returns its length.
#[cold]
pub(crate) fn truncate(config: &AnswerConfig, query: &Query<'_>, rcode: Rcode, out: &mut [u8]) -> usize {
    out[2] |= 2;
    out[6..HEADER_LEN].fill(0);
    let limit = MIN_UDP.min(out.len());
    let mut message = MessageWriter::new(out, query.question_end, limit);
    write_opt(&mut message, config, query, rcode, &ResponseEdns::default());
    message.at
}
