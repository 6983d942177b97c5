//! EDNS (RFC 6891): the OPT record of a response.

use wire::Rtype;
use wire::message::Rcode;
use zone::Zone;

use crate::config::AnswerConfig;
use crate::edns::{COOKIE, EXPIRE, EXTENDED_ERROR, ExtendedError, KEEPALIVE, NSID, PADDING, QueryEdns, ZONE_VERSION};
use crate::message_writer::MessageWriter;
use crate::published::Served;
use crate::query::Query;

/// What the OPT record of a response says about the answer.
#[derive(Default)]
pub(crate) struct ResponseEdns {
    pub(crate) error: Option<ExtendedError>,
    /// RFC 9660: the label count of the zone's apex, and its serial.
    pub(crate) zone_version: Option<(u8, u32)>,
    /// RFC 7314: the seconds until the zone expires.
    pub(crate) expire_s: Option<u32>,
}

impl ResponseEdns {
    /// Sets what the query wants to know about the zone that answers.
    #[inline]
    pub(crate) fn describe(&mut self, served: &Served, zone: &Zone, query: &Query<'_>) {
        let Some(edns) = query.edns.as_ref().filter(|edns| edns.has_options) else { return };
        self.zone_version = edns.wants_zone_version.then(|| (zone.apex_labels() as u8, zone.serial()));
        // RFC 7314 3: in responses to queries for SOA, AXFR and IXFR.
        let is_about_zone = matches!(query.qtype, Rtype::SOA | Rtype::AXFR | Rtype::IXFR);
        self.expire_s = (edns.wants_expire && is_about_zone).then(|| expire_s(served, zone, query.request.now_s));
    }
}

/// The seconds until a zone expires (RFC 7314 3.1, 3.2).
#[cold]
fn expire_s(served: &Served, zone: &Zone, now_s: u32) -> u32 {
    served.zones.get(zone.apex().wire()).map_or(zone.expire_s(), |served| served.expire_s(zone, now_s))
}

/// The length of an OPT record without options.
const OPT_LEN: usize = 11;
/// The length of an option's code and length.
const OPTION_HEAD_LEN: usize = 4;
const COOKIE_OPTION_LEN: usize = OPTION_HEAD_LEN + 8 + 16;
/// RFC 8467 4.1: padded responses have a multiple of this length.
const PADDING_BLOCK: usize = 468;

/// The octets to reserve for the OPT record. Extended errors are not counted: they are left out where they do not fit.
#[inline]
pub(crate) fn reserved_len(config: &AnswerConfig, query: &Query<'_>) -> usize {
    match &query.edns {
        None => 0,
        Some(edns) if !edns.has_options => OPT_LEN,
        Some(edns) => OPT_LEN + reserved_for_options(config, query, edns),
    }
}

#[inline(never)]
fn reserved_for_options(config: &AnswerConfig, query: &Query<'_>, edns: &QueryEdns<'_>) -> usize {
    let mut len = 0;
    if edns.cookie.is_some() && config.cookies.is_some() {
        len += COOKIE_OPTION_LEN;
    }
    if edns.wants_nsid && !config.nsid.is_empty() {
        len += OPTION_HEAD_LEN + config.nsid.len();
    }
    if edns.wants_keepalive && !query.request.transport.is_udp() {
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

/// Adds the OPT record, if the query has one, with the upper bits of `rcode`; the header has the lower ones.
// Nearly every response comes through here: inlined even though rare callers share it.
#[inline(always)]
pub(crate) fn write_opt(
    message: &mut MessageWriter<'_>,
    config: &AnswerConfig,
    query: &Query<'_>,
    rcode: Rcode,
    response: &ResponseEdns,
) {
    let Some(edns) = &query.edns else { return };
    let start = message.at;
    let payload = config.udp_payload.to_be_bytes();
    // RFC 3225 3: DO is copied.
    let flags = u8::from(edns.dnssec_ok) << 7;
    let opt = [0, 0, 41, payload[0], payload[1], (rcode.0 >> 4) as u8, 0, flags, 0, 0, 0];
    message.out[start..start + OPT_LEN].copy_from_slice(&opt);
    message.at += OPT_LEN;
    if edns.has_options || response.error.is_some() {
        push_options(message, config, query, edns, response);
        let len = (message.at - start - OPT_LEN) as u16;
        message.out[start + 9..start + OPT_LEN].copy_from_slice(&len.to_be_bytes());
    }
    message.write_counts(true);
}

/// Adds the options that fit.
#[inline(never)]
fn push_options(
    message: &mut MessageWriter<'_>,
    config: &AnswerConfig,
    query: &Query<'_>,
    edns: &QueryEdns<'_>,
    response: &ResponseEdns,
) {
    let request = query.request;
    if let (Some((client, _)), Some(secrets)) = (edns.cookie, &config.cookies) {
        let mut cookie = [0; 24];
        cookie[..8].copy_from_slice(&client);
        cookie[8..].copy_from_slice(&secrets.server_cookie(&client, request.peer, request.now_s));
        push_option(message, COOKIE, &cookie);
    }
    if edns.wants_nsid && !config.nsid.is_empty() {
        push_option(message, NSID, &config.nsid);
    }
    if let (true, Some(idle_ds)) = (edns.wants_keepalive, request.transport.idle_ds()) {
        push_option(message, KEEPALIVE, &idle_ds.to_be_bytes());
    }
    if let Some(expire_s) = response.expire_s {
        push_option(message, EXPIRE, &expire_s.to_be_bytes());
    }
    if let Some((labels, serial)) = response.zone_version {
        let serial = serial.to_be_bytes();
        // RFC 9660 2: the label count of the apex, the type SOA-SERIAL (0), the serial.
        push_option(message, ZONE_VERSION, &[labels, 0, serial[0], serial[1], serial[2], serial[3]]);
    }
    if let Some(error) = response.error {
        push_option(message, EXTENDED_ERROR, &(error as u16).to_be_bytes());
    }
    // RFC 7830 6: not over transports that anybody can read, even if the query is padded.
    if edns.wants_padding && request.transport.is_encrypted() {
        push_padding(message, query.key.map_or(0, |key| key.record_len.into()));
    }
}

/// Pads the response, the last option of which this is, to a whole number of blocks (RFC 8467 4.1), or as far as there is room.
/// `signature_len` is the length of the TSIG record that follows.
fn push_padding(message: &mut MessageWriter<'_>, signature_len: usize) {
    let Some(room) = message.room().checked_sub(OPTION_HEAD_LEN) else { return };
    let len = message.at + OPTION_HEAD_LEN + signature_len;
    let padding = (len.next_multiple_of(PADDING_BLOCK) - len).min(room);
    push_option(message, PADDING, &[0; PADDING_BLOCK][..padding]);
}

/// Adds an option if it fits.
fn push_option(message: &mut MessageWriter<'_>, code: u16, data: &[u8]) {
    if OPTION_HEAD_LEN + data.len() > message.room() {
        return;
    }
    let option = &mut message.out[message.at..message.at + OPTION_HEAD_LEN + data.len()];
    option[..2].copy_from_slice(&code.to_be_bytes());
    option[2..4].copy_from_slice(&(data.len() as u16).to_be_bytes());
    option[4..].copy_from_slice(data);
    message.at += OPTION_HEAD_LEN + data.len();
}
