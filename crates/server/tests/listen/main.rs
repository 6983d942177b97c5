//! The listeners over real sockets, with an answerer that does what the query tells it.

use answer::{Ask, Reply, Transport};
use server::listen::{self, Answer, Options, Running};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::process::{ChildStderr, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(5);

/// Answers a query with the query and the QR bit, unless its fifth octet tells something else.
#[derive(Default)]
struct Obedient(answer::Counters);

const DROP: u8 = 1;
const PANIC: u8 = 2;
/// Answer with the greatest message.
const GREAT: u8 = 3;
/// Answer with the idle timeout in the last two octets, over TCP.
const TRANSPORT: u8 = 4;

impl Answer for Obedient {
    fn refresh(&mut self) {}

    fn counters(&self) -> &answer::Counters {
        &self.0
    }

    fn answer(&mut self, ask: Ask<'_>, out: &mut [u8]) -> Reply {
        assert_eq!(ask.peer, IpAddr::from([127, 0, 0, 1]));
        if ask.message.len() < 5 {
            return Reply::Drop;
        }
        out[..ask.message.len()].copy_from_slice(ask.message);
        out[2] |= 0x80;
        match ask.message[4] {
            DROP => Reply::Drop,
            PANIC => panic!("as the query wanted"),
            TRANSPORT => match ask.transport {
                Transport::Tcp { idle_ds } => {
                    out[6..8].copy_from_slice(&idle_ds.to_be_bytes());
                    Reply::Send(8)
                }
                Transport::Udp => Reply::Drop,
            },
            GREAT => {
                out[ask.message.len()..].fill(7);
                Reply::Send(out.len())
            }
            _ => Reply::Send(ask.message.len()),
        }
    }
}

/// Options under which nothing takes long.
fn options() -> Options {
    Options {
        idle_timeout: Duration::from_secs(5),
        grace: Duration::from_secs(2),
        udp: netio::udp::Options { wake_interval: Duration::from_millis(50), ..Default::default() },
        tcp: netio::stream::Options { defer_accept: Duration::ZERO, ..Default::default() },
        ..Options::default()
    }
}

fn impatient() -> Options {
    Options { idle_timeout: Duration::from_millis(500), ..options() }
}

fn serve(options: &Options) -> (Running, SocketAddr) {
    let listeners = listen::bind(&["127.0.0.1:0".parse().expect("a literal")], options).expect("loopback");
    let address = listeners.addresses()[0];
    (listeners.serve(Obedient::default).expect("threads"), address)
}

fn udp_client(server: SocketAddr) -> UdpSocket {
    let client = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    client.connect(server).expect("loopback");
    client.set_read_timeout(Some(SOON)).expect("a valid timeout");
    client
}

fn connect(server: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(server).expect("loopback");
    stream.set_read_timeout(Some(SOON)).expect("a valid timeout");
    stream.set_nodelay(true).expect("a valid option");
    stream
}

/// A query with its length before it.
fn framed(id: u16, order: u8) -> Vec<u8> {
    let [high, low] = id.to_be_bytes();
    vec![0, 8, high, low, 0, 0, order, 0, 0, 0]
}

fn read_message(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut prefix = [0; 2];
    stream.read_exact(&mut prefix)?;
    let mut message = vec![0; usize::from(u16::from_be_bytes(prefix))];
    stream.read_exact(&mut message)?;
    Ok(message)
}

fn read_id(stream: &mut TcpStream) -> io::Result<u16> {
    read_message(stream).map(|message| {
        assert_eq!(message[2] & 0x80, 0x80);
        u16::from_be_bytes([message[0], message[1]])
    })
}

fn ask(stream: &mut TcpStream, id: u16) -> io::Result<u16> {
    stream.write_all(&framed(id, 0))?;
    read_id(stream)
}

/// Whether the server has closed the connection, waiting for it.
fn is_closed(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0; 1]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn a_panic_costs_one_datagram() {
    let (running, server) = serve(&options());
    let client = udp_client(server);
    for (id, order) in [(1, 0), (2, PANIC), (3, DROP), (4, 0)] {
        client.send(&framed(id, order)[2..]).expect("loopback");
    }
    let mut answer = [0; 512];
    for id in [1, 4] {
        assert_eq!(client.recv(&mut answer).expect("an answer"), 8);
        assert_eq!(answer[..3], [0, id, 0x80]);
    }
    let totals = running.udp_totals();
    assert_eq!((totals.queries, totals.answers, totals.dropped, totals.panics), (4, 2, 1, 1));
    running.stop();
}

#[test]
fn every_worker_and_address_answers() {
    let options = Options { workers: 3, tcp_workers: 2, ..options() };
    let first = listen::bind(&["127.0.0.1:0".parse().expect("a literal")], &options).expect("loopback").addresses()[0];
    let listeners = listen::bind(&[first, "127.0.0.1:0".parse().expect("a literal")], &options).expect("loopback");
    let addresses = listeners.addresses().to_vec();
    let running = listeners.serve(Obedient::default).expect("threads");
    for address in addresses {
        for id in 0..32 {
            let client = udp_client(address);
            client.send(&framed(id, 0)[2..]).expect("loopback");
            client.recv(&mut [0; 64]).expect("an answer from whichever worker the kernel chose");
            assert_eq!(ask(&mut connect(address), id).expect("an answer"), id);
        }
    }
    assert_eq!((running.udp_totals().answers, running.tcp_totals().answers), (64, 64));
    running.stop();
}

/// RFC 7766 6.2.1.1: queries may be sent without waiting for answers.
#[test]
fn pipelined_queries_are_all_answered() {
    let (running, server) = serve(&options());
    let mut stream = connect(server);
    let queries: Vec<u8> = (0..10_000).flat_map(|id| framed(id, if id % 10 == 9 { DROP } else { 0 })).collect();
    let mut writer = stream.try_clone().expect("a descriptor");
    let writing = std::thread::spawn(move || writer.write_all(&queries));
    for id in (0..10_000).filter(|id| id % 10 != 9) {
        assert_eq!(read_id(&mut stream).expect("an answer"), id);
    }
    writing.join().expect("no panic").expect("the server reads");
    running.stop();
}

/// RFC 7766 8: a message may come in any number of segments.
#[test]
fn messages_may_come_octet_by_octet() {
    let (running, server) = serve(&options());
    let mut stream = connect(server);
    for octet in [framed(1, 0), framed(2, 0)].concat() {
        stream.write_all(&[octet]).expect("loopback");
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!([1, 2], [(); 2].map(|()| read_id(&mut stream).expect("an answer")));
    running.stop();
}

#[test]
fn messages_of_every_length_pass() {
    let (running, server) = serve(&options());
    let mut stream = connect(server);
    for len in [5, 511, 512, 513, 4096, 65_534, 65_535u16] {
        let mut query = len.to_be_bytes().to_vec();
        query.resize(2 + usize::from(len), 0);
        stream.write_all(&query).expect("loopback");
        query[4] |= 0x80;
        assert_eq!(read_message(&mut stream).expect("an answer"), query[2..]);
    }
    // Nothing to answer, and no harm to what follows.
    stream.write_all(&[0, 0, 0, 0, 0, 1, 9]).expect("loopback");
    assert_eq!(ask(&mut stream, 5).expect("an answer"), 5);
    running.stop();
}

/// RFC 9293 3.6: who has closed its half still receives.
#[test]
fn half_closed_connections_get_their_answers() {
    let (running, server) = serve(&options());
    let mut stream = connect(server);
    stream.write_all(&[framed(1, 0), framed(2, 0), vec![0, 9, 0]].concat()).expect("loopback");
    stream.shutdown(std::net::Shutdown::Write).expect("connected");
    assert_eq!([1, 2], [(); 2].map(|()| read_id(&mut stream).expect("an answer")));
    assert!(is_closed(&mut stream), "nothing follows but the truncated message");
    running.stop();
}

#[test]
fn a_panic_costs_one_connection() {
    let (running, server) = serve(&options());
    let (mut bad, mut good) = (connect(server), connect(server));
    assert_eq!(ask(&mut good, 1).expect("an answer"), 1);
    bad.write_all(&framed(2, PANIC)).expect("loopback");
    assert!(is_closed(&mut bad));
    assert_eq!(ask(&mut good, 3).expect("an answer"), 3);
    assert_eq!(running.tcp_totals().panics, 1);
    running.stop();
}

#[test]
fn connections_at_rest_are_closed_after_the_idle_timeout() {
    let (running, server) = serve(&impatient());
    let mut stream = connect(server);
    for id in 0..4 {
        assert_eq!(ask(&mut stream, id).expect("an answer"), id, "activity puts the end off");
        std::thread::sleep(Duration::from_millis(150));
    }
    stream.write_all(&framed(5, TRANSPORT)).expect("loopback");
    assert_eq!(read_message(&mut stream).expect("an answer")[6..], [0, 5], "500 ms in the units of RFC 7828 3.1");
    let begin = Instant::now();
    assert!(is_closed(&mut stream));
    assert!(begin.elapsed() > Duration::from_millis(50) && begin.elapsed() < SOON, "{:?}", begin.elapsed());
    assert_eq!(running.tcp_totals().expired, 1);
    running.stop();
}

/// One octet now and then keeps no connection open: it is whole messages that count.
#[test]
fn a_message_that_never_ends_does_not_hold_the_connection() {
    let (running, server) = serve(&impatient());
    let mut stream = connect(server);
    let begin = Instant::now();
    while stream.write_all(&[1]).is_ok() {
        assert!(begin.elapsed() < SOON, "the server still takes octets");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(running.tcp_totals().expired, 1);
    running.stop();
}

/// A client that asks for much and reads nothing: its answers are held within bounds and for the idle timeout only.
#[test]
fn slow_readers_are_bounded_and_in_nobodys_way() {
    let (running, server) = serve(&impatient());
    let mut greedy = connect(server);
    greedy.set_write_timeout(Some(Duration::from_millis(100))).expect("a valid timeout");
    let queries: Vec<u8> = (0..2000).flat_map(|id| framed(id, GREAT)).collect();
    // The server stops reading when its answers are not read, so that not all of it may be taken.
    let _ = greedy.write_all(&queries);
    let mut polite = connect(server);
    assert_eq!(ask(&mut polite, 7).expect("an answer"), 7);
    assert!(running.tcp_totals().queries < 1000, "{} answers are held for one client", running.tcp_totals().queries);
    let begin = Instant::now();
    while running.tcp_totals().expired == 0 {
        assert!(begin.elapsed() < SOON);
        let _ = ask(&mut polite, 8);
        std::thread::sleep(Duration::from_millis(20));
    }
    running.stop();
}

/// Ten readers that read nothing hold more than they may together: the first of them have to go.
#[test]
fn what_connections_hold_together_is_bounded() {
    let (running, server) = serve(&Options { held: 10_000, ..options() });
    let queries: Vec<u8> = (0..300).flat_map(|id| framed(id, GREAT)).collect();
    let mut greedy: Vec<TcpStream> = (0..10).map(|_| connect(server)).collect();
    for stream in &mut greedy {
        stream.write_all(&queries).expect("3 KB fit into the socket");
        std::thread::sleep(Duration::from_millis(20));
    }
    let evicted = running.tcp_totals().evicted;
    assert!((1..10).contains(&evicted), "{evicted} of 10, each of which holds some 2,500 octets of queries");
    assert_eq!(read_id(&mut greedy[9]).expect("the last is not the oldest"), 0);
    drop(greedy);
    running.stop();
}

/// A datagram longer than any query is judged by what was received of it.
#[test]
fn datagrams_that_are_too_long_are_counted() {
    let (running, server) = serve(&options());
    let client = udp_client(server);
    client.send(&[0; 3000]).expect("loopback");
    assert_eq!(client.recv(&mut [0; 4096]).expect("an answer"), 2048);
    assert_eq!((running.udp_totals().oversized, running.udp_totals().query_octets), (1, 2048));
    running.stop();
}

/// What was stopped by a full socket goes on when it is read, without a gap.
#[test]
fn late_readers_get_every_answer() {
    let (running, server) = serve(&impatient());
    let mut stream = connect(server);
    let queries: Vec<u8> = (0..300).flat_map(|id| framed(id, GREAT)).collect();
    stream.write_all(&queries).expect("3 KB fit into the socket");
    std::thread::sleep(Duration::from_millis(150));
    for id in 0..300u16 {
        let message = read_message(&mut stream).expect("an answer");
        assert_eq!((message.len(), &message[..2]), (65_535, &id.to_be_bytes()[..]));
    }
    assert_eq!(running.tcp_totals().answers, 300);
    running.stop();
}

#[test]
fn the_connection_at_rest_the_longest_makes_room() {
    let (running, server) = serve(&Options { connections: 3, ..options() });
    let mut streams: Vec<TcpStream> = (0..3).map(|_| connect(server)).collect();
    for (id, stream) in (0..).zip(&mut streams) {
        assert_eq!(ask(stream, id).expect("an answer"), id);
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(ask(&mut streams[0], 9).expect("an answer"), 9);
    let mut fourth = connect(server);
    assert_eq!(ask(&mut fourth, 4).expect("an answer"), 4);
    assert!(is_closed(&mut streams[1]), "the second is the oldest: the first asked again");
    for stream in [0, 2] {
        assert_eq!(ask(&mut streams[stream], 5).expect("an answer"), 5);
    }
    assert_eq!((running.tcp_totals().evicted, running.tcp_totals().connections), (1, 4));
    running.stop();
}

#[test]
fn one_client_has_only_its_share() {
    let (running, server) = serve(&Options { connections_per_client: 2, ..options() });
    let (mut first, mut second, mut third) = (connect(server), connect(server), connect(server));
    assert_eq!([1, 2], [ask(&mut first, 1).expect("an answer"), ask(&mut second, 2).expect("an answer")]);
    assert!(ask(&mut third, 3).is_err());
    drop(first);
    let begin = Instant::now();
    while ask(&mut connect(server), 4).is_err() {
        assert!(begin.elapsed() < SOON, "a closed connection must be counted off");
    }
    assert!(running.tcp_totals().refused > 0);
    running.stop();
}

#[test]
fn a_stop_finishes_what_is_under_way() {
    let (running, server) = serve(&impatient());
    let (mut resting, mut reading) = (connect(server), connect(server));
    assert_eq!(ask(&mut resting, 1).expect("an answer"), 1);
    let queries: Vec<u8> = (0..300).flat_map(|id| framed(id, GREAT)).collect();
    reading.write_all(&queries).expect("3 KB fit into the socket");
    assert_eq!(read_id(&mut reading).expect("an answer"), 0);
    let stopping = std::thread::spawn(move || running.stop());
    assert!(is_closed(&mut resting));
    for id in 1..300 {
        assert_eq!(read_id(&mut reading).expect("an answer"), id);
    }
    assert!(is_closed(&mut reading));
    stopping.join().expect("no panic");
    assert!(TcpStream::connect(server).is_err());
}

/// Neither for the rest of a query nor, beyond the time of grace, for a reader that does not read.
#[test]
fn a_stop_does_not_wait_for_ever() {
    for (octets, grace_ms) in [(vec![0], 0..350), ((0..300).flat_map(|id| framed(id, GREAT)).collect(), 400..1500)] {
        let (running, server) = serve(&Options { grace: Duration::from_millis(400), ..options() });
        let mut stream = connect(server);
        stream.write_all(&octets).expect("3 KB fit into the socket");
        std::thread::sleep(Duration::from_millis(100));
        let begin = Instant::now();
        running.stop();
        assert!(grace_ms.contains(&begin.elapsed().as_millis()), "{:?}", begin.elapsed());
        std::io::copy(&mut stream, &mut io::sink()).ok();
        assert!(is_closed(&mut stream));
    }
}

/// A server in a process of its own with few descriptors, which does what the lines of its input tell it.
#[test]
#[ignore = "run by out_of_descriptors_old_connections_make_room in a child process"]
fn child_with_few_descriptors() {
    let (running, server) = serve(&options());
    eprintln!("{server}");
    let mut hoard = Vec::new();
    for line in io::stdin().lines() {
        match line.expect("text").as_str() {
            "hoard" => hoard.extend(std::iter::from_fn(|| std::fs::File::open("/dev/null").ok())),
            "release" => hoard.clear(),
            other => panic!("unknown order {other}"),
        }
        let totals = running.tcp_totals();
        eprintln!("{} {} {}", totals.connections, totals.evicted, totals.starved);
    }
    running.stop();
}

struct Child {
    process: std::process::Child,
    orders: ChildStdin,
    replies: BufReader<ChildStderr>,
}

impl Child {
    fn start(descriptors: u32) -> Child {
        let mut process = Command::new("sh")
            .args(["-c", &format!("ulimit -n {descriptors}; exec \"$0\" \"$@\"")])
            .arg(std::env::current_exe().expect("a running program"))
            .args(["--exact", "child_with_few_descriptors", "--ignored", "--nocapture", "--test-threads=1"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a shell");
        let orders = process.stdin.take().expect("a pipe");
        let replies = BufReader::new(process.stderr.take().expect("a pipe"));
        Child { process, orders, replies }
    }

    fn reply(&mut self) -> String {
        let mut line = String::new();
        self.replies.read_line(&mut line).expect("text");
        line.trim_end().to_owned()
    }

    /// Gives an order; returns how many connections were accepted and evicted, and how often there was no descriptor.
    fn order(&mut self, order: &str) -> [u64; 3] {
        writeln!(self.orders, "{order}").expect("the child lives");
        let reply = self.reply();
        let numbers: Vec<u64> = reply.split(' ').filter_map(|number| number.parse().ok()).collect();
        numbers.try_into().unwrap_or_else(|_| panic!("the child says {reply}"))
    }

    fn processor_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id())).expect("procfs");
        let fields: Vec<&str> = stat.rsplit(')').next().expect("a name in parentheses").split_whitespace().collect();
        let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().expect("a number")).sum();
        Duration::from_millis(ticks * 10)
    }

    fn end(mut self) {
        drop(self.orders);
        assert!(self.process.wait().expect("a child").success());
    }
}

#[test]
fn out_of_descriptors_old_connections_make_room() {
    let mut child = Child::start(40);
    let server: SocketAddr = child.reply().parse().expect("the address it serves");
    let mut streams = Vec::new();
    for id in 0..100 {
        streams.push(connect(server));
        assert_eq!(ask(&mut streams[usize::from(id)], id).expect("an answer"), id);
    }
    assert!(is_closed(&mut streams[0]) && ask(&mut streams[99], 2).is_ok());
    let datagrams = udp_client(server);
    datagrams.send(&framed(1, 0)[2..]).expect("loopback");
    datagrams.recv(&mut [0; 64]).expect("UDP is served all the same");
    drop(streams);
    let [connections, evicted, starved] = child.order("release");
    assert!(connections == 100 && evicted >= 60 && starved == 0, "{connections} {evicted} {starved}");
    child.end();
}

/// Descriptors that are not the server's to close: it waits for them without spinning.
#[test]
fn without_any_descriptor_the_listener_rests() {
    let mut child = Child::start(40);
    let server: SocketAddr = child.reply().parse().expect("the address it serves");
    child.order("hoard");
    let mut stream = connect(server);
    stream.write_all(&framed(1, 0)).expect("loopback");
    let busy = child.processor_time();
    std::thread::sleep(Duration::from_millis(500));
    let busy = child.processor_time() - busy;
    let [connections, _, starved] = child.order("release");
    assert!(connections == 0 && (1..=8).contains(&starved), "{connections} {starved}");
    assert!(busy < Duration::from_millis(100), "the server spins: {busy:?}");
    assert_eq!(read_id(&mut stream).expect("an answer as soon as there are descriptors"), 1);
    child.end();
}
