//! Batched UDP for servers: receives and answers many datagrams per system call (recvmmsg(2), sendmmsg(2)) in fixed buffers.
//!
//! One [`ServerBatch`] per thread: [`ServerBatch::receive`], then for each slot [`ServerBatch::slot`] and [`ServerBatch::set_reply`], then [`ServerBatch::send`].

mod late_datagram;
mod pktinfo;
mod socket;

pub use late_datagram::LateDatagram;
pub(crate) use socket::bind;
pub use socket::{ServerSocket, ServerSocketOptions};

use crate::none_if_transient;
use crate::send_queue::send_queued;
use crate::socket_address::RawAddress;
use crate::socket_options;
use crate::{empty_header, empty_part};
use pktinfo::PktInfoControl;
use std::io;
use std::mem;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::Arc;

/// The longest datagram received whole, in octets; longer ones are flagged as truncated.
pub const REQUEST_LEN: usize = 2048;
/// A cache line more than a power of two, so that slots do not map to the same cache sets.
const REQUEST_STRIDE: usize = REQUEST_LEN + CACHE_LINE;
const CACHE_LINE: usize = 64;

/// A socket with the buffers to receive and answer many datagrams per system call. Stays on the thread that created it.
///
/// The headers point into the other vectors, which [`ServerBatch::new`] fills and nothing resizes.
pub struct ServerBatch {
    socket: ServerSocket,
    /// A second handle of the socket for replies that other threads send; made when the first one is needed.
    late_socket: Option<Arc<UdpSocket>>,
    reply_len: usize,
    requests: Vec<u8>,
    /// Responses are contiguous, so that small ones touch little memory.
    replies: Vec<u8>,
    peers: Vec<RawAddress>,
    /// The destination addresses of datagrams; empty unless the socket is bound to a wildcard address.
    controls: Vec<PktInfoControl>,
    incoming: Vec<libc::mmsghdr>,
    _incoming_parts: Vec<libc::iovec>,
    outgoing: Vec<libc::mmsghdr>,
    outgoing_parts: Vec<libc::iovec>,
    /// The number of datagrams in the batch.
    received: usize,
    /// The number of queued replies.
    queued: usize,
    /// The offset in `replies` of the next one.
    reply_at: usize,
}

/// A received datagram and the buffer for its reply.
pub struct Slot<'a> {
    /// The datagram, up to [`REQUEST_LEN`] octets of it.
    pub request: &'a [u8],
    /// Whether the datagram was longer.
    pub truncated: bool,
    /// The buffer for the reply; its initial contents are unspecified.
    pub reply: &'a mut [u8],
    peer: &'a RawAddress,
}

impl Slot<'_> {
    /// The sender.
    #[inline]
    pub fn peer(&self) -> SocketAddr {
        self.peer.socket_addr()
    }

    /// The sender's address without the port.
    #[inline]
    pub fn peer_ip(&self) -> IpAddr {
        self.peer.ip()
    }
}

impl ServerBatch {
    /// A batch of up to `slots` datagrams, and replies of up to `reply_len` octets each.
    pub fn new(socket: ServerSocket, slots: usize, reply_len: usize) -> ServerBatch {
        let wildcard = socket.local.ip().is_unspecified();
        let mut batch = ServerBatch {
            socket,
            late_socket: None,
            reply_len,
            requests: vec![0; slots * REQUEST_STRIDE],
            replies: vec![0; slots * reply_len.next_multiple_of(CACHE_LINE)],
            peers: vec![RawAddress::unspecified(); slots],
            controls: vec![PktInfoControl::empty(); if wildcard { slots } else { 0 }],
            incoming: vec![empty_header(); slots],
            _incoming_parts: vec![empty_part(); slots],
            outgoing: vec![empty_header(); slots],
            outgoing_parts: vec![empty_part(); slots],
            received: 0,
            queued: 0,
            reply_at: 0,
        };
        batch.link();
        batch
    }

    /// The local address of the socket.
    pub fn local_addr(&self) -> SocketAddr {
        self.socket.local
    }

