//! A thread that does TLS handshakes, round by round.

use super::echo_worker::{Echo, waker, worker};
use super::*;
use crate::config::remote_server::RemoteTls;
use crate::listen::handover::Handover;
use crate::tls::{ClientTls, OwnCertificate, ServerTls, ServerTlsFiles, TlsStream};
use std::io::Write;

/// The thread, which is not running, and where its connections go.
struct Server {
    worker: TcpWorker<Echo>,
    shared: SharedCounts,
    handover: Arc<Handover>,
    address: SocketAddr,
    settings: ClientTls,
}

/// For this many handshakes at once.
fn config(connections: usize) -> ListenConfig {
    ListenConfig { connections, ..ListenConfig::default() }
}

impl Server {
    fn new(config: &ListenConfig) -> Server {
        let listener = Listener::bind("127.0.0.1:0".parse().expect("a literal"), &config.tcp).expect("loopback");
        let address = listener.local_addr().expect("bound");
        let files = ServerTlsFiles { own: OwnCertificate::SelfSigned, authorities: None, ticket_keys: None };
        let tls = Arc::new(ServerTls::read(&files).expect("no files"));
        let handover = Handover::new(waker());
        let shared = SharedCounts::new(config.connections, 1);
        let worker = worker(vec![listener], Route::Give(tls, vec![handover.clone()]), waker(), &shared, config);
        let settings = ClientTls::read(&RemoteTls::default(), None).expect("no files");
        Server { worker, shared, handover, address, settings }
    }

    /// A client that has sent nothing.
    fn connect_silently(&self) -> Client {
        let socket = TcpStream::connect(self.address).expect("loopback");
        socket.set_nonblocking(true).expect("an option");
        Client { socket, tls: self.settings.connect(self.address.ip()).expect("valid settings") }
    }

    /// A client that has sent its ClientHello.
    fn connect(&self) -> Client {
        let mut client = self.connect_silently();
        client.say_hello();
        client
    }

    fn rounds(&mut self, count: usize) {
        (0..count).for_each(|_| self.worker.run_round(100));
    }
}

struct Client {
    socket: TcpStream,
    tls: TlsStream,
}

impl Client {
    fn say_hello(&mut self) {
        self.tls.flush(&mut &self.socket).expect("an empty buffer of the kernel");
    }

    /// Whether the server's part of the handshake has arrived.
    fn is_answered(&self) -> bool {
        matches!(self.socket.peek(&mut [0]), Ok(1))
    }

    /// Reads what the server sent, and sends what follows in the handshake.
    fn receive(&mut self) -> io::Result<Option<usize>> {
        self.tls.receive(&mut &self.socket, &mut [0; MIN_BUFFER], &mut [0; MIN_BUFFER])
    }
}

#[test]
fn a_handshake_whose_costly_step_is_done_is_not_the_first_to_be_evicted() {
    let mut server = Server::new(&config(4));
    let mut clients: Vec<Client> = (0..4).map(|_| server.connect()).collect();
    // They are accepted, and two have a turn.
    server.rounds(3);
    let (mut answered, others): (Vec<_>, Vec<_>) = clients.drain(..).partition(Client::is_answered);
    assert_eq!((answered.len(), others.len(), server.worker.pool.len()), (2, 2, 4));
    let last = server.connect();
    server.rounds(1);
    assert_eq!((server.worker.counters.evicted.value(), server.worker.pool.len()), (1, 4));
    answered.iter_mut().for_each(|client| assert!(client.receive().is_ok(), "open"));
    server.rounds(10);
    assert_eq!(server.handover.take().len(), 2);
    assert!(last.is_answered());
}

#[test]
fn a_handshake_that_can_end_does_not_wait_behind_those_that_begin() {
    let mut server = Server::new(&config(20));
    let mut first = server.connect();
    server.rounds(2);
    assert!(first.is_answered());
    let _others: Vec<Client> = (0..10).map(|_| server.connect()).collect();
    server.rounds(2);
    first.receive().expect("open");
    server.rounds(1);
    assert_eq!(server.handover.take().len(), 1);
}

#[test]
fn handshakes_that_are_gone_delay_no_other() {
    let mut server = Server::new(&config(20));
    let _clients: Vec<Client> = (0..10).map(|_| server.connect()).collect();
    server.rounds(2);
    (0..10).for_each(|index| server.worker.abort(index));
    let last = server.connect();
    server.rounds(2);
    assert!(last.is_answered());
}

