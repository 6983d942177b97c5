//! A running `zonda-load`, whose JSON lines are read one by one.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;

/// The process, killed on drop.
pub struct Running {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Running {
    pub fn start(mut command: Command) -> Running {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the program was built");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        Running { child, lines }
    }

    /// The next record with this value of `key`.
    pub fn next_with(&mut self, key: &str, value: &str) -> Value {
        let mut records = self.lines.by_ref().map(|line| parse(&line.expect("UTF-8")));
        records.find(|record| record[key] == value).unwrap_or_else(|| panic!("it ends without a {value}"))
    }

    /// Sends SIGTERM; returns the last record, which has the totals, and the exit status.
    pub fn terminate(mut self) -> (Value, Option<i32>) {
        // The shell's own `kill`, since a minimal system lacks the program.
        let status = Command::new("sh").args(["-c", &format!("kill {}", self.child.id())]).status();
        assert!(status.expect("sh runs").success());
        let sum = parse(&self.lines.by_ref().last().expect("a sum").expect("UTF-8"));
        assert_eq!(sum["type"], "stats_sum");
        (sum, self.child.wait().expect("it was started here").code())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended if it was terminated.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

fn parse(line: &str) -> Value {
    serde_json::from_str(line).expect("JSON")
}