    /// How many datagrams the kernel has dropped because the receive buffer was full.
    pub fn receive_drops(&self) -> io::Result<u32> {
        socket_options::SocketMemory::of(&self.socket.inner).map(|memory| memory.drops)
    }

    /// Points the headers at their buffers and sets all fields that the kernel does not change. The length of the address is the
    /// same for all peers of a socket.
    fn link(&mut self) {
        let name_len = RawAddress::len_for(self.socket.local);
        for slot in 0..self.incoming.len() {
            let part = &mut self._incoming_parts[slot];
            part.iov_base = self.requests[slot * REQUEST_STRIDE..].as_mut_ptr().cast();
            part.iov_len = REQUEST_LEN;
            let header = &mut self.incoming[slot].msg_hdr;
            header.msg_name = (&raw mut self.peers[slot]).cast();
            header.msg_namelen = name_len;
            header.msg_iov = part;
            header.msg_iovlen = 1;
            if let Some(control) = self.controls.get_mut(slot) {
                header.msg_control = (&raw mut *control).cast();
                header.msg_controllen = mem::size_of::<PktInfoControl>() as _;
            }
            let header = &mut self.outgoing[slot].msg_hdr;
            header.msg_namelen = name_len;
            header.msg_iov = &mut self.outgoing_parts[slot];
            header.msg_iovlen = 1;
        }
    }

    /// Waits for datagrams and receives those that are available, at most one per slot.
    ///
    /// Returns their number; 0 after the wake interval or a signal. Drops replies that were not sent.
    pub fn receive(&mut self) -> io::Result<usize> {
        self.receive_with(libc::MSG_WAITFORONE)
    }

    /// Receives the datagrams that are available, at most one per slot, without waiting; returns their number.
    pub fn receive_ready(&mut self) -> io::Result<usize> {
        self.receive_with(libc::MSG_DONTWAIT)
    }

    fn receive_with(&mut self, flags: libc::c_int) -> io::Result<usize> {
        for (header, _) in self.incoming.iter_mut().zip(&self.controls).take(self.received) {
            header.msg_hdr.msg_controllen = mem::size_of::<PktInfoControl>() as _;
        }
        (self.received, self.queued, self.reply_at) = (0, 0, 0);
        let (fd, slots) = (self.socket.inner.as_raw_fd(), self.incoming.len() as libc::c_uint);
        // SAFETY: `incoming` has `slots` headers, which point at buffers of the lengths they state (`link`); the buffers live as
        // long as `self` and are not borrowed during the call.
        let result = unsafe { libc::recvmmsg(fd, self.incoming.as_mut_ptr(), slots, flags as _, ptr::null_mut()) };
        self.received = match usize::try_from(result) {
            Ok(count) => count,
            Err(_) => none_if_transient(io::Error::last_os_error())?,
        };
        Ok(self.received)
    }

    /// The datagram in a slot of the last [`ServerBatch::receive`], up to [`REQUEST_LEN`] octets of it.
    ///
    /// # Panics
    /// When `index` is not below what `receive` returned.
    #[inline]
    pub fn request(&self, index: usize) -> &[u8] {
        assert!(index < self.received, "slot {index} of {}", self.received);
        request(&self.requests, index, &self.incoming[index])
    }