/// A flood of them would fill all places if each waited for a round of its own.
#[test]
fn handshakes_of_clients_that_are_gone_end_in_few_rounds() {
    let mut server = Server::new(&config(100));
    let clients: Vec<Client> = (0..40).map(|_| server.connect()).collect();
    server.rounds(1);
    assert_eq!(server.worker.pool.len(), 40);
    clients.into_iter().for_each(|client| netio::tcp::reset(client.socket).expect("an option"));
    server.rounds(2);
    assert_eq!(server.worker.pool.len(), 0);
}

#[test]
fn a_handshake_has_five_seconds_however_long_connections_may_be_idle() {
    let hour = Duration::from_secs(3600);
    let mut server = Server::new(&ListenConfig { idle_timeout: hour, ..config(4) });
    let _silent = server.connect_silently();
    server.rounds(1);
    assert_eq!((server.worker.pool.len(), server.worker.idle_timeout_ms()), (1, 5000));
    server.worker.now_ms = server.worker.now_ms.wrapping_add(5000);
    server.worker.close_expired();
    assert_eq!((server.worker.pool.len(), server.worker.counters.expired.value()), (0, 1));
    let shorter = Server::new(&ListenConfig { idle_timeout: Duration::from_secs(2), ..config(4) });
    assert_eq!(shorter.worker.idle_timeout_ms(), 2000);
}

/// Whoever accepts them, starts no session: that is a part of the handshake, which has a limited share of the processor.
#[test]
fn connections_that_send_nothing_take_no_memory_of_a_session() {
    let mut server = Server::new(&ListenConfig { memory_limit: 1 << 20, ..config(1000) });
    let _silent: Vec<Client> = (0..60).map(|_| server.connect_silently()).collect();
    server.rounds(2);
    let TcpWorker { pool, counters, .. } = &server.worker;
    assert_eq!((pool.len(), pool.memory(), counters.evicted.value()), (60, 0, 0));
}

#[test]
fn connections_that_send_half_a_hello_are_held_to_the_limit_of_memory() {
    let mut server = Server::new(&ListenConfig { memory_limit: 1 << 20, ..config(1000) });
    // They hold no memory, so that closing them would not help.
    let _silent: Vec<Client> = (0..20).map(|_| server.connect_silently()).collect();
    server.rounds(1);
    let half: Vec<Client> = (0..60).map(|_| server.connect_silently()).collect();
    half.iter().for_each(|client| (&client.socket).write_all(&[22, 3, 1, 0, 100, 1]).expect("open"));
    (0..70).for_each(|_| server.worker.run_round(1));
    let TcpWorker { pool, counters, memory_limit, .. } = &server.worker;
    assert!(pool.memory() <= *memory_limit, "{} octets of {} connections", pool.memory(), pool.len());
    assert!(pool.memory() > 0);
    assert_eq!(counters.evicted.value(), 80 - pool.len() as u64);
    assert!(counters.evicted.value() > 0);
    assert!((0..20).all(|index| server.worker.pool.get(index).is_some_and(|silent| silent.memory() == 0)));
}

#[test]
fn without_descriptors_idle_connections_are_closed_and_no_handshakes() {
    let mut server = Server::new(&config(4));
    let waker = waker();
    server.handover = Handover::new(waker.clone());
    let Route::Give(_, threads) = &mut server.worker.route else { panic!("it does handshakes") };
    threads[0] = server.handover.clone();
    let route = Route::Take(server.handover.clone());
    let mut serving = worker(Vec::new(), route, waker, &server.shared, &config(4));
    // One handshake that is complete, and one that is not.
    let mut idle = server.connect();
    server.rounds(2);
    idle.receive().expect("open");
    server.rounds(1);
    serving.run_round(100);
    assert_eq!((serving.pool.len(), serving.pool.oldest_idle()), (1, Some(0)));
    let _silent = server.connect_silently();
    server.rounds(1);
    assert!(!server.worker.release_descriptor(&io::Error::other("no descriptors")), "the listeners are to pause");
    assert_eq!((server.worker.pool.len(), server.worker.counters.evicted.value()), (1, 0));
    serving.run_round(100);
    assert_eq!((serving.pool.len(), serving.counters.evicted.value()), (0, 1));
    // One request closes connections once.
    assert!(!server.handover.take_request());
}
