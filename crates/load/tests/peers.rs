//! Transfers with TSIG and TLS from NSD, Knot and BIND, where they are installed.

use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use load::tls::{self, Purpose, TlsConfig, TlsOffer};
use load::xfr::pull::{PullConfig, PullResult};
use rustls::pki_types::ServerName;

/// The algorithms that all of them support; each has a key named after it.
const ALGORITHMS: [&str; 4] = ["hmac-sha1", "hmac-sha256", "hmac-sha384", "hmac-sha512"];
const SECRET: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
const HOSTS: usize = 6000;

/// A running server, killed on drop.
struct Peer {
    child: Child,
    port: u16,
    tls_port: u16,
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts `program` in a folder with `example.org.zone`, `cert.pem` and `key.pem`. `configuration` gets the folder, the
/// port and the TLS port. `None` if the program is not installed.
fn start(program: &str, arguments: &[&str], configuration: impl Fn(&Path, u16, u16) -> String) -> Option<Peer> {
    if !["/usr/sbin", "/usr/local/sbin", "/usr/bin"].iter().any(|folder| Path::new(folder).join(program).exists()) {
        let _ = writeln!(std::io::stderr(), "skipped: {program} is not installed (help: interop/install-peers)");
        return None;
    }
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("peer-{program}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a writable folder");
    write_inputs(&folder);
    let (port, tls_port) = (free_port(), free_port());
    let path = folder.join("configuration");
    fs::write(&path, configuration(&folder, port, tls_port)).expect("a writable folder");
    let log = fs::File::create(folder.join("log")).expect("a writable folder");
    let child = Command::new(program)
        .args(arguments)
        .arg(path)
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a file"))
        .stderr(log)
        .spawn()
        .expect("it is installed");
    let peer = Peer { child, port, tls_port };
    let begun = Instant::now();
    while peer.pull("hmac-sha256", None).zones == 0 {
        let log = || fs::read_to_string(folder.join("log")).unwrap_or_default();
        assert!(begun.elapsed() < Duration::from_secs(20), "{program} does not serve: {}", log());
        thread::sleep(Duration::from_millis(50));
    }
    Some(peer)
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("loopback").port()
}

fn write_inputs(folder: &Path) {
    let mut zone = fs::File::create(folder.join("example.org.zone")).expect("a writable folder");
    writeln!(zone, "$TTL 60\n@ SOA ns hostmaster 7 3600 600 86400 60\n@ NS ns\nns A 192.0.2.1").expect("room");
    for host in 0..HOSTS {
        writeln!(zone, "host{host} TXT \"{}\"", "x".repeat(host % 100)).expect("room");
    }
    let (certificates, key) = tls::self_signed().expect("random numbers");
    for (name, kind, der) in
        [("cert.pem", "CERTIFICATE", &certificates[0][..]), ("key.pem", "PRIVATE KEY", key.secret_der())]
    {
        let text = data_encoding::BASE64.encode(der);
        let lines: Vec<&str> = (0..text.len()).step_by(64).map(|at| &text[at..text.len().min(at + 64)]).collect();
        let pem = format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", lines.join("\n"));
        fs::write(folder.join(name), pem).expect("a writable folder");
    }
}

impl Peer {
    fn pull(&self, algorithm: &str, tls: Option<TlsConfig>) -> PullResult {
        self.pull_from(algorithm, tls, None)
    }

    fn pull_from(&self, algorithm: &str, tls: Option<TlsConfig>, serial: Option<u32>) -> PullResult {
        let port = if tls.is_some() { self.tls_port } else { self.port };
        let key = Some(Arc::new(format!("{algorithm}:{algorithm}.key:{SECRET}").parse().expect("a key")));
        let (server, zones) = (SocketAddr::from(([127, 0, 0, 1], port)), vec!["example.org".parse().expect("a name")]);
        let timeout = Duration::from_secs(5);
        PullConfig { server, zones, serial, parallel: 1, timeout, tls, key }.run(&AtomicBool::new(false))
    }