    /// The datagram in a slot of the last [`ServerBatch::receive`] and the buffer for its reply.
    ///
    /// # Panics
    /// When `index` is not below what `receive` returned.
    #[inline]
    pub fn slot(&mut self, index: usize) -> Slot<'_> {
        assert!(index < self.received, "slot {index} of {}", self.received);
        let header = &self.incoming[index];
        Slot {
            request: request(&self.requests, index, header),
            truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            reply: &mut self.replies[self.reply_at..][..self.reply_len],
            peer: &self.peers[index],
        }
    }

    /// Queues the first `len` octets of the slot's reply: at most once per slot, and before [`ServerBatch::slot`] of the next one.
    ///
    /// # Panics
    /// When `index` is not below what `receive` returned, or `len` exceeds the reply buffer.
    #[inline]
    pub fn set_reply(&mut self, index: usize, len: usize) {
        assert!(index < self.received && self.queued < self.received && len <= self.reply_len);
        let part = &mut self.outgoing_parts[self.queued];
        part.iov_base = self.replies[self.reply_at..].as_mut_ptr().cast();
        part.iov_len = len;
        let header = &mut self.outgoing[self.queued].msg_hdr;
        header.msg_name = (&raw mut self.peers[index]).cast();
        if let Some(control) = self.controls.get_mut(index) {
            let len = self.incoming[index].msg_hdr.msg_controllen;
            control.clear_interface();
            header.msg_control = (&raw mut *control).cast();
            header.msg_controllen = len;
        }
        self.reply_at += len.next_multiple_of(CACHE_LINE);
        self.queued += 1;
    }

    /// A reply to the datagram in a slot that another thread sends later. Fails if there is no descriptor for it.
    ///
    /// # Panics
    /// When `index` is not below what `receive` returned.
    #[cold]
    pub fn late_reply(&mut self, index: usize) -> io::Result<LateDatagram> {
        assert!(index < self.received, "slot {index} of {}", self.received);
        let socket = match &self.late_socket {
            Some(socket) => socket.clone(),
            None => self.late_socket.insert(Arc::new(self.socket.inner.try_clone()?)).clone(),
        };
        let control = self.controls.get(index).map(|control| (*control, self.incoming[index].msg_hdr.msg_controllen));
        Ok(LateDatagram::new(socket, self.peers[index], control))
    }

    /// Sends the queued replies, each from the destination address of its query, without waiting; returns how many the kernel rejected.
    pub fn send(&mut self) -> usize {
        let unsent = send_queued(self.queued, |next| self.send_from(next));
        self.queued = 0;
        unsent
    }

    fn send_from(&mut self, first: usize) -> io::Result<usize> {
        let headers = &mut self.outgoing[first..self.queued];
        let (fd, count) = (self.socket.inner.as_raw_fd(), headers.len() as libc::c_uint);
        // SAFETY: `headers` are `count` headers; `link` and `set_reply` pointed them at buffers of the lengths they state, which
        // live as long as `self`.
        let result = unsafe { libc::sendmmsg(fd, headers.as_mut_ptr(), count, libc::MSG_DONTWAIT as _) };
        usize::try_from(result).map_err(|_| io::Error::last_os_error())
    }
}

