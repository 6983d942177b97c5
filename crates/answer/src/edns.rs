//! The OPT record of an answer (RFC 6891) and its options.

use crate::message::Message;
use crate::query::{OPT_COOKIE, OPT_ERROR, OPT_EXPIRE, OPT_KEEPALIVE, OPT_NSID, OPT_ZONE_VERSION, Query};
use crate::served::AnswerConfig;
use crate::{Request, Transport};

/// What an answer says in its OPT record beyond what the client asked for.
#[derive(Default)]
pub(crate) struct Extended {
    /// RFC 8914: the code of an extended error.
    pub(crate) error: Option<u16>,
    /// RFC 9660: how many labels the apex of the zone has, and its serial.
    pub(crate) zone_version: Option<(u8, u32)>,
    /// RFC 7314: how many seconds a secondary may serve the zone, which here is a primary's.
    pub(crate) expire_s: Option<u32>,
}

/// RFC 8914 4.15: the server cannot answer yet.
pub(crate) const NOT_READY: u16 = 14;
/// RFC 8914 4.21: asked for what it has no authority over.
pub(crate) const NOT_AUTHORITATIVE: u16 = 20;
/// RFC 8914 4.25: the data of the zone makes no answer.
pub(crate) const INVALID_DATA: u16 = 24;
/// RFC 9276 6: the NSEC3 iterations of the zone cost too much.
pub(crate) const NSEC3_ITERATIONS: u16 = 27;

/// An OPT record without options.
const OPT_LEN: usize = 11;
/// The code and length of an option.
const OPTION_HEAD_LEN: usize = 4;
const COOKIE_LEN: usize = OPTION_HEAD_LEN + 8 + 16;

/// How many octets the OPT record must be able to take: errors are left out where they do not fit.
#[inline]
pub(crate) fn reserved_len(config: &AnswerConfig, transport: Transport, query: &Query<'_>) -> usize {
    let Some(edns) = &query.edns else { return 0 };
    let mut len = OPT_LEN;
    if edns.cookie.is_some() && config.cookies.is_some() {
        len += COOKIE_LEN;
    }
    if edns.wants_nsid && !config.nsid.is_empty() {
        len += OPTION_HEAD_LEN + config.nsid.len();
    }
    if edns.wants_keepalive && transport != Transport::Udp {
        len += OPTION_HEAD_LEN + 2;
    }
    if edns.wants_expire {
        len += OPTION_HEAD_LEN + 4;
    }
    if edns.wants_zone_version {
        len += OPTION_HEAD_LEN + 6;
    }
    len
}

/// Adds the OPT record; the response code is in the header already.
// Always: it stands on the way of nearly every answer, and rare ones call it too.
#[inline(always)]
pub(crate) fn write_opt(
    message: &mut Message<'_>,
    config: &AnswerConfig,
    request: &Request<'_>,
    query: &Query<'_>,
    extended: &Extended,
) {
    let Some(edns) = &query.edns else { return };
    let start = message.at;
    let payload = config.udp_payload.to_be_bytes();
    // RFC 6891 9: BADVERS is 16, its upper bits stand here.
    let upper = u8::from(query.has_bad_version());
    // RFC 3225 3: DO is copied.
    let flags = u8::from(edns.dnssec_ok) << 7;
    let opt = [0, 0, 41, payload[0], payload[1], upper, 0, flags, 0, 0, 0];
    message.out[start..start + OPT_LEN].copy_from_slice(&opt);
    message.at += OPT_LEN;
    if let (Some((client, _)), Some(secrets)) = (edns.cookie, &config.cookies) {
        let mut cookie = [0; 24];
        cookie[..8].copy_from_slice(&client);
        cookie[8..].copy_from_slice(&secrets.make(&client, request.peer, request.now_s));
        push_option(message, OPT_COOKIE, &cookie);
    }
    if edns.wants_nsid && !config.nsid.is_empty() {
        push_option(message, OPT_NSID, &config.nsid);
    }
    if let (true, Transport::Tcp { idle_ds }) = (edns.wants_keepalive, request.transport) {
        push_option(message, OPT_KEEPALIVE, &idle_ds.to_be_bytes());
    }
    if let Some(expire_s) = extended.expire_s {
        push_option(message, OPT_EXPIRE, &expire_s.to_be_bytes());
    }
    if let Some((labels, serial)) = extended.zone_version {
        let serial = serial.to_be_bytes();
        // RFC 9660 2: the labels of the apex, the type SOA-SERIAL, the serial.
        push_option(message, OPT_ZONE_VERSION, &[labels, 0, serial[0], serial[1], serial[2], serial[3]]);
    }
    if let Some(code) = extended.error {
        push_option(message, OPT_ERROR, &code.to_be_bytes());
    }
    let len = (message.at - start - OPT_LEN) as u16;
    message.out[start + 9..start + OPT_LEN].copy_from_slice(&len.to_be_bytes());
    message.write_counts(true);
}

/// Adds an option if it fits.
fn push_option(message: &mut Message<'_>, code: u16, data: &[u8]) {
    if OPTION_HEAD_LEN + data.len() > message.room() {
        return;
    }
    let option = &mut message.out[message.at..message.at + OPTION_HEAD_LEN + data.len()];
    option[..2].copy_from_slice(&code.to_be_bytes());
    option[2..4].copy_from_slice(&(data.len() as u16).to_be_bytes());
    option[4..].copy_from_slice(data);
    message.at += OPTION_HEAD_LEN + data.len();
}

/// Whether the client showed a cookie of this server (RFC 7873 5.2.4): its address is not forged.
pub(crate) fn has_good_cookie(config: &AnswerConfig, request: &Request<'_>, query: &Query<'_>) -> bool {
    match (&config.cookies, query.edns.and_then(|edns| edns.cookie)) {
        (Some(secrets), Some((client, server))) => secrets.accept(&client, server, request.peer, request.now_s),
        _ => false,
    }
}
