//! DNS over TLS from the real daemon: the memory of idle connections, and clients with other TLS libraries: OpenSSL, by itself and in
//! Python, GnuTLS, and that of Go. Clients with `rustls` are in `tls/listener_tests.rs`.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use server::config::remote_server::RemoteTls;
use server::tls::{ClientTls, MIN_BUFFER, TlsPeers, TlsStream};

use crate::harness::{Daemon, TestFolder, report_skipped};
use crate::memory::anonymous;
use crate::test_certificates::TestCertificates;

const SOON: Duration = Duration::from_secs(30);

/// Serves `example.com` over TLS with more settings of the server.
fn serve(folder: &TestFolder, more: &str) -> (Daemon, SocketAddr) {
    let certificates = TestCertificates::new();
    let own = certificates.issue("own", &["ns1.example.net"]);
    folder.write("cert.pem", &fs::read_to_string(own.certificate).expect("a file of the test"));
    folder.write("key.pem", &fs::read_to_string(own.key).expect("a file of the test"));
    folder.write_zone("example.com", 1, "192.0.2.1");
    let server = format!("listen-tls = [\"127.0.0.1:0\"]\ntls-cert = \"cert.pem\"\ntls-key = \"key.pem\"\n{more}");
    let zone = "name = \"example.com\"\nfile = \"zones/example.com.zone\"";
    folder.write("zonda.toml", &format!("[server]\n{server}\n[[zone]]\n{zone}\n"));
    let daemon = folder.serve_with_config();
    let address = daemon.wait_for_address("listening for TLS");
    (daemon, address)
}

/// A query for the address of `www.example.com`, and the address, which its answer ends with.
const QUERY: &[u8] = b"\0\x21\x12\x34\0\0\0\x01\0\0\0\0\0\0\x03www\x07example\x03com\0\0\x01\0\x01";
const ADDRESS: &[u8] = &[192, 0, 2, 1];

/// A connection over which one query was answered.
fn connection(address: SocketAddr, client: &ClientTls) -> (TcpStream, TlsStream) {
    let mut socket = TcpStream::connect(address).expect("loopback");
    socket.set_read_timeout(Some(SOON)).expect("an option");
    let mut tls = client.connect(address.ip()).expect("valid settings");
    let (mut records, mut out) = (vec![0; MIN_BUFFER], vec![0; MIN_BUFFER]);
    tls.flush(&mut socket).expect("loopback");
    while tls.is_handshaking() {
        tls.receive(&mut socket, &mut records, &mut out).expect("a handshake");
    }
    let answer = exchange(&mut socket, &mut tls, QUERY);
    assert!(answer.ends_with(ADDRESS), "{answer:?}");
    (socket, tls)
}

/// The answer to a query, both with their length.
fn exchange(socket: &mut TcpStream, tls: &mut TlsStream, query: &[u8]) -> Vec<u8> {
    let (mut records, mut out) = (vec![0; MIN_BUFFER], vec![0; MIN_BUFFER]);
    tls.send(socket, query).expect("open");
    loop {
        if let Some(len) = tls.receive(socket, &mut records, &mut out).expect("an answer") {
            return out[..len].to_vec();
        }
    }
}

/// RFC 9539 3.5: whether or not the query is padded. RFC 7830 6: TCP hides nothing, so that padding it is of no use.
#[test]
fn rfc_8467_4_1_responses_over_tls_are_padded_and_those_over_tcp_are_not() {
    // The query with an OPT record.
    let opt: &[u8] = &[0, 0, 41, 0x04, 0xd0, 0, 0, 0, 0, 0, 0];
    let mut query = [QUERY, opt].concat();
    (query[1], query[13]) = (query[1] + opt.len() as u8, 1);
    let folder = TestFolder::new();
    let (daemon, address) = serve(&folder, "");
    let peers = TlsPeers::new(None);
    let client = peers.config(peers.number(Some(&RemoteTls::default())).0).expect("settings");
    let (mut socket, mut tls) = connection(address, &client);
    let answer = exchange(&mut socket, &mut tls, &query);
    assert_eq!((answer.len(), &answer[..2]), (2 + 468, &468_u16.to_be_bytes()[..]));
    assert!(answer.windows(4).any(|octets| octets == ADDRESS), "{answer:?}");

    let mut socket = TcpStream::connect(daemon.address).expect("loopback");
    socket.set_read_timeout(Some(SOON)).expect("an option");
    socket.write_all(&query).expect("loopback");
    let mut prefix = [0; 2];
    socket.read_exact(&mut prefix).expect("an answer");
    assert!((50..100).contains(&u16::from_be_bytes(prefix)), "{prefix:?}");
}

