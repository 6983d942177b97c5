//! TCP: non-blocking listeners and connections, and their socket options (tcp(7)).
//!
//! Connections are plain [`TcpStream`]s.

use crate::checked;
use crate::socket_address::RawAddress;
use crate::socket_options;
use std::io;
use std::mem;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// The options of a listener.
#[derive(Clone, Copy, Debug)]
pub struct ListenerOptions {
    /// SO_REUSEPORT: several listeners share the address, and the kernel distributes connections over them.
    pub reuse_port: bool,
    /// The length of the accept queue; net.core.somaxconn is an upper limit.
    pub backlog: u32,
    /// TCP_NOTSENT_LOWAT: the most unsent octets in the kernel's send buffer; zero for the system default.
    pub unsent: u32,
    /// SO_RCVBUF, in octets, of which the kernel takes twice as much; zero for the system default, which grows with the rate.
    pub receive_buffer: u32,
    /// TCP_USER_TIMEOUT: how long sent data may stay unacknowledged before the kernel drops the connection, also after close; zero for
    /// the system default.
    pub user_timeout: Duration,
}

/// The longest queue of all kernels, of which older ones count in 16 bits. They take `net.core.somaxconn` where that is less.
const MAX_BACKLOG: u32 = 65_535;

impl Default for ListenerOptions {
    fn default() -> ListenerOptions {
        ListenerOptions {
            reuse_port: true,
            backlog: MAX_BACKLOG,
            unsent: 0,
            receive_buffer: 0,
            user_timeout: Duration::ZERO,
        }
    }
}

/// A non-blocking listening socket. Connections inherit its options without further system calls.
pub struct Listener(TcpListener);

impl Listener {
    /// Binds and listens. Errors are those of the system calls and name the option that failed.
    pub fn bind(address: SocketAddr, options: &ListenerOptions) -> io::Result<Listener> {
        let fd = socket_options::socket(address, libc::SOCK_STREAM | libc::SOCK_NONBLOCK)?;
        socket_options::set(&fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1, "SO_REUSEADDR")?;
        if options.reuse_port {
            socket_options::set(&fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1, "SO_REUSEPORT")?;
        }
        // Responses are written whole, so Nagle's algorithm would only delay them.
        socket_options::set(&fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1, "TCP_NODELAY")?;
        if options.receive_buffer > 0 {
            let octets = libc::c_int::try_from(options.receive_buffer).unwrap_or(libc::c_int::MAX);
            socket_options::set(&fd, libc::SOL_SOCKET, libc::SO_RCVBUF, octets, "SO_RCVBUF")?;
        }
        for (option, value, name) in [
            (libc::TCP_NOTSENT_LOWAT, options.unsent.into(), "TCP_NOTSENT_LOWAT"),
            (libc::TCP_USER_TIMEOUT, options.user_timeout.as_millis(), "TCP_USER_TIMEOUT"),
        ] {
            if value > 0 {
                let value = libc::c_int::try_from(value).unwrap_or(libc::c_int::MAX);
                socket_options::set(&fd, libc::IPPROTO_TCP, option, value, name)?;
            }
        }
        socket_options::bind(&fd, address)?;
        let backlog = libc::c_int::try_from(options.backlog).unwrap_or(libc::c_int::MAX);
        // SAFETY: no pointers.
        checked(unsafe { libc::listen(fd.as_raw_fd(), backlog) })?;
        Ok(Listener(TcpListener::from(fd)))
    }

