//! Test harness: a temporary folder, the `zonda` binary run in it, a running daemon, and queries to it.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write as _};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use tempfile::TempDir;

/// Long enough for a loaded machine; a passing test never waits this long.
const TIMEOUT: Duration = Duration::from_secs(30);

const CONFIG: [&str; 2] = ["--config", "zonda.toml"];

/// The socket for notifications, in the folder of a test.
const NOTIFY_SOCKET: &str = "notify";

/// The temporary folder of a test.
pub struct TestFolder(TempDir);

/// The exit status and output of a command.
#[derive(Debug)]
pub struct CommandOutput {
    pub status: i32,
    pub out: String,
    pub err: String,
}

impl TestFolder {
    pub fn new() -> TestFolder {
        TestFolder(tempfile::tempdir().expect("a folder"))
    }

    /// One whose path is longer than the address of a socket can be.
    pub fn with_long_path() -> TestFolder {
        let prefix = "long".repeat(30);
        TestFolder(tempfile::Builder::new().prefix(&prefix).tempdir().expect("a folder"))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file. Its mtime differs at each call and is old enough for a reload to rely on it.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        static COUNT: Mutex<u64> = Mutex::new(0);
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().expect("below the folder")).expect("a folder");
        fs::write(&path, text).expect("a file");
        let mut count = COUNT.lock().expect("nobody panics with it");
        *count += 1;
        let time = SystemTime::now() - Duration::from_secs(1_000_000 - *count);
        let file = fs::File::options().append(true).open(&path).expect("the file");
        file.set_modified(time).expect("its time is set");
        path
    }

    /// The text of a file that is there.
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Writes `zones/NAME.zone`: an SOA record with this serial, an NS record, and `www`.
    pub fn write_zone(&self, name: &str, serial: u32, address: &str) {
        self.write(&format!("zones/{name}.zone"), &zone_text(serial, address));
    }

    /// The binary with these arguments, run in the folder, without the environment of the user.
    pub fn zonda(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zonda"));
        command.args(arguments).current_dir(self.path()).env_clear();
        command.env("HOME", self.path()).env("XDG_STATE_HOME", self.path().join("state"));
        command.env("STATE_DIRECTORY", self.path().join("state/zonda"));
        command.stdin(Stdio::null());
        command
    }

    /// Runs a command that ends by itself.
    pub fn run(&self, arguments: &[&str]) -> CommandOutput {
        outcome(self.zonda(arguments).output().expect("zonda runs"))
    }

    /// As [`Self::run`], with the configuration in `zonda.toml`.
    pub fn run_with_config(&self, arguments: &[&str]) -> CommandOutput {
        self.run(&[arguments, &CONFIG].concat())
    }

    pub fn reload(&self) -> CommandOutput {
        self.run_with_config(&["reload"])
    }

    /// Runs `zonda zone` with these arguments.
    pub fn zone(&self, arguments: &[&str]) -> CommandOutput {
        self.run_with_config(&[&["zone"], arguments].concat())
    }

    /// The value of a metric.
    pub fn metric(&self, name: &str) -> u64 {
        let output = self.run_with_config(&["metrics"]);
        let line = output.out.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name}: {} {}", output.out, output.err))
    }

    /// Starts `zonda serve` on a port that the kernel chooses and waits until it is ready.
    pub fn serve(&self, arguments: &[&str]) -> Daemon {
        let arguments = [&["serve", "--listen", "127.0.0.1:0"], arguments].concat();
        Daemon::start(self, self.zonda(&arguments))
    }

    /// As [`Self::serve`], with the configuration in `zonda.toml`.
    pub fn serve_with_config(&self) -> Daemon {
        self.serve(&CONFIG)
    }

    /// As [`Self::serve_with_config`], at this address, where an earlier daemon was.
    pub fn serve_at(&self, address: &str) -> Daemon {
        self.serve(&[&CONFIG[..], &["--listen", address]].concat())
    }

    /// As [`Self::serve`], where neither systemd nor the configuration gives a state-dir. `None` if this user, root, may not hide the default
    /// one of the machine.
    pub fn serve_without_state_dir(&self, arguments: &[&str]) -> Option<Daemon> {
        let arguments = [&["serve", "--listen", "127.0.0.1:0"], arguments].concat();
        let mut command = self.zonda(&arguments);
        if is_root() {
            if !may_mount() {
                return None;
            }
            let script = "mount -t tmpfs tmpfs /var/lib && exec \"$0\" \"$@\"";
            command = Command::new("unshare");
            command.args(["-m", "sh", "-c", script, env!("CARGO_BIN_EXE_zonda")]).args(arguments);
            command.current_dir(self.path());
        }
        command.env("XDG_STATE_HOME", self.path().join("default")).env_remove("STATE_DIRECTORY");
        Some(Daemon::start(self, command))
    }

    /// As [`Self::serve`], with a disk of its own for this folder, of this many KiB. `None` if this user may not mount.
    pub fn serve_on_disk(&self, name: &str, size_kib: u32, arguments: &[&str]) -> Option<Daemon> {
        fs::create_dir_all(self.path().join(name)).expect("a folder");
        if !may_mount() {
            return None;
        }
        let script = format!("mount -t tmpfs -o size={size_kib}k,mode=700 tmpfs {name} && exec \"$0\" \"$@\"");
        let zonda = self.zonda(&[]);
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &script]).arg(zonda.get_program());
        command.args(["serve", "--listen", "127.0.0.1:0"]).args(arguments).current_dir(self.path());
        for (key, value) in zonda.get_envs() {
            command.env(key, value.expect("only set"));
        }
        Some(Daemon::start(self, command))
    }
}

