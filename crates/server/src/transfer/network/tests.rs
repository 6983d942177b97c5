//! The thread with real sockets, over loopback, from a primary that answers with `AxfrStream`.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::BorrowedFd;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use netio::epoll::Poll;
use wire::framing::frame;
use wire::message::{Flags, Record};
use wire::serial::of_soa;
use wire::tsig::{TsigKey, TsigSigner, verify_query};
use wire::{Class, HEADER_LEN, Message, Name, Rtype};
use zone::Zone;
use zone::axfr::AxfrStream;
use zone::load::load_text;
use zone::transfer_receiver::{Received, TransferLimits, TransferReceiver, TransferRequest};
use zone::zone_builder::ZoneBuilderOptions;

use super::super::primary::{PeerConfig, SecondaryLimits};
use super::super::soa_timers::SoaTimers;
use super::byte_stream::{ByteStream, TcpByteStream, TcpConnector};
use super::*;

const SOON: Duration = Duration::from_secs(20);
const TIMERS: SoaTimers = SoaTimers { refresh_s: 3600, retry_s: 600, expire_s: 86_400 };

type Sink = TransferReceiver;

/// A primary on loopback.
struct Primary {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    zones: Mutex<HashMap<Name, Zone>>,
    key: Option<Arc<TsigKey>>,
    sources: Mutex<Vec<SocketAddr>>,
}

fn name(number: usize) -> Name {
    format!("zone{number}.example").parse().expect("a name")
}

fn zone(apex: &Name, serial: u32) -> Zone {
    let text = format!("@ 60 SOA ns hostmaster {serial} 3600 600 86400 60\n@ 60 NS ns\nns 60 A 192.0.2.1\n");
    let outcome = load_text(apex.as_ref(), text.as_bytes());
    outcome.zone.expect("a good zone")
}

impl Primary {
    fn start(zones: usize, key: Option<Arc<TsigKey>>) -> Primary {
        let primary = Primary::start_without_udp(zones, key);
        let (udp, shared) = (UdpSocket::bind(primary.address).expect("the same port"), primary.shared.clone());
        // The threads end with the process.
        thread::spawn(move || shared.serve_udp(&udp));
        primary
    }

    fn start_without_udp(zones: usize, key: Option<Arc<TsigKey>>) -> Primary {
        let tcp = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = tcp.local_addr().expect("bound");
        let zones = (0..zones).map(|number| (name(number), zone(&name(number), 1))).collect();
        let shared = Arc::new(Shared { zones: Mutex::new(zones), key, sources: Mutex::new(Vec::new()) });
        let for_tcp = shared.clone();
        thread::spawn(move || {
            for stream in tcp.incoming() {
                let shared = for_tcp.clone();
                thread::spawn(move || shared.serve(stream.expect("loopback")));
            }
        });
        Primary { address, shared }
    }

    fn change(&self, number: usize, serial: u32) {
        self.shared.zones.lock().expect("no panic").insert(name(number), zone(&name(number), serial));
    }
}

impl Shared {
    fn serve_udp(&self, socket: &UdpSocket) {
        let mut octets = [0; 2048];
        while let Ok((len, from)) = socket.recv_from(&mut octets) {
            self.sources.lock().expect("no panic").push(from);
            let query = Message::parse(&octets[..len]).expect("well-formed");
            let zones = self.zones.lock().expect("no panic");
            let zone = &zones[&query.questions[0].name];
            let rdata = [&[0, 0][..], &zone.serial().to_be_bytes(), &[0; 16]].concat();
            let owner = query.questions[0].name.clone();
            let soa = Record { owner, rtype: Rtype::SOA, class: Class::IN, ttl: 1, rdata };
            let flags = Flags { response: true, authoritative: true, ..Flags::default() };
            let response = Message { flags, answer: vec![soa], additional: vec![], edns: None, ..query };
            let mut response = response.to_wire();
            if let Some(mut signer) = self.signer(&octets[..len]) {
                signer.sign(&mut response, 0, now().s.into()).expect("short");
            }
            socket.send_to(&response, from).expect("loopback");
        }
    }

    fn signer(&self, query: &[u8]) -> Option<TsigSigner<&TsigKey>> {
        let key = self.key.as_deref()?;
        Some(verify_query(query, |_| Some(key), now().s.into()).expect("a good signature").expect("signed"))
    }