/// The datagram in a slot.
#[inline]
fn request<'a>(requests: &'a [u8], index: usize, header: &libc::mmsghdr) -> &'a [u8] {
    &requests[index * REQUEST_STRIDE..][..header.msg_len as usize]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::time::Duration;

    fn options() -> ServerSocketOptions {
        ServerSocketOptions { wake_interval: Duration::from_millis(50), ..ServerSocketOptions::default() }
    }

    fn batch(address: &str, slots: usize) -> ServerBatch {
        let socket = ServerSocket::bind(address.parse().expect("a literal"), &options()).expect("loopback");
        ServerBatch::new(socket, slots, 512)
    }

    /// A client that receives from `server` only.
    fn client(local: &str, server: SocketAddr) -> UdpSocket {
        let client = UdpSocket::bind(local).expect("loopback");
        client.connect(server).expect("loopback");
        client.set_read_timeout(Some(Duration::from_secs(5))).expect("a valid timeout");
        client
    }

    /// Receives `wanted` datagrams and replies with their octets reversed, except to those that start with `-`.
    fn serve(batch: &mut ServerBatch, wanted: usize) {
        let mut seen = 0;
        while seen < wanted {
            let count = batch.receive().expect("an open socket");
            for index in 0..count {
                let slot = batch.slot(index);
                let len = slot.request.len();
                slot.reply[..len].copy_from_slice(slot.request);
                slot.reply[..len].reverse();
                if slot.request.first() != Some(&b'-') {
                    batch.set_reply(index, len);
                }
            }
            assert_eq!(batch.send(), 0);
            seen += count;
        }
    }

    fn exchange(listen: &str, local: &str, server: &str) {
        let mut batch = batch(listen, 8);
        let mut server: SocketAddr = server.parse().expect("a literal");
        server.set_port(batch.local_addr().port());
        let client = client(local, server);
        for text in [&b"one"[..], b"-", b"three"] {
            client.send(text).expect("loopback");
        }
        serve(&mut batch, 3);
        let mut answer = [0; 64];
        assert_eq!(client.recv(&mut answer).map(|len| answer[..len].to_vec()).expect("an answer"), b"eno");
        assert_eq!(client.recv(&mut answer).map(|len| answer[..len].to_vec()).expect("an answer"), b"eerht");
    }

    fn without_v6() -> bool {
        let missing = UdpSocket::bind("[::1]:0").is_err();
        if missing {
            let _ = writeln!(std::io::stderr(), "skipped: this host has no ::1");
        }
        missing
    }

    #[test]
    fn answers_over_ipv4() {
        exchange("127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0");
    }

    #[test]
    fn answers_over_ipv6() {
        if !without_v6() {
            exchange("[::1]:0", "[::1]:0", "[::1]:0");
        }
    }

    #[test]
    fn replies_come_from_the_destination_address_of_the_query() {
        exchange("0.0.0.0:0", "127.0.0.1:0", "127.0.0.7:0");
        if !without_v6() {
            exchange("[::]:0", "[::1]:0", "[::1]:0");
        }
    }

    #[test]
    fn another_thread_replies_later_from_the_destination_address() {
        for (listen, server) in [("127.0.0.1:0", [127, 0, 0, 1]), ("0.0.0.0:0", [127, 0, 0, 7])] {
            let mut batch = batch(listen, 4);
            let client = client("127.0.0.1:0", SocketAddr::from((server, batch.local_addr().port())));
            client.send(b"question").expect("loopback");
            assert_eq!(batch.receive().expect("an open socket"), 1);
            let late = batch.late_reply(0).expect("a descriptor");
            assert_eq!(late.peer(), client.local_addr().expect("bound"));
            drop(batch);
            std::thread::spawn(move || late.send(b"answer").expect("loopback"));
            let mut answer = [0; 64];
            let len = client.recv(&mut answer).expect("an answer");
            assert_eq!(&answer[..len], b"answer");
        }
    }

    #[test]
    fn a_full_batch_sends_each_peer_its_reply() {
        let mut batch = batch("127.0.0.1:0", 16);
        let server = batch.local_addr();
        let clients: Vec<UdpSocket> = (0..40).map(|_| client("127.0.0.1:0", server)).collect();
        for (number, client) in clients.iter().enumerate() {
            client.send(format!("{number:03}").as_bytes()).expect("loopback");
        }
        serve(&mut batch, clients.len());
        for (number, client) in clients.iter().enumerate() {
            let mut answer = [0; 64];
            let len = client.recv(&mut answer).expect("an answer");
            let expected: String = format!("{number:03}").chars().rev().collect();
            assert_eq!(&answer[..len], expected.as_bytes());
        }
    }

    #[test]
    fn long_datagrams_are_flagged() {
        let mut batch = batch("127.0.0.1:0", 4);
        let client = client("127.0.0.1:0", batch.local_addr());
        for len in [REQUEST_LEN, REQUEST_LEN + 1, 0] {
            client.send(&vec![7; len]).expect("loopback");
            assert_eq!(batch.receive().expect("an open socket"), 1);
            let slot = batch.slot(0);
            assert_eq!((slot.request.len(), slot.truncated), (len.min(REQUEST_LEN), len > REQUEST_LEN));
            assert_eq!(slot.peer(), client.local_addr().expect("bound"));
        }
    }

    #[test]
    fn receive_returns_after_the_wake_interval() {
        let mut batch = batch("127.0.0.1:0", 4);
        assert_eq!(batch.receive().expect("a time-out is no error"), 0);
        assert_eq!(batch.receive_ready().expect("nothing there is no error"), 0);
    }

    #[test]
    fn a_rejected_reply_does_not_affect_others() {
        let mut batch = batch("127.0.0.1:0", 4);
        let client = client("127.0.0.1:0", batch.local_addr());
        for text in [b"a", b"b"] {
            client.send(text).expect("loopback");
        }
        while batch.received < 2 {
            batch.receive().expect("an open socket");
            std::thread::sleep(Duration::from_millis(1));
        }
        // Sending to port 0 fails.
        batch.peers[0] = RawAddress::from(SocketAddr::from(([127, 0, 0, 1], 0)));
        for index in 0..2 {
            batch.slot(index).reply[0] = b'0' + index as u8;
            batch.set_reply(index, 1);
        }
        assert_eq!(batch.send(), 1);
        let mut answer = [0; 8];
        assert_eq!(client.recv(&mut answer).expect("the second answer"), 1);
        assert_eq!(answer[0], b'1');
    }

    /// Set in the process that runs in a namespace.
    const INSIDE: &str = "ZONDA_NETIO_TEST_INSIDE";

    /// Replies to hosts that do not exist wait in the send buffer until ARP has given them up, for seconds.
    #[test]
    fn a_full_send_buffer_does_not_stall_the_thread() {
        if std::env::var_os(INSIDE).is_some() {
            return send_to_hosts_that_do_not_exist();
        }
        let program = std::env::current_exe().expect("this test");
        let network = "ip link set lo up && ip link add v0 type veth peer name v1 && ip link set v1 up && \
                       ip addr add 10.77.0.1/24 dev v0 && ip link set v0 up && exec \"$0\" \"$@\"";
        let in_namespace = |program: &std::path::Path, arguments: &[&str]| {
            let mut command = std::process::Command::new("unshare");
            command.args(["--user", "--map-root-user", "--net", "--", "sh", "-c", network]);
            command.arg(program).args(arguments).env(INSIDE, "1").output()
        };
        if !in_namespace("true".as_ref(), &[]).is_ok_and(|output| output.status.success()) {
            let _ = writeln!(std::io::stderr(), "skipped: no namespace with a veth may be made here (unshare, ip)");
            return;
        }
        let name = "udp_server::tests::a_full_send_buffer_does_not_stall_the_thread";
        let output = in_namespace(&program, &["--exact", name, "--nocapture"]).expect("unshare runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("not stalled"), "{text}");
    }

    fn send_to_hosts_that_do_not_exist() {
        let options = ServerSocketOptions { send_buffer: 4_096, ..ServerSocketOptions::default() };
        let socket = ServerSocket::bind("0.0.0.0:0".parse().expect("a literal"), &options).expect("a socket");
        let mut batch = ServerBatch::new(socket, 64, 512);
        let client = client("10.77.0.1:0", ([10, 77, 0, 1], batch.local_addr().port()).into());
        for _ in 0..64 {
            client.send(b"question").expect("loopback");
        }
        let mut sent = 0;
        let begin = std::time::Instant::now();
        while sent < 64 {
            let count = batch.receive().expect("an open socket");
            for index in 0..count {
                sent += 1;
                batch.peers[index] = RawAddress::from(SocketAddr::from(([10, 77, 0, 1 + sent as u8], 5353)));
                batch.set_reply(index, 100);
            }
            let unsent = batch.send();
            assert!(sent < 64 || unsent > 0, "the buffer holds them all");
        }
        assert!(begin.elapsed() < options.wake_interval / 2, "{:?}", begin.elapsed());
        let _ = writeln!(std::io::stdout(), "not stalled");
    }

    #[test]
    fn sockets_share_an_address_only_with_reuse_port() {
        let shared = ServerSocket::bind("127.0.0.1:0".parse().expect("a literal"), &options()).expect("loopback");
        assert!(ServerSocket::bind(shared.local_addr(), &options()).is_ok());
        let alone = ServerSocket::bind(shared.local_addr(), &ServerSocketOptions { reuse_port: false, ..options() });
        assert_eq!(alone.err().map(|error| error.kind()), Some(io::ErrorKind::AddrInUse));
    }
}
