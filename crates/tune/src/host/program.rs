//! Runs programs that print facts about the host, for a limited time: one that asks a hanging driver may never end.

use std::io::Read;
use std::process::{ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

/// The most octets that are read of the output, which has a few hundred lines.
const MAX_OCTETS: u64 = 1 << 20;
/// How often is looked whether a program that has closed its output has ended.
const STEP: Duration = Duration::from_millis(1);

/// A program did not end in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimedOut;

/// The standard output of a program; `None` if it is missing or fails.
pub(super) fn output(program: &str, arguments: &[&str], timeout: Duration) -> Result<Option<String>, TimedOut> {
    let deadline = Instant::now() + timeout;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let Ok(mut child) = command.spawn() else { return Ok(None) };
    let Some(octets) = child.stdout.take().and_then(read) else { return Ok(None) };
    let octets = octets.recv_timeout(timeout);
    let status = octets.is_ok().then(|| wait_until(deadline, || child.try_wait().ok().flatten())).flatten();
    let Some((octets, status)) = octets.ok().zip(status) else {
        // It is not waited for: the kernel does not end a program before its call of a driver returns.
        _ = child.kill();
        return Err(TimedOut);
    };
    Ok(status.success().then(|| String::from_utf8_lossy(&octets).into_owned()))
}

/// Reads the output in a thread of its own: a child of the program may keep it open for ever.
fn read(output: ChildStdout) -> Option<Receiver<Vec<u8>>> {
    let (sender, receiver) = mpsc::channel();
    let work = move || {
        let mut octets = Vec::new();
        // What was read before an error is no complete output. Nobody receives it after the deadline.
        if output.take(MAX_OCTETS).read_to_end(&mut octets).is_ok() {
            _ = sender.send(octets);
        }
    };
    thread::Builder::new().spawn(work).ok().map(|_| receiver)
}

fn wait_until(deadline: Instant, mut ended: impl FnMut() -> Option<ExitStatus>) -> Option<ExitStatus> {
    loop {
        let status = ended();
        if status.is_some() || Instant::now() >= deadline {
            return status;
        }
        thread::sleep(STEP);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(300);
    const LONG: Duration = Duration::from_secs(60);

    fn shell(script: &str, timeout: Duration) -> Result<Option<String>, TimedOut> {
        output("sh", &["-c", script], timeout)
    }

    #[test]
    fn the_output_of_a_program_that_succeeds_is_read() {
        assert_eq!(shell("echo fact", LONG), Ok(Some("fact\n".into())));
        assert_eq!(shell("echo fact; exit 1", LONG), Ok(None));
        assert_eq!(output("no-such-program", &[], LONG), Ok(None));
    }

    #[test]
    fn a_program_that_never_ends_is_given_up() {
        // It sleeps; it has closed its output; a child of it has the output, also after the program itself has ended.
        for script in ["exec sleep 5", "exec sleep 5 >/dev/null", "sleep 5; echo fact", "sleep 5 & echo fact"] {
            let begin = Instant::now();
            assert_eq!(shell(script, SHORT), Err(TimedOut), "{script}");
            assert!(begin.elapsed() < Duration::from_secs(4), "{script}");
        }
    }

    #[test]
    fn an_output_that_never_ends_is_cut_off() {
        // The closed pipe ends `yes`, which then has failed.
        assert_eq!(shell("exec yes", LONG), Ok(None));
    }
}
