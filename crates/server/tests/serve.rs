//! The listeners with real zones: queries and concurrent zone transfers.

use answer::{
    Acl, AclEntry, Publisher, ReceivedNotify, Served, ServedZone, UpdateAcl, UpdateEntry, ZoneAcls, ZoneExtras,
    ZoneHistory, ZoneState,
};
use server::listen::{self, CounterTotals, EventSinks, IncomingUpdate, ListenConfig, ListenerThreads, ZoneResponder};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::sync::mpsc::{Receiver, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use wire::message::{Message, Opcode, Rcode};
use wire::serial::of_soa;
use wire::{AddressPrefix, Name, Rtype};
use zone::load::load_text;

const SOON: Duration = Duration::from_secs(5);
/// Enough records for a transfer longer than the socket buffers of both ends.
const RECORDS: usize = 60_000;

/// The zone `example.` with SOA and NS records at its apex and `records` TXT records of 200 octets.
fn zone_text(serial: u32, records: usize) -> String {
    let text = "x".repeat(200);
    let mut zone = format!("@ 60 SOA ns.invalid. host.invalid. {serial} 1 1 1 1\n@ 60 NS ns.invalid.\n");
    (0..records).for_each(|number| zone += &format!("t{number} 60 TXT {text}\n"));
    zone
}

/// A zone map with this zone, which `peer` may transfer and update.
fn served(text: &str, peer: IpAddr) -> Served {
    let apex: Name = "example.".parse().expect("a name");
    let outcome = load_text(apex.as_ref(), text.as_bytes());
    let zone = outcome.zone.unwrap_or_else(|| panic!("{:?}", outcome.findings));
    let access = Acl(vec![AclEntry::of_addresses(AddressPrefix::single(peer))]);
    let entries = access.0.iter().map(|client| UpdateEntry { client: client.clone(), ..UpdateEntry::default() });
    let update = UpdateAcl { entries: entries.collect(), ..UpdateAcl::default() };
    let acls = ZoneAcls { transfer: access.clone(), notify: access, update };
    let extras = ZoneExtras::new(acls, ZoneHistory::new());
    let mut served = Served::default();
    served.zones.insert(Arc::new(ServedZone::new(ZoneState::Loaded(zone), extras)));
    served
}

fn serve(records: usize, peer: Ipv4Addr) -> (ListenerThreads, SocketAddr, Publisher<Served>) {
    serve_with(records, peer, EventSinks { notify: Arc::new(|_| false), update: Arc::new(Err) })
}

fn serve_with(records: usize, peer: Ipv4Addr, sinks: EventSinks) -> (ListenerThreads, SocketAddr, Publisher<Served>) {
    serve_with_config(records, peer, sinks, ListenConfig::default())
}

fn serve_with_config(
    records: usize,
    peer: Ipv4Addr,
    sinks: EventSinks,
    config: ListenConfig,
) -> (ListenerThreads, SocketAddr, Publisher<Served>) {
    let publisher = Publisher::new(served(&zone_text(1, records), peer.into()));
    let udp = netio::udp_server::ServerSocketOptions { wake_interval: Duration::from_millis(50), ..Default::default() };
    let options = ListenConfig { udp, ..config };
    let listeners = listen::bind(&["127.0.0.1:0".parse().expect("a literal")], &options).expect("loopback");
    let address = listeners.addresses()[0];
    let running = listeners.serve(|| ZoneResponder::new(publisher.subscribe(), sinks.clone())).expect("threads");
    (running, address, publisher)
}

fn connect(server: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(server).expect("loopback");
    stream.set_read_timeout(Some(SOON)).expect("a valid timeout");
    stream
}

fn query(id: u16, name: &str, qtype: Rtype) -> Vec<u8> {
    let mut query = Message::query(name.parse().expect("a name"), qtype);
    query.id = id;
    query.to_wire()
}

/// The counters of all UDP threads.
fn udp_totals(running: &ListenerThreads) -> CounterTotals {
    let [(_, udp), ..] = running.counters().totals();
    udp
}

/// The counters of all TCP threads.
fn tcp_totals(running: &ListenerThreads) -> CounterTotals {
    let [_, (_, tcp), ..] = running.counters().totals();
    tcp
}

fn send(stream: &mut TcpStream, query: &[u8]) {
    let len = u16::try_from(query.len()).expect("a short query");
    stream.write_all(&[&len.to_be_bytes(), query].concat()).expect("the server reads");
}

fn receive(stream: &mut TcpStream) -> io::Result<Message> {
    let mut prefix = [0; 2];
    stream.read_exact(&mut prefix)?;
    let mut message = vec![0; usize::from(u16::from_be_bytes(prefix))];
    stream.read_exact(&mut message)?;
    Ok(Message::parse(&message).expect("a well-formed answer"))
}

/// The serial in the SOA record of the first answer record.
fn serial(message: &Message) -> u32 {
    let rdata = &message.answer.first().expect("an answer").rdata;
    of_soa(rdata).expect("whole SOA RDATA")
}

fn served_serial(stream: &mut TcpStream) -> u32 {
    send(stream, &query(9, "example.", Rtype::SOA));
    serial(&receive(stream).expect("an answer"))
}

/// Reads a transfer to its end; returns its serial and its number of records, both SOA records included.
fn read_transfer(stream: &mut TcpStream, id: u16) -> (u32, usize) {
    let first = receive(stream).expect("the first message");
    let serial = serial(&first);
    let (mut records, mut ends) = (0, 0);
    let mut message = first;
    loop {
        assert_eq!((message.id, message.rcode, message.flags.authoritative), (id, Rcode::NOERROR, true));
        records += message.answer.len();
        ends += message.answer.iter().filter(|record| record.rtype == Rtype::SOA).count();
        if ends == 2 {
            return (serial, records);
        }
        message = receive(stream).expect("a further message");
    }
}

#[test]
fn queries_are_answered_over_both_transports() {
    let (running, server, _publisher) = serve(3, Ipv4Addr::LOCALHOST);
    let client = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    client.connect(server).expect("loopback");
    client.set_read_timeout(Some(SOON)).expect("a valid timeout");
    let mut answer = [0; 512];
    for (qtype, count) in [(Rtype::TXT, 1), (Rtype::A, 0)] {
        client.send(&query(7, "t2.example.", qtype)).expect("loopback");
        let len = client.recv(&mut answer).expect("an answer");
        let message = Message::parse(&answer[..len]).expect("a well-formed answer");
        assert_eq!((message.id, message.rcode, message.answer.len()), (7, Rcode::NOERROR, count));
    }
    let mut stream = connect(server);
    send(&mut stream, &query(8, "nx.example.", Rtype::A));
    assert_eq!(receive(&mut stream).expect("an answer").rcode, Rcode::NXDOMAIN);
    assert_eq!((udp_totals(&running).rcodes[0], udp_totals(&running).answers), (2, 2));
    running.stop();
}

/// RFC 5936 2.2 and 6.1: a transfer is of one version even if another is published meanwhile; it does not delay queries
/// of other connections.
#[test]
fn a_transfer_keeps_its_version_and_does_not_delay_queries() {
    let (running, server, mut publisher) = serve(RECORDS, Ipv4Addr::LOCALHOST);
    let (mut slow, mut other) = (connect(server), connect(server));
    send(&mut slow, &query(1, "example.", Rtype::AXFR));
    assert_eq!(served_serial(&mut other), 1);
    publisher.publish(served(&zone_text(2, 1), Ipv4Addr::LOCALHOST.into()));
    let begin = Instant::now();
    while served_serial(&mut other) == 1 {
        assert!(begin.elapsed() < SOON, "a new version is served with the next batch");
    }
    assert!(tcp_totals(&running).transfer_octets < (RECORDS * 200) as u64, "the first transfer waits for its reader");
    send(&mut other, &query(2, "example.", Rtype::AXFR));
    assert_eq!(read_transfer(&mut other, 2), (2, 4));
    assert_eq!(read_transfer(&mut slow, 1), (1, RECORDS + 3));
    assert_eq!(served_serial(&mut slow), 2);
    assert_eq!(tcp_totals(&running).transfers, 2);
    running.stop();
}

/// RFC 7766 6.2.1.1: queries pipelined after a transfer query are answered after the transfer.
#[test]
fn queries_after_a_transfer_are_answered() {
    let (running, server, _publisher) = serve(1000, Ipv4Addr::LOCALHOST);
    let mut stream = connect(server);
    for (id, qtype) in [(1, Rtype::SOA), (2, Rtype::AXFR), (3, Rtype::AXFR), (4, Rtype::SOA)] {
        send(&mut stream, &query(id, "example.", qtype));
    }
    assert_eq!(receive(&mut stream).expect("an answer").id, 1);
    assert_eq!([2, 3].map(|id| read_transfer(&mut stream, id)), [(1, 1003); 2]);
    assert_eq!(receive(&mut stream).expect("an answer").id, 4);
    running.stop();
}

#[test]
fn clients_outside_allow_transfer_are_refused() {
    let (running, server, _publisher) = serve(1, Ipv4Addr::new(192, 0, 2, 1));
    let mut stream = connect(server);
    send(&mut stream, &query(1, "example.", Rtype::AXFR));
    let answer = receive(&mut stream).expect("an answer");
    assert_eq!((answer.rcode, answer.answer.len()), (Rcode::REFUSED, 0));
    running.stop();
}

/// A replaced version is freed when its last reader is gone.
#[test]
fn an_aborted_transfer_releases_its_version() {
    let (running, server, mut publisher) = serve(RECORDS, Ipv4Addr::LOCALHOST);
    let first = publisher.current();
    let zone = first.zones.iter().next().expect("one zone").clone();
    drop(first);
    let mut stream = connect(server);
    send(&mut stream, &query(1, "example.", Rtype::AXFR));
    receive(&mut stream).expect("the first message");
    publisher.publish(served(&zone_text(2, 1), Ipv4Addr::LOCALHOST.into()));
    drop(stream);
    let begin = Instant::now();
    while publisher.reclaim() > 0 || Arc::strong_count(&zone) > 1 {
        assert!(begin.elapsed() < SOON, "the old version is still held");
        std::thread::sleep(Duration::from_millis(10));
    }
    running.stop();
}

#[test]
fn a_stop_finishes_transfers() {
    let (running, server, _publisher) = serve(RECORDS, Ipv4Addr::LOCALHOST);
    let mut stream = connect(server);
    send(&mut stream, &query(1, "example.", Rtype::AXFR));
    receive(&mut stream).expect("the first message");
    let stopping = std::thread::spawn(move || running.stop());
    let mut octets = 0;
    let mut buffer = vec![0; 1 << 20];
    loop {
        match stream.read(&mut buffer).expect("more of the transfer") {
            0 => break,
            count => octets += count,
        }
    }
    assert!(octets > RECORDS * 200 - 65_535, "{octets} octets");
    stopping.join().expect("no panic");
}

/// RFC 1996 3.7: an accepted NOTIFY message is passed on before it is answered; SERVFAIL if there is no room for it.
#[test]
fn notify_messages_are_passed_on_over_udp_and_tcp() {
    let received = Arc::new(Mutex::new(Vec::new()));
    let queue = received.clone();
    let notify = Arc::new(move |notify| {
        let mut queue = queue.lock().expect("no panic");
        let has_room = queue.len() < 2;
        if has_room {
            queue.push(notify);
        }
        has_room
    });
    let sinks = EventSinks { notify, update: Arc::new(Err) };
    let (running, server, _publisher) = serve_with(1, Ipv4Addr::LOCALHOST, sinks);
    let notify =
        Message { id: 7, opcode: Opcode::NOTIFY, ..Message::query("example.".parse().expect("a name"), Rtype::SOA) };
    let notify = notify.to_wire();
    let udp = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    udp.connect(server).expect("loopback");
    udp.set_read_timeout(Some(SOON)).expect("a valid timeout");
    let mut tcp = connect(server);
    let by_udp = || {
        udp.send(&notify).expect("loopback");
        let mut answer = [0; 512];
        let len = udp.recv(&mut answer).expect("an answer");
        Message::parse(&answer[..len]).expect("well-formed")
    };
    let mut by_tcp = || {
        send(&mut tcp, &notify);
        receive(&mut tcp).expect("an answer")
    };
    let answers = [by_udp(), by_tcp(), by_udp(), by_tcp()];
    let rcodes = answers.map(|answer| (answer.id, answer.opcode, answer.rcode));
    let [taken, rejected] = [Rcode::NOERROR, Rcode::SERVFAIL].map(|rcode| (7, Opcode::NOTIFY, rcode));
    assert_eq!(rcodes, [taken, taken, rejected, rejected]);
    let expected =
        ReceivedNotify { apex: "example.".parse().expect("a name"), serial: None, from: Ipv4Addr::LOCALHOST.into() };
    assert_eq!(*received.lock().expect("no panic"), [expected.clone(), expected]);
    let totals = [udp_totals(&running), tcp_totals(&running)];
    assert_eq!(totals.map(|totals| (totals.notifies, totals.notifies_rejected, totals.answers)), [(1, 1, 2); 2]);
    running.stop();
}

//----------- updates --------------------------------------------------------------

/// A server whose updates wait in a queue for two of them.
fn serve_updates() -> (ListenerThreads, SocketAddr, Receiver<Box<IncomingUpdate>>) {
    serve_updates_with(ListenConfig::default())
}

fn serve_updates_with(config: ListenConfig) -> (ListenerThreads, SocketAddr, Receiver<Box<IncomingUpdate>>) {
    let (sender, received) = sync_channel::<Box<IncomingUpdate>>(2);
    let update = Arc::new(move |update| {
        sender.try_send(update).map_err(|error| match error {
            TrySendError::Full(update) | TrySendError::Disconnected(update) => update,
        })
    });
    let sinks = EventSinks { notify: Arc::new(|_| false), update };
    let (running, server, _publisher) = serve_with_config(1, Ipv4Addr::LOCALHOST, sinks, config);
    (running, server, received)
}

fn update(id: u16) -> Vec<u8> {
    Message { id, opcode: Opcode::UPDATE, ..Message::query("example.".parse().expect("a name"), Rtype::SOA) }.to_wire()
}

fn parsed(response: io::Result<Message>) -> Option<(u16, Opcode, Rcode)> {
    response.ok().map(|response| (response.id, response.opcode, response.rcode))
}

/// RFC 2136 3.8: an update is answered once it was applied, by another thread; SERVFAIL if too many wait.
#[test]
fn updates_are_answered_later_over_udp() {
    let (running, server, received) = serve_updates();
    let client = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    client.connect(server).expect("loopback");
    client.set_read_timeout(Some(SOON)).expect("a valid timeout");
    let answer = || {
        let mut answer = [0; 512];
        let len = client.recv(&mut answer).expect("an answer");
        parsed(Message::parse(&answer[..len]).map_err(io::Error::other))
    };
    for id in 1..=3 {
        client.send(&update(id)).expect("loopback");
    }
    assert_eq!(answer(), Some((3, Opcode::UPDATE, Rcode::SERVFAIL)), "two wait already");
    let [first, second] = [(); 2].map(|()| received.recv_timeout(SOON).expect("it was passed on"));
    assert_eq!(*first.update.message, update(1));
    assert_eq!(first.reply.datagram_from(), client.local_addr().ok());
    second.reply.send(Rcode::YXDOMAIN);
    first.reply.send(Rcode::NOERROR);
    assert_eq!(answer(), Some((2, Opcode::UPDATE, Rcode::YXDOMAIN)));
    assert_eq!(answer(), Some((1, Opcode::UPDATE, Rcode::NOERROR)));
    let totals = udp_totals(&running);
    assert_eq!((totals.updates, totals.updates_rejected, totals.answers), (2, 1, 0));
    running.stop();
}

#[test]
fn updates_are_answered_later_over_tcp_while_other_queries_are_not_delayed() {
    let (running, server, received) = serve_updates();
    let mut client = connect(server);
    send(&mut client, &update(1));
    let first = received.recv_timeout(SOON).expect("it was passed on");
    let query = Message::query("example.".parse().expect("a name"), Rtype::SOA);
    send(&mut client, &Message { id: 9, ..query }.to_wire());
    assert_eq!(receive(&mut client).map(|answer| answer.id).ok(), Some(9), "RFC 7766 7: responses may overtake");
    first.reply.send(Rcode::NOERROR);
    assert_eq!(parsed(receive(&mut client)), Some((1, Opcode::UPDATE, Rcode::NOERROR)));

    // A client that has closed its half still gets its responses, then the end of the stream.
    send(&mut client, &update(2));
    send(&mut client, &update(3));
    client.shutdown(Shutdown::Write).expect("it is open");
    let [second, third] = [(); 2].map(|()| received.recv_timeout(SOON).expect("it was passed on"));
    std::thread::sleep(Duration::from_millis(50));
    third.reply.send(Rcode::REFUSED);
    assert_eq!(parsed(receive(&mut client)), Some((3, Opcode::UPDATE, Rcode::REFUSED)));
    second.reply.send(Rcode::NOERROR);
    assert_eq!(parsed(receive(&mut client)), Some((2, Opcode::UPDATE, Rcode::NOERROR)));
    let end = receive(&mut client).map_err(|error| error.kind());
    assert_eq!(end, Err(io::ErrorKind::UnexpectedEof));

    // A response to a client that has gone goes nowhere, also if another one has its place.
    let mut gone = connect(server);
    send(&mut gone, &update(4));
    let fourth = received.recv_timeout(SOON).expect("it was passed on");
    netio::tcp::reset(gone).expect("it is open");
    std::thread::sleep(Duration::from_millis(50));
    let mut next = connect(server);
    send(&mut next, &update(5));
    let fifth = received.recv_timeout(SOON).expect("it was passed on");
    fourth.reply.send(Rcode::NOERROR);
    fifth.reply.send(Rcode::YXRRSET);
    assert_eq!(parsed(receive(&mut next)), Some((5, Opcode::UPDATE, Rcode::YXRRSET)));
    assert_eq!(tcp_totals(&running).updates, 5);
    running.stop();
}

/// RFC 7766 3: a connection is not idle before it has all its responses, and an update may be forwarded for seconds.
#[test]
fn connections_that_wait_for_updates_are_not_evicted_for_others() {
    for is_half_closed in [false, true] {
        let config = ListenConfig { connections: 2, tcp_workers: 1, ..ListenConfig::default() };
        let (running, server, received) = serve_updates_with(config);
        let mut client = connect(server);
        send(&mut client, &update(1));
        if is_half_closed {
            client.shutdown(Shutdown::Write).expect("it is open");
        }
        let pending = received.recv_timeout(SOON).expect("it was passed on");
        // As long as an active connection may make no progress.
        std::thread::sleep(Duration::from_millis(1500));
        for id in 2..6 {
            let mut other = connect(server);
            let query = Message::query("example.".parse().expect("a name"), Rtype::SOA);
            send(&mut other, &Message { id, ..query }.to_wire());
            assert_eq!(receive(&mut other).map(|answer| answer.id).ok(), Some(id));
            std::mem::forget(other);
        }
        assert_eq!(tcp_totals(&running).evicted, 3);
        pending.reply.send(Rcode::NOERROR);
        assert_eq!(parsed(receive(&mut client)), Some((1, Opcode::UPDATE, Rcode::NOERROR)), "{is_half_closed}");
        running.stop();
    }
}

/// Not even if one of them has the most memory of those that made no progress for the longest.
#[test]
fn connections_that_wait_for_updates_are_not_evicted_for_memory() {
    let config = ListenConfig { memory_limit: 64 << 10, tcp_workers: 1, ..ListenConfig::default() };
    let (running, server, received) = serve_updates_with(config);
    let mut client = connect(server);
    send(&mut client, &update(1));
    let pending = received.recv_timeout(SOON).expect("it was passed on");
    // Each sends the start of a message, which the server keeps.
    client.write_all(&[0xff; 8000]).expect("the server reads");
    std::thread::sleep(Duration::from_millis(50));
    let mut others: Vec<TcpStream> = (0..40).map(|_| connect(server)).collect();
    others.iter_mut().for_each(|other| other.write_all(&[0xff; 2000]).expect("the server reads"));
    let begin = Instant::now();
    while tcp_totals(&running).evicted == 0 {
        assert!(begin.elapsed() < SOON);
        std::thread::sleep(Duration::from_millis(5));
    }
    pending.reply.send(Rcode::NOERROR);
    assert_eq!(parsed(receive(&mut client)), Some((1, Opcode::UPDATE, Rcode::NOERROR)));
    running.stop();
}

#[test]
fn a_stop_waits_for_updates_over_tcp() {
    let (running, server, received) = serve_updates();
    let mut client = connect(server);
    send(&mut client, &update(1));
    let pending = received.recv_timeout(SOON).expect("it was passed on");
    let stopping = std::thread::spawn(move || running.stop());
    std::thread::sleep(Duration::from_millis(100));
    pending.reply.send(Rcode::NOERROR);
    assert_eq!(parsed(receive(&mut client)), Some((1, Opcode::UPDATE, Rcode::NOERROR)));
    drop(client);
    stopping.join().expect("no panic");
}
