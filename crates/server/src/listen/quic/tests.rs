//! The endpoint beside clients on a network in memory, with a responder that each query commands.

mod client;
mod connection_handling;
mod handshakes;
mod limits;
mod resumption;
mod transfers;

use super::DoqError;
use super::endpoint::CONNECTION_MEMORY;
use super::transport::QuicShared;
use crate::config::remote_server::RemoteTls;
use crate::listen::{IncomingUpdate, LateReply, Responder};
use crate::tls::test_certificates::TestCertificates;
use answer::{
    Acl, AclEntry, Served, ServedZone, UpdateAcl, UpdateRole, WorkerState, ZoneAcls, ZoneExtras, ZoneHistory, ZoneState,
};
use answer::{Request, Response, Transport};
use bytes::Bytes;
use client::{Client, Network, StreamEnd, World, arrival};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use quinn_proto::{ConnectionError, Dir};
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tracing::Subscriber;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use wire::framing::split_message;
use wire::message::{Message, Rcode};
use wire::{AddressPrefix, Name, Rtype};
use zone::load::load_text;

/// Responds with the query and QR set; the fifth octet may ask for one of these.
#[derive(Default)]
pub(super) struct Scripted(answer::Counters);

/// The longest message.
const LONGEST: u8 = 1;
/// The number of names of the client's certificate in the last octet.
const CLIENT_NAMES: u8 = 2;
const PANIC: u8 = 3;
const DROP: u8 = 4;
const TRANSFER: u8 = 5;
/// As many NSEC3 digests as one turn of a connection may cost.
const EXPENSIVE: u8 = 6;
/// A transfer that just does not fit into the buffer that a turn fills.
const SMALL_TRANSFER: u8 = 7;
/// One that fills most of it.
const SMALLER_TRANSFER: u8 = 8;

impl Responder for Scripted {
    fn refresh(&mut self) {}

    fn counters(&self) -> &answer::Counters {
        &self.0
    }

    fn answer(&mut self, request: Request<'_>, out: &mut [u8]) -> Response {
        let Transport::Quic { client_names } = request.transport else { panic!("not QUIC") };
        let len = request.message.len();
        if request.message[..] == update() {
            return pending_update(request, out);
        }
        out[..len].copy_from_slice(request.message);
        out[2] |= 0x80;
        match request.message[4] {
            LONGEST => out[len..].fill(7),
            CLIENT_NAMES => out[len - 1] = client_names.len() as u8,
            PANIC => panic!("as the query commands"),
            DROP => return Response::Drop,
            TRANSFER => return transfer(TRANSFERRED, request, out),
            SMALL_TRANSFER => return transfer(1000, request, out),
            SMALLER_TRANSFER => return transfer(450, request, out),
            EXPENSIVE => self.0.nsec3_digests += 4096,
            _ => {}
        }
        Response::Send(if request.message[4] == LONGEST { out.len() } else { len })
    }

    fn update(&mut self, update: Box<IncomingUpdate>) -> Result<(), Box<IncomingUpdate>> {
        LATE_REPLIES.with_borrow_mut(|replies| replies.push(update.reply));
        assert!(!UPDATES_PANIC.get(), "as the test commands");
        Ok(())
    }
}

thread_local! {
    /// The replies to UPDATE messages that nobody has sent yet.
    static LATE_REPLIES: RefCell<Vec<LateReply>> = const { RefCell::new(Vec::new()) };
    static UPDATES_PANIC: Cell<bool> = const { Cell::new(false) };
}

/// TXT records of 200 octets in the zone that is transferred.
const TRANSFERRED: usize = 20_000;

/// The response to an AXFR query of the same client, for a zone with this number of TXT records.
fn transfer(records: usize, request: Request<'_>, out: &mut [u8]) -> Response {
    let access = Acl(vec![AclEntry::of_addresses(AddressPrefix::single(request.peer))]);
    let acls = ZoneAcls { transfer: access, ..ZoneAcls::default() };
    let message = Message { id: 0, ..Message::query(apex(), Rtype::AXFR) }.to_wire();
    respond_from_zone(records, acls, Request { message: &message, ..request }, out)
}

fn apex() -> Name {
    "example.".parse().expect("a name")
}

