//! What a server does that is out of descriptors, in a process of its own.

use super::{ask, connect, framed, is_closed, options, read_id, serve, udp_client};
use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{ChildStderr, ChildStdin, Command, Stdio};
use std::time::Duration;

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
