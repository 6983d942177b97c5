//! The commands of `docs/manual/zonda-load.md` succeed, against the null primary and with smaller numbers; those over QUIC have their options.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::running::Running;

#[path = "shared/running.rs"]
mod running;
#[path = "shared/udp_server.rs"]
mod udp_server;

/// The options that are replaced, with the largest value for a test.
const LARGEST: [(&str, f64); 5] =
    [("--rate", 200.0), ("--seconds", 0.3), ("--outstanding", 20.0), ("--connections", 10.0), ("--probe-ms", 10.0)];

/// The commands that run for 10 seconds by default.
const TIMED: [&str; 4] = ["query", "hold", "hostile", "update"];

#[test]
fn the_commands_of_the_manual_succeed() {
    let folder = folder_with_files();
    let commands = commands();
    let serve = commands.iter().find(|words| words[..2] == ["xfr", "serve"]).expect("the manual starts a primary");
    let plain = Primary::start(&folder, serve, &[]);
    let mut count = 0;
    // The null primary has no QUIC: attack/test_quic_clients.py asks a server over it.
    for command in commands.iter().filter(|command| !is_server(command) && !is_over_quic(command)) {
        // The server of a command with `--tsig` needs the same key.
        let tsig = command.iter().position(|word| word == "--tsig").map(|at| &command[at..at + 2]);
        let signed = tsig.map(|tsig| Primary::start(&folder, serve, tsig));
        let arguments = adapted(command, signed.as_ref().unwrap_or(&plain));
        let Output { status, stdout, stderr } = run(&folder, &arguments);
        let [out, err] = [stdout, stderr].map(|text| String::from_utf8(text).expect("UTF-8"));
        // A busy machine may delay the queries.
        let is_late = !err.is_empty() && err.lines().all(|line| line.ends_with("after their time"));
        assert!(status.success() || is_late && status.code() == Some(3), "{command:?}: {err}");
        count += 1;
        if command[0] == "sample" {
            let queries = fs::read_to_string(folder.join("sampled")).expect("the command wrote it");
            assert!(queries.lines().count() > 1, "{queries}");
            continue;
        }
        let sum: Value = serde_json::from_str(out.lines().last().expect("a result")).expect("JSON");
        assert_eq!(sum["type"], "stats_sum", "{command:?}: {out}");
    }
    assert!(count >= 14, "only {count} commands were run");
}

/// `echo`, `sink` and `xfr serve`, on ports that the kernel chooses.
#[test]
fn the_servers_of_the_manual_start() {
    let folder = folder_with_files();
    let commands = commands();
    let mut count = 0;
    for command in commands.iter().filter(|command| is_server(command)) {
        let mut arguments = command.clone();
        for at in 1..arguments.len() {
            if arguments[at - 1].ends_with("port") {
                arguments[at] = "0".into();
            }
        }
        let mut server = Running::start(program(&folder, &arguments));
        server.next_with("msg_type", "ready");
        assert_eq!(server.terminate().1, Some(0), "{command:?}");
        count += 1;
    }
    assert_eq!(count, 4);
}

/// `--help` is printed only if all options before it exist and their values can be read.
#[test]
fn the_commands_over_quic_have_their_options() {
    let folder = folder_with_files();
    let commands = commands();
    let over_quic: Vec<_> = commands.iter().filter(|command| is_over_quic(command)).collect();
    assert!(over_quic.len() >= 3);
    for command in over_quic {
        let arguments = [&command[..], &["--help".to_owned()]].concat();
        let outcome = run(&folder, &arguments);
        assert!(outcome.status.success(), "{command:?}: {}", String::from_utf8_lossy(&outcome.stderr));
    }
    assert_eq!(run(&folder, &["quic", "--no-such-option", "--help"].map(str::to_owned)).status.code(), Some(2));
}

#[test]
fn options_that_do_not_exist_are_detected() {
    let folder = folder_with_files();
    assert_eq!(run(&folder, &["query".into(), "--no-such-option".into()]).status.code(), Some(2));
}

/// The arguments of every command in a code block of the manual.
fn commands() -> Vec<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/manual/zonda-load.md");
    let text = fs::read_to_string(path).expect("the manual");
    // Every second part is between fences.
    let lines = text.split("```").skip(1).step_by(2).flat_map(str::lines);
    let typed = lines.filter_map(|line| line.split('#').next()?.strip_prefix("zonda-load "));
    typed.map(|arguments| arguments.split_whitespace().map(str::to_owned).collect()).collect()
}

