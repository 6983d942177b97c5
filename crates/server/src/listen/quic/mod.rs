//! DNS over QUIC (RFC 9250): the listeners.
//!
//! [`QuicEndpoint`](endpoint::QuicEndpoint) is a state machine of datagrams and time around `quinn-proto`; [`QuicWorker`] is the
//! thread with the sockets. Each stream has one query, which a `StreamResponder` answers, as over TCP.

mod connection;
mod connection_table;
mod doq_stream;
mod endpoint;
mod frame_memory;
mod initial_queue;
mod key_exchange_queue;
mod late_streams;
mod query_stream;
#[cfg(test)]
mod tests;
mod tls_session;
mod transport;
mod worker;

pub(super) use endpoint::CONNECTION_MEMORY;
pub(super) use transport::QuicShared;
pub(super) use worker::QuicWorker;

use quinn_proto::VarInt;

/// RFC 9250 4.3, 8.4: why a stream or a connection is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DoqError {
    NoError = 0,
    InternalError = 1,
    ProtocolError = 2,
    RequestCancelled = 3,
    ExcessiveLoad = 4,
}

impl From<DoqError> for VarInt {
    fn from(error: DoqError) -> VarInt {
        VarInt::from_u32(error as u32)
    }
}