/// Whether this becomes true before the time for it is over.
pub fn eventually(mut is_true: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + TIMEOUT;
    while !is_true() {
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

/// Whether this user may have mounts of its own.
fn may_mount() -> bool {
    let status = Command::new("unshare").args(["-m", "true"]).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Retries on EINTR, which a socket with a timeout returns for a signal (signal(7)).
pub fn uninterrupted(mut receive: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match receive() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// A zone with this serial and this address of `www`.
pub fn zone_text(serial: u32, address: &str) -> String {
    format!(
        "$TTL 1h\n@ SOA ns.example.net. hostmaster.example.net. {serial} 4h 1h 2w 5m\n@ NS ns.example.net.\nwww A {address}\n"
    )
}

pub fn outcome(output: Output) -> CommandOutput {
    CommandOutput {
        status: output.status.code().expect("it ends by itself"),
        out: String::from_utf8(output.stdout).expect("text"),
        err: String::from_utf8(output.stderr).expect("text"),
    }
}

/// A running daemon; killed on drop.
pub struct Daemon {
    child: Child,
    log: Arc<Mutex<String>>,
    collector: Option<JoinHandle<()>>,
    notifications: UnixDatagram,
    pub address: SocketAddr,
}

impl Daemon {
    fn start(folder: &TestFolder, mut command: Command) -> Daemon {
        let notify_socket = folder.path().join(NOTIFY_SOCKET);
        _ = fs::remove_file(&notify_socket);
        // Through a descriptor, and for the daemon relative to its folder: an address has 107 octets at most (unix(7)), a path can be longer.
        let directory = fs::File::open(folder.path()).expect("the folder");
        let address = format!("/proc/self/fd/{}/{NOTIFY_SOCKET}", directory.as_raw_fd());
        let notifications = UnixDatagram::bind(address).expect("a socket");
        // As with systemd, any user may write to it, since the daemon drops root.
        fs::set_permissions(&notify_socket, PermissionsExt::from_mode(0o777)).expect("it is ours");
        notifications.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        command.env("NOTIFY_SOCKET", NOTIFY_SOCKET).stderr(Stdio::piped());
        let mut child = command.spawn().expect("zonda runs");
        let (log, collector) = collected(child.stderr.take().expect("it is piped"));
        let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
        let mut daemon = Daemon { child, log, collector: Some(collector), notifications, address: unknown };
        daemon.wait_for_notification("READY=1");
        daemon.address = daemon.wait_for_address("listening");
        daemon
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a notification to systemd with a line that starts with `wanted`.
    pub fn wait_for_notification(&self, wanted: &str) -> String {
        let mut notification = [0; 1000];
        loop {
            let len = uninterrupted(|| self.notifications.recv(&mut notification))
                .unwrap_or_else(|error| panic!("{error}: {}", self.log()));
            let notification = String::from_utf8_lossy(&notification[..len]).into_owned();
            if notification.lines().any(|line| line.starts_with(wanted)) {
                return notification;
            }
        }
    }

    /// The log so far. The last lines may be missing: the daemon writes them in a thread of its own.
    pub fn log(&self) -> String {
        self.log.lock().expect("nobody panics with it").clone()
    }

    /// Waits for a log line that contains `wanted`, and returns it.
    pub fn wait_for_log(&self, wanted: &str) -> String {
        let begin = Instant::now();
        loop {
            let log = self.log();
            match log.lines().find(|line| line.contains(wanted)) {
                Some(line) => return line.to_owned(),
                None if begin.elapsed() > TIMEOUT => panic!("{wanted} is not in {log}"),
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    #[track_caller]
    pub fn wait_until(&self, what: &str, is_done: impl FnMut() -> bool) {
        assert!(eventually(is_done), "not {what}: {}", self.log());
    }

    /// Waits until queries for a host in a zone have this RCODE.
    #[track_caller]
    pub fn wait_for_rcode(&self, zone: &str, rcode: u8) {
        self.wait_until(&format!("{zone} rcode {rcode}"), || self.ask(&format!("www.{zone}")).rcode() == rcode);
    }

    /// Waits for a log line that contains `what`, and returns the address in it.
    pub fn wait_for_address(&self, what: &str) -> SocketAddr {
        listening(&self.wait_for_log(what)).expect("an address")
    }

    /// Sends a signal, given by name, with the shell's built-in `kill`: a minimal system lacks the program.
    pub fn signal(&self, name: &str) {
        let status = Command::new("sh").args(["-c", &format!("kill -s {name} {}", self.child.id())]).status();
        assert!(status.expect("sh runs").success());
    }

    /// Sends SIGTERM and waits for the end.
    pub fn stop(mut self) -> (ExitStatus, String) {
        self.signal("TERM");
        let status = self.wait();
        self.collector.take().map(JoinHandle::join);
        (status, self.log())
    }

    /// Ends it at once, as a crash would.
    pub fn kill(mut self) {
        self.child.kill().expect("it is ours");
        self.child.wait().expect("it was killed");
    }

    pub fn wait(&mut self) -> ExitStatus {
        let begin = Instant::now();
        loop {
            match self.child.try_wait().expect("it is ours") {
                Some(status) => return status,
                None if begin.elapsed() > TIMEOUT => panic!("zonda does not end: {}", self.log()),
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    /// Queries the A records of a name.
    pub fn ask(&self, name: &str) -> Answer {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        socket.send_to(&question(name), self.address).expect("it is sent");
        let mut answer = [0; 512];
        let len = uninterrupted(|| socket.recv(&mut answer))
            .unwrap_or_else(|error| panic!("no answer: {error}: {}", self.log()));
        Answer(answer[..len].to_vec())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended already.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// A response to a query for A records.
pub struct Answer(Vec<u8>);

pub const NOERROR: u8 = 0;
pub const SERVFAIL: u8 = 2;
pub const NXDOMAIN: u8 = 3;
pub const REFUSED: u8 = 5;

impl Answer {
    pub fn rcode(&self) -> u8 {
        self.0[3] & 15
    }

    /// Whether the response is NOERROR with an A record of this address.
    pub fn has(&self, address: &str) -> bool {
        let address: std::net::Ipv4Addr = address.parse().expect("an address");
        self.rcode() == NOERROR
            && self.0.windows(6).any(|octets| octets[..2] == [0, 4] && octets[2..] == address.octets())
    }
}

fn question(name: &str) -> Vec<u8> {
    let mut message = vec![0x12, 0x34, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.').filter(|label| !label.is_empty()) {
        message.push(label.len() as u8);
        message.extend(label.bytes());
    }
    message.extend([0, 0, 1, 0, 1]);
    message
}

fn collected(mut from: impl Read + Send + 'static) -> (Arc<Mutex<String>>, JoinHandle<()>) {
    let log = Arc::new(Mutex::new(String::new()));
    let into = log.clone();
    let collector = std::thread::spawn(move || {
        for line in BufReader::new(&mut from).lines().map_while(Result::ok) {
            let mut log = into.lock().expect("nobody panics with it");
            log.push_str(&line);
            log.push('\n');
        }
    });
    (log, collector)
}

/// The address in a line of the log, as text or as JSON.
fn listening(line: &str) -> Option<SocketAddr> {
    let (_, rest) = line.split_once("address")?;
    let rest = rest.trim_start_matches(['=', '"', ':']);
    rest.split(['"', ' ', ',', '}']).next()?.parse().ok()
}

/// Whether the tests run as root.
pub fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// Reports a skipped test directly to standard error, since the test runner hides the output of passing tests.
pub fn report_skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}
