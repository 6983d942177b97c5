//! The interface to the code under test: zones as text, queries and responses as bytes.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use answer::{
    Acl, AnswerConfig, Request, Response, Served, ServedZone, Transport, WorkerState, ZoneAcls, ZoneExtras, ZoneMap,
    ZoneState, respond,
};
use wire::Name;
use zone::load::load_text;

/// TCP with an idle timeout.
pub const TCP: Transport = Transport::Tcp { idle_ds: 100 };

/// The time of all queries, in seconds since 1970.
pub const NOW_S: u32 = 1_700_000_000;

/// The client's address.
pub const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 100));

/// Loads zones the way the server does.
pub fn load(zones: &[(Name, String)]) -> Arc<Served> {
    let contents = zones.iter().map(|(apex, text)| ZoneState::Loaded(zone(apex, text)));
    serve(contents, AnswerConfig::default(), Acl::default())
}

/// Publishes zones that these clients may transfer and announce.
pub fn serve(contents: impl IntoIterator<Item = ZoneState>, options: AnswerConfig, access: Acl) -> Arc<Served> {
    let acls = ZoneAcls { transfer: access.clone(), notify: access, ..ZoneAcls::default() };
    let extras = ZoneExtras::new(acls, Vec::new());
    serve_zones(contents.into_iter().map(|state| ServedZone::new(state, extras.clone())), options)
}

/// Publishes zones with their settings.
pub fn serve_zones(served: impl IntoIterator<Item = ServedZone>, options: AnswerConfig) -> Arc<Served> {
    let mut zones = ZoneMap::default();
    for zone in served {
        zones.insert(Arc::new(zone));
    }
    Arc::new(Served { zones, config: Arc::new(options) })
}

/// A zone from its text, which has no errors.
pub fn zone(apex: &Name, text: &str) -> zone::Zone {
    let apex = apex.to_lowercase();
    let outcome = load_text(apex.as_ref(), text.as_bytes());
    outcome.zone.unwrap_or_else(|| panic!("{:#?}\n{text}", outcome.findings))
}

/// The response of a new worker; it is in `out`.
pub fn reply(served: &Arc<Served>, message: &[u8], transport: Transport, out: &mut [u8]) -> Response {
    reply_of(&mut WorkerState::new(), served, message, transport, out)
}

/// The response of a worker that may have answered before.
pub fn reply_of(
    worker: &mut WorkerState,
    served: &Arc<Served>,
    message: &[u8],
    transport: Transport,
    out: &mut [u8],
) -> Response {
    respond(served, worker, Request { message, peer: PEER, transport, now_s: NOW_S }, out)
}

/// The answer to a query, if there is one.
pub fn ask(served: &Arc<Served>, message: &[u8], transport: Transport) -> Option<Vec<u8>> {
    answer_of(&mut WorkerState::new(), served, message, transport)
}

/// The answer of a worker that may have answered before.
pub fn answer_of(
    worker: &mut WorkerState,
    served: &Arc<Served>,
    message: &[u8],
    transport: Transport,
) -> Option<Vec<u8>> {
    let mut out = vec![0; if transport == Transport::Udp { answer::MAX_UDP } else { usize::from(u16::MAX) }];
    match reply_of(worker, served, message, transport, &mut out) {
        Response::Send(len) => {
            out.truncate(len);
            Some(out)
        }
        Response::Notify(pending) => {
            let len = pending.finish(&mut out, |_| true);
            out.truncate(len);
            Some(out)
        }
        Response::Update(pending) => Some(pending.response.finish(wire::message::Rcode::NOERROR, NOW_S)),
        Response::Drop => None,
        Response::Stream(_) => panic!("a transfer where one answer is wanted"),
    }
}

/// The messages of a transfer; none if there is none.
pub fn transfer(served: &Arc<Served>, message: &[u8]) -> Vec<Vec<u8>> {
    let mut out = vec![0; usize::from(u16::MAX)];
    let Response::Stream(mut transfer) = reply(served, message, TCP, &mut out) else {
        return Vec::new();
    };
    let mut messages = Vec::new();
    while let Some(len) = transfer.next_message(&mut out, NOW_S) {
        messages.push(out[..len].to_vec());
    }
    messages
}