    fn serve(&self, mut stream: TcpStream) {
        let mut len = [0; 2];
        while stream.read_exact(&mut len).is_ok() {
            let mut query = vec![0; usize::from(u16::from_be_bytes(len))];
            stream.read_exact(&mut query).expect("a whole query");
            let mut signer = self.signer(&query);
            let question = Message::parse(&query).expect("well-formed").questions.remove(0);
            let end = HEADER_LEN + question.name.wire().len() + 4;
            let zone = self.zones.lock().expect("no panic")[&question.name].clone();
            let mut transfer = AxfrStream::new(zone, [query[0], query[1]], &query[HEADER_LEN..end], &[]);
            let mut message = vec![0; 65_535];
            while let Some(len) = transfer.next_message(&mut message) {
                let mut message = message[..len].to_vec();
                if let Some(signer) = &mut signer {
                    signer.sign(&mut message, 0, now().s.into()).expect("room for it");
                }
                if stream.write_all(&frame(&message)).is_err() {
                    return;
                }
            }
        }
    }
}

/// Opens TCP connections, and counts them on this side: the primary may see the end of one after the beginning of the next.
#[derive(Clone, Default)]
struct CountingConnector(Arc<ConnectionCounts>);

#[derive(Default)]
struct ConnectionCounts {
    /// In all.
    opened: AtomicUsize,
    /// Now, and at most so far.
    open: AtomicUsize,
    most_open: AtomicUsize,
}

impl Connector for CountingConnector {
    fn connect(&mut self, peer: &PeerConfig) -> io::Result<Box<dyn ByteStream>> {
        let ConnectionCounts { opened, open, most_open } = &*self.0;
        opened.fetch_add(1, Ordering::Relaxed);
        most_open.fetch_max(open.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        let counted = CountedConnection(self.0.clone());
        Ok(Box::new(CountedStream { stream: TcpByteStream::connect(peer)?, counted }))
    }
}

/// One of the open connections, until it is dropped.
struct CountedConnection(Arc<ConnectionCounts>);

impl Drop for CountedConnection {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

struct CountedStream {
    stream: TcpByteStream,
    counted: CountedConnection,
}

impl ByteStream for CountedStream {
    fn establish(&mut self) -> io::Result<bool> {
        self.stream.establish()
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buffer)
    }

    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.stream.write(octets)
    }

    fn interest(&self, has_output: bool) -> Interest {
        self.stream.interest(has_output)
    }

    fn socket(&self) -> BorrowedFd<'_> {
        self.stream.socket()
    }

    fn close(self: Box<Self>) {
        let CountedStream { stream, counted } = *self;
        Box::new(stream).close();
        drop(counted);
    }
}

/// A running transfer thread, and its events.
fn start() -> (TransferHandle, Receiver<TransferEvent<Sink>>) {
    start_with(Box::new(TcpConnector))
}

/// As [`start`], with connections from this connector.
fn start_with(connector: Box<dyn Connector>) -> (TransferHandle, Receiver<TransferEvent<Sink>>) {
    let (sender, events) = channel();
    let make_sink = |RequestedTransfer { apex, from_serial: ixfr_from, .. }: RequestedTransfer<'_>| {
        let request = TransferRequest { ixfr_from, not_before: ixfr_from, is_udp: false };
        TransferReceiver::new(apex, request, TransferLimits::default(), ZoneBuilderOptions::default())
    };
    let on_event = move |event| _ = sender.send(event);
    let (network, handle) =
        TransferNetwork::new(EngineLimits::default(), 1, connector, make_sink, on_event).expect("epoll");
    thread::spawn(move || network.run().expect("epoll"));
    (handle, events)
}

fn add(handle: &TransferHandle, number: usize, primary: &PeerConfig) -> ZoneId {
    let zone = ZoneId { index: number as u32, generation: 0 };
    let primaries = [primary.clone()].into();
    let limits = SecondaryLimits::default();
    handle.send(TransferCommand::Add { zone, apex: name(number), primaries, limits, version: None }).expect("it runs");
    zone
}

