//! The advised rules against connection tracking, on a gateway that masquerades: a chain of namespaces, guest - gateway - outside.

use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tune::Role;
use tune::advice::Action;

use crate::synthetic::{TestHost, workload};

const NAME: &str = "firewall and connection tracking";
const TEST: &str = "notrack::forwarded_queries_are_answered_and_local_ones_are_not_tracked";
/// What the process is that runs this test in a namespace.
const ROLE: &str = "ZONDA_TUNE_TEST_ROLE";
/// The commands that are tested.
const RULES: &str = "ZONDA_TUNE_TEST_RULES";

/// The address of the gateway for its guest, and that of the resolver outside.
const GATEWAY: &str = "10.77.1.1:53";
const OUTSIDE: &str = "10.77.2.2:53";

/// Makes the guest and the outside, which the gateway masquerades for. `$1` and `$2` are processes in their namespaces.
const NETWORK: &str = "set -e
ip link set lo up
ip link add guest0 type veth peer name eth0 netns $1
ip link add up0 type veth peer name eth0 netns $2
ip addr add 10.77.1.1/24 dev guest0; ip addr add 10.77.2.1/24 dev up0; ip link set guest0 up; ip link set up0 up
nsenter -t $1 -n sh -c 'ip addr add 10.77.1.2/24 dev eth0; ip link set eth0 up; ip route add default via 10.77.1.1'
nsenter -t $2 -n sh -c 'ip addr add 10.77.2.2/24 dev eth0; ip link set eth0 up'
echo 1 > /proc/sys/net/ipv4/ip_forward
nft 'add table inet nat; add chain inet nat out { type nat hook postrouting priority srcnat; }; add rule inet nat out oifname up0 masquerade'
";

fn rules() -> String {
    let host = TestHost::recorded();
    host.write("proc/sys/net/netfilter/nf_conntrack_count", "3");
    host.row(workload(Role::Udp), NAME).advised.expect("commands")
}

#[test]
fn a_host_that_may_redirect_queries_is_left_alone() {
    let host = TestHost::recorded();
    host.write("proc/sys/net/netfilter/nf_conntrack_count", "3");
    let row = || host.row(workload(Role::Udp), NAME);
    let masquerades = "table ip nat {\n\tchain POSTROUTING {\n\t\ttype nat hook postrouting priority srcnat; policy accept;\n\t}\n}\n";
    host.write("command-output/nft_list_chains", masquerades);
    assert_eq!(row().action, Action::Set, "{}", row().why);
    host.write("proc/net/ip_tables_names", "filter\nnat\n");
    assert_eq!(row().action, Action::Leave, "{}", row().why);
    assert!(row().why.contains("table nat of iptables may redirect queries"), "{}", row().why);
    host.write("command-output/nft_list_chains", &masquerades.replace("post", "pre").replace("POST", "PRE"));
    assert!(row().why.contains("chain PREROUTING of table ip nat may redirect queries"), "{}", row().why);
    assert!(row().why.contains("fib daddr type local"), "{}", row().why);
}

#[test]
fn forwarded_queries_are_answered_and_local_ones_are_not_tracked() {
    match std::env::var(ROLE).ok().as_deref() {
        Some("gateway") => return gateway(),
        Some(address @ (GATEWAY | OUTSIDE)) => return echo(address),
        Some("guest") => return ask(),
        _ => {}
    }
    let rules = rules();
    assert!(rules.contains("fib daddr type local meta l4proto"), "{rules}");
    let arguments = ["--user", "--map-root-user", "--net", "--"];
    let possible = Command::new("unshare").args(arguments).args(["sh", "-c", "ip link && nft list ruleset"]).output();
    if !possible.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: ip or nft is not installed, or no namespace may be made here");
        return;
    }
    let mut command = Command::new("unshare");
    command.args(arguments).arg(this_test()).args(["--exact", TEST, "--nocapture"]);
    let output = command.env(ROLE, "gateway").env(RULES, rules).output().expect("unshare runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("asked both"), "{text}");
}

fn this_test() -> std::path::PathBuf {
    std::env::current_exe().expect("this test")
}

/// A process in a namespace, which ends with this test.
struct Inside(Child);

impl Drop for Inside {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// A process in a new network namespace.
fn new_namespace() -> Inside {
    let mut command = Command::new("unshare");
    command.args(["--net", "--", "sh", "-c", "echo ready; exec sleep 60"]).stdout(Stdio::piped());
    let mut child = Inside(command.spawn().expect("unshare runs"));
    let mut line = String::new();
    BufReader::new(child.0.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    child
}

/// This test in another role, in the namespace of a process if one is given.
fn in_role(role: &str, process: Option<&Inside>) -> Command {
    let mut command = match process {
        Some(process) => {
            let mut command = Command::new("nsenter");
            command.args(["-t", &process.0.id().to_string(), "-n"]).arg(this_test());
            command
        }
        None => Command::new(this_test()),
    };
    command.args(["--exact", TEST, "--nocapture"]).env(ROLE, role);
    command
}

fn gateway() {
    let (guest, outside) = (new_namespace(), new_namespace());
    let shell = |script: &str| {
        let ids = [&guest, &outside].map(|process| process.0.id().to_string());
        let output = Command::new("sh").args(["-c", script, "sh"]).args(ids).output().expect("a shell");
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    };
    shell(NETWORK);
    shell(&std::env::var(RULES).expect("the commands"));
    let _servers = [(GATEWAY, None), (OUTSIDE, Some(&outside))]
        .map(|(address, process)| Inside(in_role(address, process).spawn().expect("a server")));
    let output = in_role("guest", Some(&guest)).output().expect("a client");
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    let entries = std::fs::read_to_string("/proc/sys/net/netfilter/nf_conntrack_count").expect("connection tracking");
    assert_eq!(entries.trim(), "1", "only the forwarded query is tracked");
    println!("asked both");
}

/// Sends every datagram back.
fn echo(address: &str) {
    let socket = UdpSocket::bind(address).expect("the port");
    let mut octets = [0; 64];
    loop {
        let (len, peer) = socket.recv_from(&mut octets).expect("a datagram");
        _ = socket.send_to(&octets[..len], peer);
    }
}

/// The guest asks the gateway itself and the resolver behind it, each from one port until it answers.
fn ask() {
    for address in [GATEWAY, OUTSIDE] {
        let socket = UdpSocket::bind("0.0.0.0:0").expect("a port");
        socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a valid timeout");
        let is_answered = (0..50).any(|_| {
            _ = socket.send_to(b"query", address);
            socket.recv(&mut [0; 64]).is_ok()
        });
        assert!(is_answered, "{address} does not answer");
    }
}
