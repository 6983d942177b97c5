//! Threads without which the daemon must not go on: a panic of one of them ends the process, so that systemd starts it again.

use std::{io, process, thread};

use tracing::error;

use crate::log;

/// Starts a thread whose panic ends the process.
pub fn spawn(name: &'static str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let guarded = move || {
        let _guard = PanicGuard(name);
        work();
    };
    thread::Builder::new().name(name.into()).spawn(guarded).map(drop)
}

/// Ends the process with a failure: without this thread, zones would be served past their expiry, and no change of a zone would arrive.
pub fn abort(thread: &str) -> ! {
    error!(thread, "zonda ends, as it cannot go on without this thread");
    log::flush();
    process::abort();
}

/// Aborts when its thread panics. The panic itself was logged when it happened.
struct PanicGuard(&'static str);

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if thread::panicking() {
            abort(self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    /// What the thread does in the process that the test runs.
    const WORK: &str = "ZONDA_TEST_ESSENTIAL_THREAD";
    const SIGABRT: i32 = 6;

    /// Runs the test below once more, in a process of its own.
    fn run(work: &str) -> process::ExitStatus {
        let program = std::env::current_exe().expect("a test program");
        let mut command = Command::new("sh");
        // Without a core dump.
        command.args(["-c", "ulimit -c 0; exec \"$0\" \"$@\""]).arg(program).env(WORK, work);
        let test = "essential_thread::tests::a_panic_of_an_essential_thread_ends_the_process";
        command.args(["--exact", test]).output().expect("it is there").status
    }

    #[test]
    fn a_panic_of_an_essential_thread_ends_the_process() {
        let Ok(work) = std::env::var(WORK) else {
            assert_eq!(run("panic").signal(), Some(SIGABRT));
            assert!(run("end").success());
            return;
        };
        let (sender, ended) = channel::<()>();
        let work = move || {
            let _sender = sender;
            assert_ne!(work, "panic");
        };
        spawn("test", work).expect("a thread");
        assert!(ended.recv().is_err());
        // The guard is dropped after what the thread has.
        thread::sleep(Duration::from_millis(200));
    }
}
