//! The log of a child process that aborts: the last lines are written too.

use server::config::{LogFormat, LogLevel};
use server::log::{self, Log};
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

#[test]
#[ignore = "run by panics_and_the_last_lines_are_written in a child process"]
fn child_panics() {
    Log::start(LogLevel::Error, LogFormat::Text);
    let panicked = std::thread::Builder::new().name("breaks".into()).spawn(|| panic!("on\u{1b}purpose"));
    assert!(panicked.expect("a thread").join().is_err());
    tracing::error!("last line");
    log::flush();
    std::process::abort();
}

#[test]
fn panics_and_the_last_lines_are_written() {
    let output = Command::new(std::env::current_exe().expect("a running program"))
        .args(["--exact", "child_panics", "--ignored"])
        .output()
        .expect("this program again");
    let log = String::from_utf8(output.stderr).expect("text");
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("ERROR")).collect();
    assert!(lines[0].contains("zonda has a bug") && lines[0].contains("thread=\"breaks\""), "{log}");
    assert!(lines.last().is_some_and(|line| line.contains("last line")), "{log}");
    assert!(!log.contains('\u{1b}'), "{log}");
}

/// systemd.exec(5): `$JOURNAL_STREAM` has the device and inode of standard error if that is the journal.
#[test]
fn lines_for_the_journal_begin_with_their_priority_and_have_no_time() {
    let (mut journal, stderr) = UnixStream::pair().expect("sockets");
    let stream = std::fs::metadata(format!("/proc/self/fd/{}", stderr.as_raw_fd())).expect("procfs");
    let mut child = Command::new(std::env::current_exe().expect("a running program"))
        .args(["--exact", "child_panics", "--ignored"])
        .env("JOURNAL_STREAM", format!("{}:{}", stream.dev(), stream.ino()))
        .stdout(Stdio::null())
        .stderr(OwnedFd::from(stderr))
        .spawn()
        .expect("this program again");
    let mut log = String::new();
    journal.read_to_string(&mut log).expect("text");
    child.wait().expect("it is ours");
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("ERROR")).collect();
    assert!(lines.len() >= 2 && lines.iter().all(|line| line.starts_with("<3>ERROR ")), "{log}");
}
