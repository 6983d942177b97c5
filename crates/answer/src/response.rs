//! What the listeners get back from [`crate::respond`].

use crate::pending_notify::PendingNotify;
use crate::pending_update::PendingUpdate;
use crate::response_stream::ResponseStream;

/// What to do about a query.
pub enum Response {
    /// Send this many octets of the output buffer.
    Send(usize),
    /// Send nothing.
    Drop,
    /// Stream the zone (RFC 5936); the client is allowed to transfer it.
    Stream(Box<ResponseStream>),
    /// Pass a NOTIFY message on, then send its response: [`PendingNotify::finish`].
    Notify(Box<PendingNotify>),
    /// Pass an UPDATE message on. It is answered when it was applied or forwarded: [`PendingUpdate::response`].
    Update(Box<PendingUpdate>),
}