#[test]
fn an_idle_tls_connection_takes_less_than_a_kibibyte() {
    const WARM: usize = 100;
    const CONNECTIONS: usize = 700;
    let folder = TestFolder::new();
    let (daemon, address) = serve(&folder, "tcp-idle-timeout-ms = 600000\n");
    let peers = TlsPeers::new(None);
    let client = peers.config(peers.number(Some(&RemoteTls::default())).0).expect("settings");
    let mut connections: Vec<_> = (0..WARM).map(|_| connection(address, &client)).collect();
    let before = anonymous(&daemon);
    connections.extend((0..CONNECTIONS).map(|_| connection(address, &client)));
    let octets = anonymous(&daemon).saturating_sub(before) / CONNECTIONS;
    println!("an idle TLS connection takes {octets} octets");
    assert!(octets <= 1024, "{octets} octets a connection");
    drop(connections);
}

/// `openssl s_client` with commands enabled, and what it prints.
struct OpenSsl {
    process: Child,
    input: Option<ChildStdin>,
    output: Receiver<Vec<u8>>,
    printed: Vec<u8>,
}

impl OpenSsl {
    fn start(address: SocketAddr, arguments: &[&str]) -> OpenSsl {
        // It prints what its commands do on standard error.
        let mut process = Command::new("sh")
            .args(["-c", "exec openssl s_client \"$@\" 2>&1", "openssl"])
            .args(["-alpn", "dot", "-tls1_3", "-connect", &address.to_string()])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("openssl runs");
        let (sender, output) = channel();
        let mut printed = process.stdout.take().expect("a pipe");
        thread::spawn(move || {
            let mut octets = [0; 4096];
            while let Ok(len @ 1..) = printed.read(&mut octets) {
                if sender.send(octets[..len].to_vec()).is_err() {
                    break;
                }
            }
        });
        OpenSsl { input: process.stdin.take(), process, output, printed: Vec::new() }
    }

    /// Waits until `wanted` was printed `count` times.
    fn wait_for(&mut self, wanted: &[u8], count: usize) {
        let deadline = Instant::now() + SOON;
        while self.printed.windows(wanted.len()).filter(|part| *part == wanted).count() < count {
            let more = self.output.recv_timeout(deadline.saturating_duration_since(Instant::now()));
            self.printed.extend(more.unwrap_or_else(|error| {
                panic!("{error}; no {:?} in {}", wanted.escape_ascii(), self.printed.escape_ascii())
            }));
        }
    }

    fn type_in(&mut self, octets: &[u8]) {
        self.input.as_mut().expect("open").write_all(octets).expect("it runs");
    }
}

