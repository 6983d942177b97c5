//! Generated manual pages, reference and completions are up to date, and the commands in documents work.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::Parser;
use wire::message::{Message, Rcode};
use wire::{Class, Name, Rtype};

use crate::harness::{Daemon, TestFolder, report_skipped, uninterrupted};

const PATIENCE: Duration = Duration::from_secs(10);

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn the_generated_files_are_up_to_date() {
    let folder = TestFolder::new();
    let pages = folder.run(&["man", "--list"]).out;
    let mut files: Vec<(String, String)> = Vec::new();
    for page in pages.lines() {
        files.push((format!("packaging/man/{page}"), folder.run(&["man", page]).out));
    }
    for shell in ["bash", "zsh", "fish"] {
        files.push((format!("packaging/completions/zonda.{shell}"), folder.run(&["completions", shell]).out));
    }
    files.push(("docs/manual/zonda.toml.md".into(), folder.run(&["man", "--markdown"]).out));
    files.push(("docs/manual/checks.md".into(), folder.run(&["check", "--list"]).out));
    files.push(("docs/manual/tuning.md".into(), folder.run(&["tune", "--list"]).out));
    let kept_pages = fs::read_dir(workspace().join("packaging/man")).expect("the manual pages").count();
    assert_eq!(pages.lines().count(), kept_pages, "a page of packaging/man is not generated, or is missing");
    for (file, expected) in files {
        let found = fs::read_to_string(workspace().join(&file)).unwrap_or_default();
        assert!(expected.len() > 300, "{file}: {expected}");
        assert!(found == expected, "{file} is stale: run `make man`");
    }
}

#[test]
fn pages_have_short_names() {
    let folder = TestFolder::new();
    assert_eq!(folder.run(&["man"]).out, folder.run(&["man", "zonda.1"]).out);
    assert_eq!(folder.run(&["man", "serve"]).out, folder.run(&["man", "zonda-serve.1"]).out);
    assert_eq!(folder.run(&["man", "zonda.toml"]).out, folder.run(&["man", "zonda.toml.5"]).out);
    let outcome = folder.run(&["man", "dance"]);
    assert_eq!(outcome.status, 1);
    assert!(outcome.err.contains("there is no page dance"), "{}", outcome.err);
}

#[test]
fn commands_in_documents_exist() {
    let mut count = 0;
    for file in ["README.md", "docs/manual/zonda.md", "docs/manual/operations.md", "docs/manual/tuning.md"] {
        let text = fs::read_to_string(workspace().join(file)).expect("the document");
        // Every second part is between fences.
        for command in text.split("```").skip(1).step_by(2).flat_map(str::lines).filter_map(command) {
            count += 1;
            let parsed = server::cli::Cli::try_parse_from(&command);
            assert!(
                parsed.is_ok(),
                "{file}: {command:?}: {}",
                parsed.err().map_or_else(String::new, |e| e.to_string())
            );
        }
    }
    assert!(count >= 40, "only {count} commands were found");
}

/// The words of a line, if it is a `zonda` command.
fn command(line: &str) -> Option<Vec<String>> {
    let line = line.split('#').next()?.trim();
    let line = line.strip_prefix("sudo ").unwrap_or(line);
    line.starts_with("zonda ").then(|| line.split_whitespace().map(|word| word.trim_matches('\'').to_owned()).collect())
}

/// The fenced code blocks, each with its language and lines.
fn blocks(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split("```").skip(1).step_by(2).filter_map(|block| block.split_once('\n'))
}

#[test]
fn the_commands_of_the_manual_succeed() {
    let text = fs::read_to_string(workspace().join("docs/manual/zonda.md")).expect("the manual");
    let folder = TestFolder::new();
    let mut runner = ManualRunner { folder: &folder, daemon: None, count: 0, is_not_updated: false };
    for (language, lines) in blocks(&text) {
        match language {
            // The first line is a comment that names the file.
            "toml" | "dns" | "conf" => {
                let name = lines.lines().next().expect("a name").trim_start_matches(['#', ';', ' ']);
                assert!(name.contains('.') && !name.contains([' ', '[']), "the block does not name its file: {name}");
                folder.write(name, lines);
            }
            "sh" => lines.lines().for_each(|line| runner.follow(line)),
            _ => (),
        }
    }
    assert!(runner.count >= 15, "only {} commands were run", runner.count);
}