    /// The local address, with the port that the kernel chose if it was 0.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// The next connection, non-blocking, and its peer; [`io::ErrorKind::WouldBlock`] if none is pending.
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let mut peer = RawAddress::unspecified();
        let mut len = mem::size_of::<RawAddress>() as libc::socklen_t;
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: `peer` and `len` live through the call; `len` is the size of `peer`.
        let fd = unsafe { libc::accept4(self.0.as_raw_fd(), (&raw mut peer).cast(), &mut len, flags) };
        // SAFETY: the descriptor is new and owned by nothing else.
        let fd = unsafe { OwnedFd::from_raw_fd(checked(fd)?) };
        Ok((TcpStream::from(fd), peer.socket_addr()))
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Starts a non-blocking connection: it becomes writable when it is established or has failed; see [`TcpStream::take_error`].
/// `local` is the source address; with port 0 the kernel chooses the port.
pub fn connect(server: SocketAddr, local: Option<SocketAddr>) -> io::Result<TcpStream> {
    connect_with(server, local, false)
}

/// As [`connect`], with TCP fast open (RFC 7413): once the kernel has a cookie of the server, the connection is writable at once, and the
/// first octets written go with the SYN. Whether the server accepts it decides net.ipv4.tcp_fastopen.
pub fn connect_fast_open(server: SocketAddr, local: Option<SocketAddr>) -> io::Result<TcpStream> {
    connect_with(server, local, true)
}

fn connect_with(server: SocketAddr, local: Option<SocketAddr>, fast_open: bool) -> io::Result<TcpStream> {
    let fd = socket_options::socket(server, libc::SOCK_STREAM | libc::SOCK_NONBLOCK)?;
    socket_options::set(&fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1, "TCP_NODELAY")?;
    if fast_open {
        socket_options::set(&fd, libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT, 1, "TCP_FASTOPEN_CONNECT")?;
    }
    if let Some(local) = local {
        if local.port() > 0 {
            // ip(7): an earlier connection from this port may still be in TIME_WAIT.
            socket_options::set(&fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1, "SO_REUSEADDR")?;
        }
        // ip(7): the port is chosen at connect time, so that it only has to be unique per peer.
        socket_options::set(&fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1, "IP_BIND_ADDRESS_NO_PORT")?;
        socket_options::bind(&fd, local)?;
    }
    socket_options::connect(&fd, server)?;
    Ok(TcpStream::from(fd))
}

/// Closes a connection with a RST, without TIME_WAIT (socket(7), SO_LINGER).
pub fn reset(stream: TcpStream) -> io::Result<()> {
    let fd = OwnedFd::from(stream);
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    let len = mem::size_of_val(&linger) as libc::socklen_t;
    // SAFETY: `linger` lives through the call and has `len` octets.
    let result =
        unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, (&raw const linger).cast(), len) };
    checked(result).map(drop)
}

/// The kernel memory of written but unacknowledged data, in octets: more than the data itself, as it counts whole buffers.
pub fn send_memory(stream: &TcpStream) -> io::Result<usize> {
    socket_options::SocketMemory::of(stream).map(|memory| memory.send_octets as usize)
}

