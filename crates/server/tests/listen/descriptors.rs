//! A server without free descriptors, in a child process.

use super::{config, connect, exchange, framed_query, is_closed, read_id, serve, tcp_totals, udp_client};
use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{ChildStderr, ChildStdin, Command, Stdio};
use std::time::Duration;

/// The child process: a server with few descriptors, controlled by the lines of its standard input.
#[test]
#[ignore = "run by old_connections_are_closed_when_descriptors_run_out in a child process"]
fn child_with_few_descriptors() {
    let (running, server) = serve(&config());
    eprintln!("{server}");
    let mut held = Vec::new();
    for line in io::stdin().lines() {
        match line.expect("text").as_str() {
            "exhaust" => held.extend(std::iter::from_fn(|| std::fs::File::open("/dev/null").ok())),
            "release" => held.clear(),
            other => panic!("unknown command {other}"),
        }
        let totals = tcp_totals(&running);
        eprintln!("{} {} {}", totals.connections, totals.evicted, totals.starved);
    }
    running.stop();
}

struct Child {
    process: std::process::Child,
    commands: ChildStdin,
    replies: BufReader<ChildStderr>,
}

impl Child {
    fn start(descriptors: u32) -> Child {
        let mut process = Command::new("sh")
            .args(["-c", &format!("ulimit -n {descriptors}; exec \"$0\" \"$@\"")])
            .arg(std::env::current_exe().expect("a running program"))
            .args([
                "--exact",
                "descriptors::child_with_few_descriptors",
                "--ignored",
                "--nocapture",
                "--test-threads=1",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a shell");
        let commands = process.stdin.take().expect("a pipe");
        let replies = BufReader::new(process.stderr.take().expect("a pipe"));
        Child { process, commands, replies }
    }

    fn reply(&mut self) -> String {
        let mut line = String::new();
        self.replies.read_line(&mut line).expect("text");
        line.trim_end().to_owned()
    }

    /// Sends a command; returns the counters `connections`, `evicted` and `starved`.
    fn command(&mut self, command: &str) -> [u64; 3] {
        writeln!(self.commands, "{command}").expect("the child runs");
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
        drop(self.commands);
        assert!(self.process.wait().expect("a child").success());
    }
}

#[test]
fn old_connections_are_closed_when_descriptors_run_out() {
    let mut child = Child::start(40);
    let server: SocketAddr = child.reply().parse().expect("the address it serves");
    let mut streams = Vec::new();
    for id in 0..100 {
        streams.push(connect(server));
        assert_eq!(exchange(&mut streams[usize::from(id)], id).expect("an answer"), id);
    }
    assert!(is_closed(&mut streams[0]) && exchange(&mut streams[99], 2).is_ok());
    let datagrams = udp_client(server);
    datagrams.send(&framed_query(1, 0)[2..]).expect("loopback");
    datagrams.recv(&mut [0; 64]).expect("UDP is still served");
    drop(streams);
    let [connections, evicted, starved] = child.command("release");
    assert!(connections == 100 && evicted >= 60 && starved == 0, "{connections} {evicted} {starved}");
    child.end();
}

/// Other code of the process has all descriptors: the server waits for them without spinning.
#[test]
fn the_listener_waits_without_spinning_for_descriptors() {
    let mut child = Child::start(40);
    let server: SocketAddr = child.reply().parse().expect("the address it serves");
    child.command("exhaust");
    let mut stream = connect(server);
    stream.write_all(&framed_query(1, 0)).expect("loopback");
    let busy = child.processor_time();
    std::thread::sleep(Duration::from_millis(500));
    let busy = child.processor_time() - busy;
    let [connections, _, starved] = child.command("release");
    assert!(connections == 0 && (1..=8).contains(&starved), "{connections} {starved}");
    assert!(busy < Duration::from_millis(100), "the server spins: {busy:?}");
    assert_eq!(read_id(&mut stream).expect("an answer as soon as there are descriptors"), 1);
    child.end();
}