/// Publishes the next received zone; returns it with its serial and records.
fn publish_next(handle: &TransferHandle, events: &Receiver<TransferEvent<Sink>>) -> (ZoneId, u32, u64) {
    let next = || events.recv_timeout(SOON).expect("an event");
    // The times of earlier versions are not of interest.
    let event = std::iter::repeat_with(next).find(|event| !matches!(event, TransferEvent::Refreshed { .. }));
    match event.expect("the iterator does not end") {
        TransferEvent::Received { zone, sink, report } => {
            assert_eq!(report.failure, None);
            let Received::Full { zone: received, .. } = sink.finish().expect("a good zone") else { panic!("no zone") };
            let serial = received.serial();
            let published = TransferCommand::Published { zone, serial, timers: TIMERS, expire_s: None };
            handle.send(published).expect("it runs");
            (zone, serial, report.records)
        }
        TransferEvent::Failed { report, .. } => panic!("{report:?}"),
        _ => panic!("another event"),
    }
}

#[test]
fn a_thousand_zones_come_over_few_connections_and_a_notify_brings_a_change_at_once() {
    let primary = Primary::start(1000, None);
    let connector = CountingConnector::default();
    let (handle, events) = start_with(Box::new(connector.clone()));
    let peer = PeerConfig { source: "127.0.0.77".parse().ok(), ..PeerConfig::plain(primary.address) };
    let zones: Vec<ZoneId> = (0..1000).map(|number| add(&handle, number, &peer)).collect();
    let mut received: Vec<(ZoneId, u32, u64)> = (0..1000).map(|_| publish_next(&handle, &events)).collect();
    received.sort_unstable();
    let expected: Vec<_> = zones.iter().map(|zone| (*zone, 1, 4)).collect();
    assert_eq!(received, expected);
    // An idle connection is closed soon, so that a slow machine opens several one after the other, but far from one for each zone.
    let ConnectionCounts { opened, most_open, .. } = &*connector.0;
    let (opened, most_open) = (opened.load(Ordering::Relaxed), most_open.load(Ordering::Relaxed));
    assert!((1..=4).contains(&most_open) && opened <= 100, "{most_open} at once, {opened} in all");

    primary.change(7, 2);
    let began = std::time::Instant::now();
    let from = primary.address.ip();
    handle.send(TransferCommand::NotifyReceived { zone: zones[7], serial: Some(2), from }).expect("it runs");
    assert_eq!(publish_next(&handle, &events), (zones[7], 2, 4));
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    let sources = primary.shared.sources.lock().expect("no panic").clone();
    assert!(sources.len() == 1 && sources[0].ip() == "127.0.0.77".parse::<std::net::IpAddr>().expect("a literal"));
    // The status is that after the publication: commands are carried out in order.
    let status = handle.status(zones[7]).expect("it runs").expect("a secondary");
    assert_eq!((status.serial, status.primary_serial, status.is_expired), (Some(2), 2, false));
    handle.stop();
}

/// RFC 7766 5. Its host says that nothing listens (ICMP): that is no reason to wait for the timeouts of 7 seconds.
#[test]
fn a_primary_that_answers_over_tcp_alone_is_asked_so_at_once() {
    let primary = Primary::start_without_udp(1, None);
    let (handle, events) = start();
    let zone = add(&handle, 0, &PeerConfig::plain(primary.address));
    assert_eq!(publish_next(&handle, &events), (zone, 1, 4));
    primary.change(0, 2);
    let began = std::time::Instant::now();
    handle.send(TransferCommand::Refresh(zone)).expect("it runs");
    assert_eq!(publish_next(&handle, &events), (zone, 2, 4));
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    handle.stop();
}

#[test]
fn probes_and_transfers_are_signed() {
    let key: Arc<TsigKey> = Arc::new("hmac-sha256:transfer.example:c2VjcmV0".parse().expect("a key"));
    let primary = Primary::start(2, Some(key.clone()));
    let (handle, events) = start();
    let peer = PeerConfig { key: Some(key), ..PeerConfig::plain(primary.address) };
    let zone = add(&handle, 1, &peer);
    assert_eq!(publish_next(&handle, &events), (zone, 1, 4));
    primary.change(1, 5);
    handle.send(TransferCommand::Refresh(zone)).expect("it runs");
    assert_eq!(publish_next(&handle, &events), (zone, 5, 4));
    handle.stop();
}