impl Drop for OpenSsl {
    fn drop(&mut self) {
        self.input = None;
        // It may have ended already.
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

#[test]
fn openssl_resumes_changes_keys_and_sees_close_notify() {
    if Command::new("openssl").arg("version").output().is_err() {
        return report_skipped("openssl is not installed");
    }
    let folder = TestFolder::new();
    let (daemon, address) = serve(&folder, "tcp-idle-timeout-ms = 60000\n");
    let session = folder.path().join("session.pem");
    let session = session.to_str().expect("UTF-8");
    for suite in ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"] {
        let mut full = OpenSsl::start(address, &["-ciphersuites", suite, "-sess_out", session]);
        full.wait_for(format!("New, TLSv1.3, Cipher is {suite}").as_bytes(), 1);
        full.type_in(QUERY);
        full.wait_for(ADDRESS, 1);
        for count in 1..=3 {
            // The client's keys, then those of both sides.
            full.type_in(if count == 2 { b"K\n" } else { b"k\n" });
            full.wait_for(b"KEYUPDATE", count);
            full.type_in(QUERY);
            full.wait_for(ADDRESS, 1 + count);
        }
    }
    // Of the last one: a session is resumed with the hash of its suite only (RFC 8446 4.2.11).
    let mut resumed = OpenSsl::start(address, &["-sess_in", session, "-ciphersuites", "TLS_CHACHA20_POLY1305_SHA256"]);
    resumed.wait_for(b"Reused, TLSv1.3", 1);
    resumed.type_in(QUERY);
    resumed.wait_for(ADDRESS, 1);
    daemon.stop();
    resumed.wait_for(b"closed", 1);
}

/// Asks twice on one connection, and reads to the end, which must be a close_notify.
const PYTHON: &str = r#"
import socket, ssl, sys
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
context.set_alpn_protocols(["dot"])
query = b"\0\x21\x12\x34\0\0\0\x01\0\0\0\0\0\0\x03www\x07example\x03com\0\0\x01\0\x01"
session = None
for reused in (False, True):
    with socket.create_connection(("127.0.0.1", int(sys.argv[1])), 20) as tcp:
        with context.wrap_socket(tcp, session=session, suppress_ragged_eofs=False) as tls:
            assert (tls.session_reused, tls.selected_alpn_protocol(), tls.version()) == (reused, "dot", "TLSv1.3")
            for _ in range(2):
                tls.sendall(query)
                answer = b""
                while not answer.endswith(bytes([192, 0, 2, 1])):
                    answer += tls.recv(4096)
            session = tls.session
            if reused:
                print("asked", flush=True)
                assert tls.recv(1) == b""
print("closed")
"#;

#[test]
fn python_asks_resumes_and_sees_close_notify() {
    if Command::new("python3").args(["-c", "import ssl"]).output().is_ok_and(|output| !output.status.success()) {
        return report_skipped("python3 has no ssl");
    }
    let folder = TestFolder::new();
    let (_daemon, address) = serve(&folder, "tcp-idle-timeout-ms = 1000\n");
    let output = Command::new("python3").args(["-c", PYTHON, &address.port().to_string()]).output();
    let output = output.expect("python3 runs");
    assert_eq!((output.status.success(), &output.stdout[..]), (true, &b"asked\nclosed\n"[..]), "{output:?}");
}

/// Asks with each cipher before and after key updates, on a new connection and on one that resumes its session; then reads to the
/// end, which must be a close_notify.
const GNUTLS: &str = r#"
import ctypes, signal, socket, sys
from ctypes import byref, c_size_t, c_uint, c_void_p
signal.alarm(60)
tls = ctypes.CDLL("libgnutls.so.30")
CLIENT, CERTIFICATE, AGAIN, INTERRUPTED = 2, 1, -28, -52
QUERY = b"\0\x21\x12\x34\0\0\0\x01\0\0\0\0\0\0\x03www\x07example\x03com\0\0\x01\0\x01"

class Datum(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("size", c_uint)]

def call(function, *arguments):
    while (result := function(*arguments)) in (AGAIN, INTERRUPTED):
        pass
    assert result >= 0, (function.__name__, result)
    return result

def connect(cipher, ticket):
    tcp = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    session, credentials = c_void_p(), c_void_p()
    call(tls.gnutls_init, byref(session), CLIENT)
    priority = f"NORMAL:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:+{cipher}"
    call(tls.gnutls_priority_set_direct, session, priority.encode(), None)
    call(tls.gnutls_certificate_allocate_credentials, byref(credentials))
    call(tls.gnutls_credentials_set, session, CERTIFICATE, credentials)
    name = ctypes.create_string_buffer(b"dot")
    call(tls.gnutls_alpn_set_protocols, session, byref(Datum(ctypes.addressof(name), 3)), 1, 0)
    if ticket:
        call(tls.gnutls_session_set_data, session, c_void_p(ticket.data), c_size_t(ticket.size))
    tls.gnutls_transport_set_int2(session, tcp.fileno(), tcp.fileno())
    call(tls.gnutls_handshake, session)
    assert bool(tls.gnutls_session_is_resumed(session)) == bool(ticket)
    return tcp, session

def receive(session):
    buffer = ctypes.create_string_buffer(4096)
    length = call(tls.gnutls_record_recv, session, buffer, c_size_t(4096))
    return buffer.raw[:length]

def ask(session):
    assert call(tls.gnutls_record_send, session, QUERY, c_size_t(len(QUERY))) == len(QUERY)
    answer = b""
    while not answer.endswith(bytes([192, 0, 2, 1])):
        part = receive(session)
        assert part, "the end"
        answer += part

for cipher in ("AES-128-GCM", "AES-256-GCM", "CHACHA20-POLY1305"):
    ticket = None
    for _ in range(2):
        tcp, session = connect(cipher, ticket)
        ask(session)
        for keys_of_both in (0, 1, 0, 1, 1):
            call(tls.gnutls_session_key_update, session, keys_of_both)
            ask(session)
        ticket = Datum()
        call(tls.gnutls_session_get_data2, session, byref(ticket))
    print("asked", flush=True)
assert receive(session) == b""
print("closed")
"#;

#[test]
fn gnutls_resumes_changes_keys_and_sees_close_notify() {
    let has_library = Command::new("python3").args(["-c", "import ctypes; ctypes.CDLL('libgnutls.so.30')"]).output();
    if !has_library.is_ok_and(|output| output.status.success()) {
        return report_skipped("python3 or libgnutls.so.30 is not installed");
    }
    let folder = TestFolder::new();
    let (_daemon, address) = serve(&folder, "tcp-idle-timeout-ms = 2000\n");
    let output = Command::new("python3").args(["-c", GNUTLS, &address.port().to_string()]).output();
    let output = output.expect("python3 runs");
    let printed = (output.status.success(), str::from_utf8(&output.stdout).expect("ASCII"));
    assert_eq!(printed, (true, "asked\nasked\nasked\nclosed\n"), "{output:?}");
}

/// Asks twice on a new connection and on one that resumes its session, and reads to the end, which must be a close_notify: without one Go
/// reports an unexpected end. It answers key updates, but has no function to begin one.
const GO: &str = r#"package main

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"os"
	"time"
)