    /// Transfers the zone with every algorithm, by AXFR and IXFR; over TLS too if the server supports it.
    fn check(&self, has_tls: bool) {
        let name = ServerName::try_from("localhost").expect("a literal");
        let config = TlsConfig::new(&TlsOffer::default(), name, Vec::new(), false, Purpose::Transfers)
            .expect("a good configuration");
        for tls in [None, has_tls.then_some(config)].into_iter().take(1 + usize::from(has_tls)) {
            for algorithm in ALGORITHMS {
                let result = self.pull(algorithm, tls.clone());
                assert_eq!((result.zones, result.records), (1, HOSTS as u64 + 4), "{algorithm}: {result:?}");
                assert!(result.messages > 1, "{result:?}");
            }
            let current = self.pull_from("hmac-sha256", tls.clone(), Some(7));
            assert_eq!((current.zones, current.records), (1, 1), "{current:?}");
        }
    }
}

/// The configuration of all keys, one after another.
fn keys(key: impl Fn(&str) -> String) -> String {
    ALGORITHMS.iter().map(|algorithm| key(algorithm)).collect()
}

#[test]
fn nsd_transfers_with_tsig_and_tls() {
    let Some(nsd) = start("nsd", &["-d", "-c"], |folder, port, tls_port| {
        let folder = folder.display();
        let keys =
            keys(|algorithm| format!("key:\n name: {algorithm}.key\n algorithm: {algorithm}\n secret: \"{SECRET}\"\n"));
        let acl = self::keys(|algorithm| format!(" provide-xfr: 127.0.0.1 {algorithm}.key\n"));
        format!(
            "server:\n ip-address: 127.0.0.1@{port}\n ip-address: 127.0.0.1@{tls_port}\n tls-port: {tls_port}\n \
             tls-service-key: {folder}/key.pem\n tls-service-pem: {folder}/cert.pem\n username: \"\"\n chroot: \"\"\n \
             zonesdir: {folder}\n database: \"\"\n pidfile: {folder}/pid\n xfrdfile: {folder}/xfrd\n \
             zonelistfile: {folder}/list\n xfrdir: {folder}\nremote-control:\n control-enable: no\n\
             {keys}zone:\n name: example.org\n zonefile: example.org.zone\n{acl}"
        )
    }) else {
        return;
    };
    nsd.check(true);
}

#[test]
fn knot_transfers_with_tsig() {
    let Some(knot) = start("knotd", &["-c"], |folder, port, _| {
        let folder = folder.display();
        let keys =
            keys(|algorithm| format!("  - id: {algorithm}.key\n    algorithm: {algorithm}\n    secret: {SECRET}\n"));
        format!(
            "server:\n    listen: 127.0.0.1@{port}\n    rundir: {folder}\ndatabase:\n    storage: {folder}\nkey:\n{keys}\
             acl:\n  - id: all\n    key: [{}]\n    action: transfer\ntemplate:\n  - id: default\n    storage: {folder}\n    \
             acl: all\n    zonefile-sync: -1\n    journal-content: none\nzone:\n  - domain: example.org\n    \
             file: example.org.zone\n",
            ALGORITHMS.map(|algorithm| format!("{algorithm}.key")).join(", ")
        )
    }) else {
        return;
    };
    knot.check(false);
}

#[test]
fn bind_transfers_with_tsig_and_tls() {
    let Some(bind) = start("named", &["-g", "-c"], |folder, port, tls_port| {
        let folder = folder.display();
        let keys =
            keys(|algorithm| format!("key \"{algorithm}.key\" {{ algorithm {algorithm}; secret \"{SECRET}\"; }};\n"));
        let acl = self::keys(|algorithm| format!("key \"{algorithm}.key\"; "));
        format!(
            "tls local {{ key-file \"{folder}/key.pem\"; cert-file \"{folder}/cert.pem\"; }};\n{keys}\
             options {{ directory \"{folder}\"; pid-file none; session-keyfile none; listen-on port {port} {{ 127.0.0.1; }}; \
             listen-on port {tls_port} tls local {{ 127.0.0.1; }}; listen-on-v6 {{ none; }}; recursion no; notify no; }};\n\
             controls {{ }};\nzone \"example.org\" {{ type primary; file \"{folder}/example.org.zone\"; \
             allow-transfer {{ {acl}}}; }};\n"
        )
    }) else {
        return;
    };
    bind.check(true);
}