#[test]
fn a_refused_connection_is_reported_and_notify_is_sent_to_its_targets() {
    let free = TcpListener::bind("127.0.0.1:0").expect("loopback").local_addr().expect("bound");
    let (handle, events) = start();
    let zone = add(&handle, 0, &PeerConfig::plain(free));
    let TransferEvent::Failed { report, .. } = events.recv_timeout(SOON).expect("an event") else {
        panic!("no failure")
    };
    assert!(report.failure.expect("it failed").to_string().contains("refused"));

    let target = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    target.set_read_timeout(Some(SOON)).expect("an option");
    let targets = [PeerConfig::plain(target.local_addr().expect("bound"))].into();
    let soa = [&[0, 0][..], &9u32.to_be_bytes(), &[0; 16]].concat().into();
    handle.send(TransferCommand::SendNotify { zone, apex: name(0), soa, targets }).expect("it runs");
    let mut octets = [0; 512];
    let (len, from) = target.recv_from(&mut octets).expect("a NOTIFY");
    let notify = Message::parse(&octets[..len]).expect("well-formed");
    assert_eq!((&notify.questions[0].name, of_soa(&notify.answer[0].rdata)), (&name(0), Some(9)));
    let answer = Message { flags: Flags { response: true, ..notify.flags }, answer: vec![], ..notify };
    target.send_to(&answer.to_wire(), from).expect("loopback");
    target.set_read_timeout(Some(Duration::from_millis(2500))).expect("an option");
    assert!(target.recv_from(&mut octets).is_err(), "an answered NOTIFY is not repeated");
    let counters = handle.notify_counters().expect("the thread runs");
    assert_eq!((counters.answered, counters.refused), (1, 0), "{counters:?}");
    handle.stop();
}

/// A thread that waits for its sockets must learn that others wait for it. No command is lost: a NOTIFY was answered already.
#[test]
fn a_full_queue_wakes_the_thread_and_keeps_every_command() {
    let refresh = TransferCommand::Refresh;
    let zone = ZoneId { index: 0, generation: 0 };
    for is_later in [false, true] {
        let (handle, commands) = command_queue().expect("a descriptor");
        let poll = Poll::new().expect("a descriptor");
        poll.add(&*handle.waker, 0, Interest::Readable).expect("it can be waited for");
        let sender = thread::spawn(move || {
            (0..QUEUE).for_each(|_| handle.send_later(refresh(zone)).expect("there is room"));
            let result = if is_later { handle.send_later(refresh(zone)) } else { handle.send(refresh(zone)) };
            result.expect("it is received");
        });
        let mut events = Events::with_capacity(1);
        poll.wait(&mut events, SOON).expect("it can be waited for");
        assert_eq!(events.len(), 1, "it is woken");
        assert_eq!(commands.iter().take(QUEUE + 1).count(), QUEUE + 1);
        sender.join().expect("no panic");
    }
}

/// Runs itself in a time namespace (time_namespaces(7)) where the machine seems to have been suspended for a million seconds.
#[test]
fn the_clock_goes_on_while_the_machine_is_suspended() {
    const INSIDE: &str = "ZONDA_TEST_IS_IN_TIME_NAMESPACE";
    if std::env::var_os(INSIDE).is_some() {
        let suspended_ms = now().ms - clock::monotonic().as_millis() as u64;
        return assert!(suspended_ms > 900_000_000, "{suspended_ms}");
    }
    let unshare = |program: &OsStr| {
        let mut command = Command::new("unshare");
        command.args(["--time", "--boottime", "1000000", "--fork"]).arg(program).env(INSIDE, "1");
        command
    };
    if !unshare("true".as_ref()).output().is_ok_and(|output| output.status.success()) {
        return eprintln!("skipped: no time namespaces here, or not for this user");
    }
    let program = std::env::current_exe().expect("a test program");
    let test = "transfer::network::tests::the_clock_goes_on_while_the_machine_is_suspended";
    let output = unshare(program.as_ref()).args(["--exact", test]).output().expect("it is there");
    assert!(output.status.success() && output.stdout.windows(8).any(|text| text == b"1 passed"), "{output:?}");
}