const query = "\x00\x21\x12\x34\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03www\x07example\x03com\x00\x00\x01\x00\x01"

func check(is bool, what ...any) {
	if !is {
		fmt.Println(what...)
		os.Exit(1)
	}
}

func main() {
	config := &tls.Config{
		InsecureSkipVerify: true,
		NextProtos:         []string{"dot"},
		MinVersion:         tls.VersionTLS13,
		ServerName:         "ns1.example.net",
		ClientSessionCache: tls.NewLRUClientSessionCache(1),
	}
	for _, resumes := range []bool{false, true} {
		connection, err := tls.Dial("tcp", os.Args[1], config)
		check(err == nil, err)
		connection.SetDeadline(time.Now().Add(20 * time.Second))
		state := connection.ConnectionState()
		check(state.DidResume == resumes && state.NegotiatedProtocol == "dot", state)
		buffer := make([]byte, 4096)
		for asked := 0; asked < 2; asked++ {
			_, err = connection.Write([]byte(query))
			check(err == nil, err)
			answer := []byte{}
			for !bytes.HasSuffix(answer, []byte{192, 0, 2, 1}) {
				length, err := connection.Read(buffer)
				check(err == nil, err)
				answer = append(answer, buffer[:length]...)
			}
		}
		fmt.Println("asked")
		if resumes {
			_, err = connection.Read(buffer)
			check(err == io.EOF, err)
		}
	}
	fmt.Println("closed")
}
"#;

#[test]
fn go_asks_resumes_and_sees_close_notify() {
    if Command::new("go").arg("version").output().is_err() {
        return report_skipped("go is not installed");
    }
    let folder = TestFolder::new();
    let (_daemon, address) = serve(&folder, "tcp-idle-timeout-ms = 2000\n");
    let program = folder.write("client.go", GO);
    let mut command = Command::new("go");
    // Nothing is downloaded.
    command.env("GOPROXY", "off").env("GOTOOLCHAIN", "local").arg("run").arg(program).arg(address.to_string());
    let output = command.output().expect("go runs");
    let printed = (output.status.success(), str::from_utf8(&output.stdout).expect("ASCII"));
    assert_eq!(printed, (true, "asked\nasked\nclosed\n"), "{output:?}");
}