/// Runs the commands of the manual in their order; `serve` on another port.
struct ManualRunner<'b> {
    folder: &'b TestFolder,
    daemon: Option<Daemon>,
    count: usize,
    /// `nsupdate` is not installed.
    is_not_updated: bool,
}

impl ManualRunner<'_> {
    /// Runs `nsupdate` with a script, in which the port is replaced.
    fn update(&mut self, key: &str, script: &str) {
        let server = self.daemon.as_ref().expect("a server runs").address;
        let text = fs::read_to_string(self.folder.path().join(script)).expect("it is in the manual");
        self.folder.write(script, &text.replace("127.0.0.1 5300", &format!("127.0.0.1 {}", server.port())));
        let updated = Command::new("nsupdate").args(["-k", key, script]).current_dir(self.folder.path()).output();
        match updated {
            Ok(output) => assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr)),
            Err(_) => {
                report_skipped("nsupdate is not installed");
                self.is_not_updated = true;
            }
        }
    }

    fn follow(&mut self, line: &str) {
        let (typed, comment) = line.split_once('#').unwrap_or((line, ""));
        let words: Vec<&str> = typed.split_whitespace().map(|word| word.trim_matches('\'')).collect();
        self.count += 1;
        match words[..] {
            ["zonda", "serve", ref arguments @ ..] => {
                self.daemon = None;
                self.daemon = Some(self.folder.serve(&without_option(arguments, "--listen")));
            }
            ["zonda", ref arguments @ ..] => {
                let expected =
                    comment.trim().strip_prefix("exit status ").map_or(0, |it| it.parse().expect("a number"));
                let outcome = self.folder.run(arguments);
                assert_eq!(outcome.status, expected, "{line}: {}{}", outcome.out, outcome.err);
            }
            ["dig", "@127.0.0.1", "-p", "5300", name, ..] if self.is_not_updated && !name.starts_with("www") => {}
            ["dig", "@127.0.0.1", "-p", "5300", name, qtype, ref class @ ..] => {
                let daemon = self.daemon.as_ref().unwrap_or_else(|| panic!("{line}: no server is running"));
                let answer = dig(daemon.address, name, qtype, class.first().copied());
                assert!(answer.rcode == Rcode::NOERROR && !answer.answer.is_empty(), "{line}: {answer:?}");
            }
            ["nsupdate", "-k", key, script] => self.update(key, script),
            _ => panic!("{line}: this command cannot be tested"),
        }
    }
}

fn without_option<'a>(words: &[&'a str], option: &str) -> Vec<&'a str> {
    let is_value = |at: usize| at > 0 && words[at - 1] == option;
    (0..words.len()).filter(|&at| words[at] != option && !is_value(at)).map(|at| words[at]).collect()
}

/// The response to a query; the first message of a transfer, over TCP.
fn dig(server: SocketAddr, name: &str, qtype: &str, class: Option<&str>) -> Message {
    let name: Name = format!("{name}.").parse().expect("a name");
    let mut query = Message::query(name, qtype.parse().expect("a type"));
    query.questions[0].qclass = class.map_or(Class::IN, |class| class.parse().expect("a class"));
    let answer = match query.questions[0].qtype {
        Rtype::AXFR => over_tcp(server, &query.to_wire()),
        _ => over_udp(server, &query.to_wire()),
    };
    Message::parse(&answer).expect("a well-formed answer")
}

fn over_udp(server: SocketAddr, query: &[u8]) -> Vec<u8> {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    socket.send_to(query, server).expect("loopback");
    let mut answer = vec![0; 4096];
    let len = uninterrupted(|| socket.recv(&mut answer)).expect("an answer");
    answer.truncate(len);
    answer
}

fn over_tcp(server: SocketAddr, query: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(server).expect("loopback");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let len = u16::try_from(query.len()).expect("a short query");
    stream.write_all(&[&len.to_be_bytes(), query].concat()).expect("the server reads");
    let mut len = [0; 2];
    stream.read_exact(&mut len).expect("an answer");
    let mut answer = vec![0; u16::from_be_bytes(len).into()];
    stream.read_exact(&mut answer).expect("all of it");
    answer
}

#[test]
fn the_examples_pass_zonda_check() {
    let folder = TestFolder::new();
    let config = workspace().join("examples/zonda.toml");
    let outcome = folder.run(&["check", "--config", config.to_str().expect("a path")]);
    assert_eq!(outcome.status, 0, "{}", outcome.out);
    assert_eq!(outcome.out, "3 zones read, 0 errors, 0 warnings\n");
}