/// Whether an error means that the process or system has no descriptors, or memory for them, left.
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::epoll::{Event, Events, Interest, Poll};
    use std::io::{Read, Write};

    const SOON: Duration = Duration::from_secs(5);

    fn listener() -> (Listener, SocketAddr) {
        let listener =
            Listener::bind("127.0.0.1:0".parse().expect("a literal"), &ListenerOptions::default()).expect("loopback");
        let address = listener.local_addr().expect("bound");
        (listener, address)
    }

    #[test]
    fn a_connection_is_accepted_before_its_first_data() {
        let (listener, address) = listener();
        let (poll, mut events) = (Poll::new().expect("epoll"), Events::with_capacity(4));
        poll.add(&listener, 7, Interest::Readable).expect("a fresh descriptor");
        assert_eq!(listener.accept().map(drop).map_err(|error| error.kind()), Err(io::ErrorKind::WouldBlock));

        let mut client = TcpStream::connect(address).expect("loopback");
        poll.wait(&mut events, SOON).expect("epoll");
        assert_eq!((events.len(), events.at(0).token, events.at(0).readable), (1, 7, true));
        let (mut stream, peer) = listener.accept().expect("pending");
        assert_eq!(peer, client.local_addr().expect("bound"));
        assert!(stream.nodelay().expect("an option"));

        poll.add(&stream, 8, Interest::Readable).expect("a fresh descriptor");
        client.write_all(b"hello").expect("loopback");
        poll.wait(&mut events, SOON).expect("epoll");
        assert_eq!((events.len(), events.at(0).token, events.at(0).readable), (1, 8, true));
        let mut octets = [0; 16];
        assert_eq!(stream.read(&mut octets).expect("they are there"), 5);
        assert_eq!(stream.read(&mut octets).map_err(|error| error.kind()), Err(io::ErrorKind::WouldBlock));
    }

    #[test]
    fn a_client_connects_without_blocking_and_can_reset() {
        let (listener, server) = listener();
        let (poll, mut events) = (Poll::new().expect("epoll"), Events::with_capacity(4));
        let local = "127.0.0.77:0".parse().expect("a literal");
        let mut client = connect(server, Some(local)).expect("loopback");
        poll.add(&client, 1, Interest::Both).expect("a fresh descriptor");
        poll.wait_precise(&mut events, SOON).expect("epoll");
        assert_eq!(events.at(0), Event { token: 1, readable: false, writable: true });
        client.write_all(b"x").expect("established");
        let mut accepted = listener.accept();
        while accepted.is_err() {
            accepted = listener.accept();
        }
        let (mut stream, peer) = accepted.expect("a connection");
        assert_eq!(peer.ip(), local.ip());
        reset(client).expect("an open connection");
        let mut read = || stream.read(&mut [0; 16]).map_err(|error| error.kind());
        assert_eq!((read(), read()), (Ok(1), Err(io::ErrorKind::ConnectionReset)));
    }

    /// The first connection asks for a cookie, the second one may use it.
    #[test]
    fn fast_open_connects_whatever_the_server_does() {
        let (listener, server) = listener();
        let (poll, mut events) = (Poll::new().expect("epoll"), Events::with_capacity(4));
        for _ in 0..2 {
            let mut client = connect_fast_open(server, None).expect("loopback");
            poll.add(&client, 1, Interest::Both).expect("a fresh descriptor");
            poll.wait_precise(&mut events, SOON).expect("epoll");
            assert_eq!((events.len(), events.at(0).writable), (1, true));
            client.write_all(b"hello").expect("loopback");
            let (mut stream, _) = std::iter::repeat_with(|| listener.accept()).find_map(Result::ok).expect("pending");
            let mut octets = [0; 16];
            let mut read = std::iter::repeat_with(|| stream.read(&mut octets));
            assert_eq!(read.find_map(Result::ok), Some(5));
        }
    }

    #[test]
    fn received_data_is_bounded() {
        let options = ListenerOptions { receive_buffer: 64 << 10, ..ListenerOptions::default() };
        let listener = Listener::bind("127.0.0.1:0".parse().expect("a literal"), &options).expect("loopback");
        let client = TcpStream::connect(listener.local_addr().expect("bound")).expect("loopback");
        client.set_nonblocking(true).expect("a socket");
        while (&client).write(&[0; 4096]).is_ok() {}
        let (stream, _) = std::iter::repeat_with(|| listener.accept()).find_map(Result::ok).expect("a connection");
        let memory = socket_options::SocketMemory::of(&stream).expect("an open connection");
        assert_eq!(memory.receive_limit, 128 << 10);
    }

    #[test]
    fn unsent_data_is_bounded_and_its_memory_reported() {
        let options =
            ListenerOptions { unsent: 16 << 10, user_timeout: Duration::from_secs(1), ..ListenerOptions::default() };
        let listener = Listener::bind("127.0.0.1:0".parse().expect("a literal"), &options).expect("loopback");
        let client = TcpStream::connect(listener.local_addr().expect("bound")).expect("loopback");
        (&client).write_all(b"x").expect("loopback");
        let (mut stream, _) = std::iter::repeat_with(|| listener.accept()).find_map(Result::ok).expect("a connection");
        assert_eq!(send_memory(&stream).expect("an open connection"), 0);
        let mut written = 0;
        while let Ok(count) = stream.write(&[0; 64 << 10]) {
            written += count;
            assert!(written < 1 << 20, "the bound was not inherited");
        }
        assert!(send_memory(&stream).expect("an open connection") >= 16 << 10);
    }

    #[test]
    fn listeners_share_an_address_only_with_reuse_port() {
        let (_listener, address) = listener();
        assert!(Listener::bind(address, &ListenerOptions::default()).is_ok());
        let alone = Listener::bind(address, &ListenerOptions { reuse_port: false, ..ListenerOptions::default() });
        assert_eq!(alone.err().map(|error| error.kind()), Some(io::ErrorKind::AddrInUse));
    }
}
