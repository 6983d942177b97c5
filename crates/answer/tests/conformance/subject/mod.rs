//! The one place where these tests touch what they test: zones in as text, queries in and answers out as bytes.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use answer::{Ask, Content, Reply, Scratch, Served, ServedZone, Transport, respond};
use wire::Name;
use zone::load;
use zone::text::{self, Source};

/// TCP with some idle timeout.
pub const TCP: Transport = Transport::Tcp { idle_ds: 100 };

/// Loads zones the way the server does.
pub fn load(zones: &[(Name, String)]) -> Arc<Served> {
    let mut served = Served::default();
    for (apex, text) in zones {
        let source = Source { name: "zone".into(), bytes: text.as_bytes() };
        let outcome = load::load(source, &load::Options::new(text::Options::new(apex.as_ref())));
        let Some(zone) = outcome.zone else { panic!("{:?}", outcome.diagnostics) };
        served.zones.insert(Arc::new(ServedZone { content: Content::Zone(zone), transfer: Arc::default() }));
    }
    Arc::new(served)
}

/// The answer to a query, if there is one.
pub fn ask(served: &Arc<Served>, message: &[u8], transport: Transport) -> Option<Vec<u8>> {
    let mut out = vec![0; if transport == Transport::Udp { 4096 } else { 65_535 }];
    let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let ask = Ask { message, peer, transport, now_s: 1_700_000_000 };
    match respond(served, &mut Scratch::new(), ask, &mut out) {
        Reply::Send(len) => {
            out.truncate(len);
            Some(out)
        }
        Reply::Drop => None,
        Reply::Transfer(_) => panic!("nobody asked for a transfer"),
    }
}