/// The files that the commands name.
fn folder_with_files() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("manual-{:?}", std::thread::current().id()));
    fs::create_dir_all(&folder).expect("a writable folder");
    let zone =
        "$TTL 60\n@ SOA ns hostmaster 7 1 1 1 1\n@ NS ns\nns A 192.0.2.1\na NS ns.a\nb NS ns.b\nns.a A 192.0.2.2\n";
    for (name, content) in [
        ("FILE", &b"example.org SOA\nwww.example.org A\n"[..]),
        ("names", b"example.org\norg\n"),
        ("names-and-files", b"example.org org.zone\norg org.zone\n"),
        ("org.zone", zone.as_bytes()),
        ("root.pcap", &capture()),
    ] {
        fs::write(folder.join(name), content).expect("a writable folder");
    }
    folder
}

/// A capture in the pcap format of two queries for `. SOA`, 10 ms apart.
fn capture() -> Vec<u8> {
    const RAW_IP: u32 = 101;
    let dns = b"\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x06\x00\x01";
    let udp_len = 8 + dns.len() as u16;
    let mut packet = b"\x45\x00\x00\x00\x00\x00\x00\x00\x40\x11\x00\x00\xc0\x00\x02\x05\xc0\x00\x02\x01".to_vec();
    packet[2..4].copy_from_slice(&(20 + udp_len).to_be_bytes());
    packet.extend([4000u16, 53, udp_len, 0].iter().flat_map(|number| number.to_be_bytes()));
    packet.extend(dns);
    let header = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 0xffff, RAW_IP];
    let mut capture: Vec<u8> = header.iter().flat_map(|number: &u32| number.to_le_bytes()).collect();
    for microseconds in [0, 10_000] {
        let len = packet.len() as u32;
        capture.extend([1, microseconds, len, len].iter().flat_map(|number: &u32| number.to_le_bytes()));
        capture.extend(&packet);
    }
    capture
}

/// The command with smaller numbers, sent to this server.
fn adapted(command: &[String], server: &Primary) -> Vec<String> {
    let mut arguments: Vec<String> = Vec::new();
    let port = if finds_peak(command) { slow_server().into() } else { server.port };
    let port = if command.iter().any(|word| word == "tls") { server.tls_port } else { port };
    for (at, word) in command.iter().enumerate() {
        let option = at.checked_sub(1).map_or("", |before| &command[before]);
        let limit = LARGEST.iter().find(|(name, _)| *name == option).map(|(_, limit)| limit);
        arguments.push(match (option, word.parse::<f64>(), limit) {
            ("--port", ..) => port.to_string(),
            ("--server", ..) => "127.0.0.1".into(),
            ("--verify", ..) => format!("127.0.0.1:{}", server.port),
            (_, Ok(number), Some(limit)) => number.min(*limit).to_string(),
            _ => word.clone(),
        });
    }
    let has = |option: &str| command.iter().any(|word| word == option);
    if has("--server") && !has("--port") {
        arguments.extend(["--port".into(), port.to_string()]);
    }
    if TIMED.contains(&command[0].as_str()) && !command.iter().any(|word| word == "--seconds") {
        arguments.extend(["--seconds".into(), "0.3".into()]);
    }
    if finds_peak(command) {
        arguments.extend(["--rate", "200", "--resolution", "50", "--timeout-ms", "50"].map(str::to_owned));
    }
    arguments
}

/// Whether the command runs until SIGTERM.
fn is_server(command: &[String]) -> bool {
    ["xfr", "serve"] == command[..2] || ["echo", "sink"].contains(&command[0].as_str())
}

fn is_over_quic(command: &[String]) -> bool {
    command.iter().any(|word| word == "quic")
}

fn finds_peak(command: &[String]) -> bool {
    command.iter().any(|word| word == "--find-peak")
}

/// A server with a peak of 500 responses per second: that of a primary is too high to be found in a short time.
fn slow_server() -> u16 {
    const PAUSE: Duration = Duration::from_millis(2);
    let mut last = Instant::now();
    let server = udp_server::serve(move |_, _| {
        let is_due = last.elapsed() >= PAUSE;
        if is_due {
            last = Instant::now();
        }
        is_due
    });
    server.port()
}

fn program(folder: &Path, arguments: &[String]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zonda-load"));
    command.current_dir(folder).args(arguments);
    command
}

fn run(folder: &Path, arguments: &[String]) -> Output {
    program(folder, arguments).output().expect("the program was built")
}

/// A running `zonda-load xfr serve`.
struct Primary {
    _running: Running,
    port: u64,
    tls_port: u64,
}

impl Primary {
    /// Runs the command of the manual on ports that the kernel chooses.
    fn start(folder: &Path, serve: &[String], tsig: &[String]) -> Primary {
        let port = serve.iter().position(|word| word == "--port").expect("the manual names a port") + 1;
        let mut command = program(folder, &serve[..port]);
        command.arg("0").args(&serve[port + 1..]).args(["--tls-port", "0"]).args(tsig);
        let mut running = Running::start(command);
        let ready = running.next_with("msg_type", "ready");
        let number = |key: &str| ready["zonda"][key].as_u64().expect("a port");
        Primary { port: number("port"), tls_port: number("tls_port"), _running: running }
    }
}
