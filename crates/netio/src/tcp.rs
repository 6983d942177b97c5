//! Streams: a listener that never blocks, and waiting for many descriptors at once.
//!
//! Accepted connections are plain [`TcpStream`]s; reading and writing them needs nothing from here.

use crate::checked;
use crate::socket_address::RawAddress;
use crate::socket_options;
use std::io;
use std::mem;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// How a listener is set up.
#[derive(Clone, Copy, Debug)]
pub struct ListenerOptions {
    /// Whether further listeners may have the same address, the kernel spreading connections over them (SO_REUSEPORT).
    pub reuse_port: bool,
    /// How many connections may wait to be accepted; the kernel may know a lower limit (net.core.somaxconn).
    pub backlog: u32,
    /// How long the kernel keeps a connection to itself while its first octets are awaited; zero for not at all.
    pub defer_accept: Duration,
    /// How many octets the kernel takes at most beyond those that it has sent (TCP_NOTSENT_LOWAT); zero for its own choice.
    pub unsent: u32,
    /// How long sent octets may stay unacknowledged before the kernel gives the connection up, also after it was closed
    /// (TCP_USER_TIMEOUT); zero for its own choice.
    pub user_timeout: Duration,
}

impl Default for ListenerOptions {
    fn default() -> ListenerOptions {
        ListenerOptions {
            reuse_port: true,
            backlog: 4096,
            defer_accept: Duration::from_secs(3),
            unsent: 0,
            user_timeout: Duration::ZERO,
        }
    }
}

/// A listening socket that never blocks. Connections inherit its options, which costs no system call for each.
pub struct Listener(TcpListener);

impl Listener {
    /// Binds and listens. Errors are those of the system calls; a failed option is named.
    pub fn bind(address: SocketAddr, options: &ListenerOptions) -> io::Result<Listener> {
        let fd = socket_options::socket(address, libc::SOCK_STREAM | libc::SOCK_NONBLOCK)?;
        socket_options::set(&fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1, "SO_REUSEADDR")?;
        if options.reuse_port {
            socket_options::set(&fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1, "SO_REUSEPORT")?;
        }
        // Answers are written whole: there is nothing to wait for.
        socket_options::set(&fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1, "TCP_NODELAY")?;
        for (option, value, name) in [
            (libc::TCP_DEFER_ACCEPT, options.defer_accept.as_secs().into(), "TCP_DEFER_ACCEPT"),
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

    /// Where it is bound, with the port the kernel chose if none was asked for.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// The next connection, set up not to block, and its peer; [`io::ErrorKind::WouldBlock`] when none waits.
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let mut peer = RawAddress::unspecified();
        let mut len = mem::size_of::<RawAddress>() as libc::socklen_t;
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: `peer` and `len` live through the call; `len` is the room in `peer`.
        let fd = unsafe { libc::accept4(self.0.as_raw_fd(), (&raw mut peer).cast(), &mut len, flags) };
        // SAFETY: the descriptor was just made and nobody else has it.
        let fd = unsafe { OwnedFd::from_raw_fd(checked(fd)?) };
        Ok((TcpStream::from(fd), peer.socket_addr()))
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Begins a connection that does not block: writable as soon as it stands, with [`TcpStream::take_error`] where it does not.
/// `local` is the address it comes from, with port 0 for one that the kernel chooses.
pub fn connect(server: SocketAddr, local: Option<SocketAddr>) -> io::Result<TcpStream> {
    let fd = socket_options::socket(server, libc::SOCK_STREAM | libc::SOCK_NONBLOCK)?;
    socket_options::set(&fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1, "TCP_NODELAY")?;
    if let Some(local) = local {
        // ip(7): the port is chosen by the whole connection, so that each peer gives all ports anew.
        socket_options::set(&fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1, "IP_BIND_ADDRESS_NO_PORT")?;
        socket_options::bind(&fd, local)?;
    }
    socket_options::connect(&fd, server)?;
    Ok(TcpStream::from(fd))
}

/// Closes a connection by RST, at once and without TIME_WAIT (socket(7), SO_LINGER).
pub fn reset(stream: TcpStream) -> io::Result<()> {
    let fd = OwnedFd::from(stream);
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    let len = mem::size_of_val(&linger) as libc::socklen_t;
    // SAFETY: `linger` lives through the call and has `len` octets.
    let result =
        unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, (&raw const linger).cast(), len) };
    checked(result).map(drop)
}

/// The memory of the kernel that holds what was written and is not acknowledged yet, in octets: more than the data, as its
/// buffers are counted whole (SO_MEMINFO).
pub fn send_memory(stream: &TcpStream) -> io::Result<usize> {
    // sock_diag(7): SK_MEMINFO_WMEM_QUEUED is the sixth of the figures.
    let mut figures = [0u32; 6];
    let mut len = mem::size_of_val(&figures) as libc::socklen_t;
    // SAFETY: `figures` and `len` live through the call; `len` is the room in `figures`.
    let result = unsafe {
        let figures = (&raw mut figures).cast();
        libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_MEMINFO, figures, &mut len)
    };
    checked(result).map(|_| figures[5] as usize)
}

/// Whether an error says that the process or the system is out of descriptors or memory for a further one.
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
    fn a_connection_turns_up_with_its_first_octets() {
        let (listener, address) = listener();
        let (poll, mut events) = (Poll::new().expect("epoll"), Events::with_capacity(4));
        poll.add(&listener, 7, Interest::Readable).expect("a fresh descriptor");
        assert_eq!(listener.accept().map(drop).map_err(|error| error.kind()), Err(io::ErrorKind::WouldBlock));

        let mut client = TcpStream::connect(address).expect("loopback");
        poll.wait(&mut events, Duration::from_millis(50)).expect("epoll");
        assert!(events.is_empty(), "TCP_DEFER_ACCEPT holds back a connection that says nothing");
        client.write_all(b"hello").expect("loopback");
        poll.wait(&mut events, SOON).expect("epoll");
        assert_eq!((events.len(), events.at(0).token, events.at(0).readable), (1, 7, true));

        let (mut stream, peer) = listener.accept().expect("it was announced");
        assert_eq!(peer, client.local_addr().expect("bound"));
        assert!(stream.nodelay().expect("an option"));
        let mut octets = [0; 16];
        assert_eq!(stream.read(&mut octets).expect("they are there"), 5);
        assert_eq!(stream.read(&mut octets).map_err(|error| error.kind()), Err(io::ErrorKind::WouldBlock));
    }

    #[test]
    fn a_client_connects_without_waiting_and_can_reset() {
        let (listener, server) = listener();
        let (poll, mut events) = (Poll::new().expect("epoll"), Events::with_capacity(4));
        let local = "127.0.0.77:0".parse().expect("a literal");
        let mut client = connect(server, Some(local)).expect("loopback");
        poll.add(&client, 1, Interest::Both).expect("a fresh descriptor");
        poll.wait_precise(&mut events, SOON).expect("epoll");
        assert_eq!(events.at(0), Event { token: 1, readable: false, writable: true });
        client.write_all(b"x").expect("it stands");
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

    #[test]
    fn unread_output_is_bounded_and_its_memory_known() {
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
    fn listeners_share_an_address_only_when_asked_to() {
        let (_listener, address) = listener();
        assert!(Listener::bind(address, &ListenerOptions::default()).is_ok());
        let alone = Listener::bind(address, &ListenerOptions { reuse_port: false, ..ListenerOptions::default() });
        assert_eq!(alone.err().map(|error| error.kind()), Some(io::ErrorKind::AddrInUse));
    }
}