/// Answers from a zone with this number of TXT records.
fn respond_from_zone(records: usize, acls: ZoneAcls, request: Request<'_>, out: &mut [u8]) -> Response {
    let (line, text) = ("@ 60 SOA ns.invalid. host.invalid. 1 1 1 1 1\n@ 60 NS ns.invalid.\n", "x".repeat(200));
    let zone: String = (0..records).fold(line.into(), |zone, number| zone + &format!("t{number} 60 TXT {text}\n"));
    let apex = apex();
    let outcome = load_text(apex.as_ref(), zone.as_bytes());
    let state = ZoneState::Loaded(outcome.zone.expect("a zone without errors"));
    let mut served = Served::default();
    served.zones.insert(Arc::new(ServedZone::new(state, ZoneExtras::new(acls, ZoneHistory::new()))));
    answer::respond(&Arc::new(served), &mut WorkerState::new(), request, out)
}

/// An UPDATE message for the zone, without changes.
fn update() -> Vec<u8> {
    let header = [0, 0, UPDATE, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    [&header[..], apex().as_ref().wire(), &[0, 6, 0, 1]].concat()
}

/// What an UPDATE message gets that is passed on.
fn pending_update(request: Request<'_>, out: &mut [u8]) -> Response {
    let update = UpdateAcl { role: UpdateRole::Forward, ..UpdateAcl::default() };
    respond_from_zone(0, ZoneAcls { update, ..ZoneAcls::default() }, request, out)
}

/// The oldest reply to an UPDATE message that nobody has sent yet.
fn next_late_reply() -> LateReply {
    LATE_REPLIES.with_borrow_mut(|replies| replies.remove(0))
}

const QUERY: u8 = 0;
const NOTIFY: u8 = 4 << 3;
const UPDATE: u8 = 5 << 3;
/// DNS Stateful Operations.
const DSO: u8 = 6 << 3;

fn message(opcode: u8, command: u8, last: u8) -> [u8; 14] {
    [0, 0, opcode, 0, command, 0, 0, 0, 0, 0, 0, 0, 1, last]
}

/// RFC 9250 4.2.1: a message ID other than 0 is a protocol error.
fn with_another_id() -> [u8; 14] {
    let mut message = message(QUERY, 0, 0);
    message[1] = 1;
    message
}

/// A query for the root.
fn question(rtype: Rtype) -> Vec<u8> {
    let header = [0, 0, QUERY, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    [&header[..], &[0], &rtype.0.to_be_bytes(), &[0, 1]].concat()
}

/// The number of records in the messages of a stream.
fn records(mut octets: &[u8]) -> usize {
    let mut count = 0;
    while let Some((message, after)) = split_message(octets) {
        count += usize::from(u16::from_be_bytes([message[6], message[7]]));
        octets = after;
    }
    assert_eq!(octets.len(), 0, "the last message is incomplete");
    count
}

fn code(error: DoqError) -> u64 {
    error as u64
}

#[test]
fn rfc_9250_4_2_each_stream_has_a_query_and_its_response() {
    let mut world = World::new(|_| {});
    let client = world.connect(1);
    for number in 0..200 {
        let response = world.exchange(client, &message(QUERY, 0, number));
        assert_eq!((response[2], response[13]), (0x80, number));
    }
    assert_eq!(world.exchange(client, &message(QUERY, LONGEST, 0)).len(), 65_535);
    // In parallel, and octet by octet. Clients may have more streams once they have used half of the first ones.
    let few: Vec<_> = (0..8).map(|number| (number, world.ask(client, &message(QUERY, 0, number)))).collect();
    world.run();
    let many: Vec<_> = (0..90).map(|number| (number, world.ask(client, &message(QUERY, 0, number)))).collect();
    let slow = world.send(client, &[0], false);
    for octet in [14].into_iter().chain(message(QUERY, 0, 9)) {
        world.run();
        world.clients[client].connection.send_stream(slow).write(&[octet]).expect("open");
    }
    world.clients[client].connection.send_stream(slow).finish().expect("open");
    world.run();
    for (number, id) in few.into_iter().chain(many).chain([(9, slow)]) {
        let (octets, end) = &world.clients[client].received[&id];
        assert_eq!((octets[15], end), (number, &StreamEnd::Finished));
    }
    let totals = world.totals();
    assert_eq!((totals.connections, totals.queries, totals.answers), (1, 300, 300));
}

#[test]
fn clients_may_open_more_streams_once_they_use_half_of_the_first_ones() {
    for (asked, expected) in [(0, 16..=16), (7, 9..=16), (8, 92..=100)] {
        let mut world = World::new(|_| {});
        let client = world.connect(1);
        (0..asked).for_each(|number| _ = world.ask(client, &message(QUERY, 0, number)));
        world.run();
        let connection = &mut world.clients[client].connection;
        let opened = (0..200).filter(|_| connection.streams().open(Dir::Bi).is_some()).count();
        assert!(expected.contains(&opened), "{opened} after {asked} queries");
        // Its memory stays, and is reserved for each connection.
        world.wait(Duration::from_secs(1));
        assert_eq!(world.server.memory(), 0);
    }
}

#[test]
fn a_query_of_maximum_length_is_read_in_several_windows() {
    let mut world = World::new(|_| {});
    let client = world.connect(1);
    let query = [&message(QUERY, 0, 0)[..], &[9; 65_535 - 14]].concat();
    let octets = [&[255, 255][..], &query].concat();
    let id = world.send(client, &octets[..1], false);
    let mut written = 1;
    while written < octets.len() {
        world.run();
        written += world.clients[client].connection.send_stream(id).write(&octets[written..]).expect("a window");
    }
    world.clients[client].connection.send_stream(id).finish().expect("open");
    world.run();
    assert_eq!(world.clients[client].received[&id].0.len(), 2 + 65_535);
}

/// The kernel of a client holds fewer datagrams than its window allows, so that the end of each flight is lost.
#[test]
fn a_transfer_survives_the_loss_of_bursts() {
    let mut world = World::new(|_| {});
    world.client_window = Some(512 << 10);
    let client = world.connect(1);
    world.client_buffer = 90;
    let id = world.ask(client, &message(QUERY, TRANSFER, 0));
    for _ in 0..2000 {
        world.wait_in_steps(Duration::from_millis(10), Duration::from_millis(1));
        if world.clients[client].received.get(&id).is_some_and(|(_, end)| *end == StreamEnd::Finished) {
            let (octets, _) = &world.clients[client].received[&id];
            return assert!(octets.len() > 200 * TRANSFERRED, "{}", octets.len());
        }
    }
    panic!("{:?}", world.clients[client].received.get(&id).map(|(octets, end)| (octets.len(), end.clone())));
}

/// RFC 9250 4.2: all messages of a transfer are sent on the stream of its query.
#[test]
fn rfc_9250_4_2_a_transfer_is_complete() {
    let mut world = World::new(|_| {});
    let client = world.connect(1);
    let id = world.ask(client, &message(QUERY, TRANSFER, 0));
    world.run();
    let (octets, end) = &world.clients[client].received[&id];
    assert_eq!((records(octets), end), (TRANSFERRED + 3, &StreamEnd::Finished));
}

#[test]
fn rfc_9250_4_3_3_protocol_errors_end_the_connection() {
    let keepalive =
        [&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1][..], &[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 4, 0, 11, 0, 0]].concat();
    let with_prefix = |message: &[u8]| [&[0, message.len() as u8], message].concat();
    for (what, octets) in [
        ("another message ID", with_prefix(&with_another_id())),
        ("edns-tcp-keepalive", with_prefix(&keepalive)),
        ("an incomplete message", with_prefix(&message(QUERY, 0, 0))[..9].to_vec()),
        ("nothing", Vec::new()),
        ("two messages", with_prefix(&message(QUERY, 0, 0)).repeat(2)),
        ("a message without a response", with_prefix(&message(QUERY, DROP, 0))),
    ] {
        let mut world = World::new(|_| {});
        let client = world.connect(1);
        world.send(client, &octets, true);
        world.run();
        assert_eq!(world.close_code(client), Some(code(DoqError::ProtocolError)), "{what}");
        assert_eq!(world.totals().protocol_errors, 1, "{what}");
    }
}

#[test]
fn rfc_9250_4_3_3_clients_may_not_open_unidirectional_streams() {
    let mut world = World::new(|_| {});
    let client = world.connect(1);
    assert!(world.clients[client].connection.streams().open(Dir::Uni).is_none());
}

#[test]
fn rfc_9250_4_3_1_a_cancelled_query_is_abandoned() {
    let mut world = World::new(|_| {});
    let client = world.connect(1);
    world.clients[client].reads = false;
    let id = world.ask(client, &message(QUERY, LONGEST, 0));
    let half = world.send(client, &[0, 14, 0, 0], false);
    world.run();
    let connection = &mut world.clients[client].connection;
    connection.recv_stream(id).stop(DoqError::RequestCancelled.into()).expect("open");
    connection.send_stream(half).reset(DoqError::RequestCancelled.into()).expect("open");
    world.clients[client].reads = true;
    world.run();
    assert_eq!(world.clients[client].received[&half].1, StreamEnd::Reset(code(DoqError::RequestCancelled)));
    assert!(world.server.memory() == 0 && world.clients[client].closed.is_none());
    world.exchange(client, &message(QUERY, 0, 1));
}

#[test]
fn rfc_9250_4_3_2_a_panic_costs_one_stream() {
    crate::listen::panic_guard::log_panics();
    let mut world = World::new(|_| {});
    let client = world.connect(1);
    let id = world.ask(client, &message(QUERY, PANIC, 0));
    world.run();
    assert_eq!(world.clients[client].received[&id].1, StreamEnd::Reset(code(DoqError::InternalError)));
    world.exchange(client, &message(QUERY, 0, 1));
    assert_eq!(world.totals().panics, 1);
}

/// RFC 2136 3.8: the response is that of the writer, on the stream of the update, in whatever order they come.
#[test]
fn rfc_9250_4_2_late_responses_are_on_the_streams_of_their_updates() {
    let mut world = World::new(|_| {});
    let [one, other] = [1, 2].map(|number| world.connect(number));
    let mut updates = Vec::new();
    for client in [one, other, one, other] {
        let id = world.ask(client, &update());
        world.run();
        let reply = next_late_reply();
        assert!(reply.is_over_quic());
        updates.push((client, id, reply));
        world.exchange(client, &message(QUERY, 0, 1));
    }
    let [first, second, third, fourth]: [_; 4] = updates.try_into().unwrap_or_else(|_| panic!("four updates"));
    // This one is abandoned, so that nobody gets its response.
    world.clients[other].connection.recv_stream(second.1).stop(DoqError::RequestCancelled.into()).expect("open");
    world.run();
    let expected =
        [(fourth, Rcode::REFUSED), (first, Rcode::SERVFAIL), (second, Rcode::NXDOMAIN), (third, Rcode::NOERROR)];
    for ((client, id, reply), rcode) in expected {
        assert!(!world.clients[client].received.contains_key(&id));
        reply.send(rcode);
        world.run();
        let response = world.clients[client].received.get(&id).map(|(octets, _)| u16::from(octets[5] & 15));
        assert_eq!(response, (rcode != Rcode::NXDOMAIN).then_some(rcode.0));
    }
    for client in [one, other] {
        world.exchange(client, &message(QUERY, 0, 1));
    }
}

/// Whoever ends it: the late response to an update would go to a stream of the next connection with the same index.
#[test]
fn rfc_9000_10_2_what_arrives_with_the_end_of_a_connection_is_not_answered() {
    let mut world = World::new(|options| options.idle_timeout = Duration::from_secs(10));
    let [wrong, expired, leaving] = [1, 2, 3].map(|number| world.connect(number));
    world.ask(wrong, &with_another_id());
    world.ask(wrong, &update());
    world.run();
    assert_eq!(world.close_code(wrong), Some(code(DoqError::ProtocolError)));
    let half = world.send(leaving, &[0, update().len() as u8], false);
    world.run();
    let mut stream = world.clients[leaving].connection.send_stream(half);
    assert_eq!(stream.write(&update()), Ok(update().len()));
    stream.finish().expect("open");
    world.deliver_from(leaving);
    world.clients[leaving].connection.close(world.now, DoqError::NoError.into(), Bytes::new());
    world.run();
    world.now += Duration::from_secs(10);
    world.ask(expired, &update());
    world.run();
    assert_eq!(world.close_code(expired), Some(code(DoqError::NoError)));
    assert_eq!(world.totals().queries, 0);
    assert!(LATE_REPLIES.with_borrow(Vec::is_empty));
}

#[test]
fn after_a_panic_no_other_stream_gets_the_late_response() {
    crate::listen::panic_guard::log_panics();
    let mut world = World::new(|_| {});
    let [one, other] = [1, 2].map(|number| world.connect(number));
    UPDATES_PANIC.set(true);
    let id = world.ask(one, &update());
    world.run();
    assert_eq!(world.clients[one].received[&id].1, StreamEnd::Reset(code(DoqError::InternalError)));
    let response = world.exchange(other, &message(QUERY, 0, 7));
    assert_eq!(response[13], 7);
    next_late_reply().send(Rcode::REFUSED);
    world.run();
    world.exchange(one, &message(QUERY, 0, 7));
}

#[test]
fn a_panic_costs_a_handshake_or_a_connection_but_no_other() {
    crate::listen::panic_guard::log_panics();
    let mut world = World::new(|options| options.connections = 2);
    let [_, other] = [1, 2].map(|number| world.connect(number));
    world.wait(Duration::from_millis(200));
    world.exchange(other, &message(QUERY, 0, 1));
    let tls = world.tls(&RemoteTls::default());
    let client = world.start(3, tls);
    // The table is full: the client proves its address.
    world.deliver_from(client);
    world.deliver_to_clients();
    world.deliver_from(client);
    // When the oldest connection is closed to make room, and when its place is taken.
    world.network.panics = true;
    world.server.finish_round(world.now, &mut world.network);
    world.network.panics = false;
    assert_eq!((world.totals().panics, world.server.connections()), (2, 1));
    world.exchange(other, &message(QUERY, 0, 2));
    world.connect(4);
}

/// Panics when an event of level INFO is logged.
struct PanickingLog;

impl<S: Subscriber> Layer<S> for PanickingLog {
    fn on_event(&self, event: &tracing::Event<'_>, _context: Context<'_, S>) {
        assert!(*event.metadata().level() != tracing::Level::INFO, "as the test commands");
    }
}

#[test]
fn a_panic_while_a_connection_is_forgotten_after_one_costs_no_other() {
    crate::listen::panic_guard::log_panics();
    let mut world = World::new(|_| {});
    let other = world.connect(1);
    world.client_window = Some(1000);
    let client = world.connect(2);
    world.clients[client].reads = false;
    world.ask(client, &message(QUERY, SMALL_TRANSFER, 0));
    world.run();
    world.clients[client].connection.ping();
    world.deliver_from(client);
    // In its turn; and when the end of the transfer is logged.
    world.network.panics = true;
    let log = tracing_subscriber::registry().with(PanickingLog);
    tracing::subscriber::with_default(log, || world.server.finish_round(world.now, &mut world.network));
    world.network.panics = false;
    assert_eq!((world.totals().panics, world.server.connections()), (2, 1));
    world.exchange(other, &message(QUERY, 0, 1));
}

#[test]
fn the_names_of_a_client_certificate_are_known() {
    let mut world = World::new(|_| {});
    let own = world.certificates.issue("client", &["secondary.example.net", "other.example"]);
    let remote = RemoteTls { client: Some((own.certificate, own.key)), ..RemoteTls::default() };
    let tls = world.tls(&remote);
    let client = world.start(1, tls);
    world.run();
    assert_eq!(world.exchange(client, &message(QUERY, CLIENT_NAMES, 9))[13], 2);
    let without = world.connect(2);
    assert_eq!(world.exchange(without, &message(QUERY, CLIENT_NAMES, 9))[13], 0);
    // For as long as the authorities of the last reload certify them.
    let others = TestCertificates::new();
    for (authorities, names) in [(others.authority(), 0), (world.certificates.authority(), 2)] {
        world.reload_with(Some(authorities));
        assert_eq!(world.exchange(client, &message(QUERY, CLIENT_NAMES, 9))[13], names);
    }
}

#[test]
fn another_alpn_is_refused() {
    let mut world = World::new(|_| {});
    let mut tls = world.tls(&RemoteTls::default());
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let client = world.start(1, tls);
    world.run();
    assert!(matches!(world.clients[client].closed, Some(ConnectionError::ConnectionClosed(_))));
}
