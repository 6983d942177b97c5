//! What is generated: manual pages, the reference, completions. And that the documents tell commands that exist.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;

use crate::bench::Bench;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn the_generated_files_are_fresh() {
    let bench = Bench::new();
    let pages = bench.run(&["man", "--list"]).out;
    let mut files: Vec<(String, String)> = Vec::new();
    for page in pages.lines() {
        files.push((format!("packaging/man/{page}"), bench.run(&["man", page]).out));
    }
    for shell in ["bash", "zsh", "fish"] {
        files.push((format!("packaging/completions/zonda.{shell}"), bench.run(&["completions", shell]).out));
    }
    files.push(("docs/manual/zonda.toml.md".into(), bench.run(&["man", "--markdown"]).out));
    assert_eq!(files.len(), 12);
    for (file, expected) in files {
        let found = fs::read_to_string(workspace().join(&file)).unwrap_or_default();
        assert!(expected.len() > 300, "{file}: {expected}");
        assert!(found == expected, "{file} is stale: run `make man`");
    }
}

#[test]
fn pages_go_by_short_names_too() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["man"]).out, bench.run(&["man", "zonda.1"]).out);
    assert_eq!(bench.run(&["man", "serve"]).out, bench.run(&["man", "zonda-serve.1"]).out);
    assert_eq!(bench.run(&["man", "zonda.toml"]).out, bench.run(&["man", "zonda.toml.5"]).out);
    let outcome = bench.run(&["man", "dance"]);
    assert_eq!(outcome.status, 1);
    assert!(outcome.err.contains("there is no page dance"), "{}", outcome.err);
}

#[test]
fn the_documents_tell_commands_that_exist() {
    let mut count = 0;
    for file in ["README.md", "docs/manual/zonda.md"] {
        let text = fs::read_to_string(workspace().join(file)).expect("the document");
        // Every second part stands between fences.
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
    assert!(count >= 6, "only {count} commands were found");
}

/// The words of a line that is a `zonda` command.
fn command(line: &str) -> Option<Vec<String>> {
    let line = line.trim().strip_prefix("ExecStart=/usr/local/bin/").unwrap_or(line.trim());
    let line = line.split('#').next()?.trim();
    line.starts_with("zonda ").then(|| line.split_whitespace().map(|word| word.trim_matches('\'').to_owned()).collect())
}

#[test]
fn the_examples_have_no_mistakes() {
    let bench = Bench::new();
    let config = workspace().join("examples/zonda.toml");
    let outcome = bench.run(&["check", "--config", config.to_str().expect("a path")]);
    assert_eq!(outcome.status, 0, "{}", outcome.out);
    assert_eq!(outcome.out, "3 zones read, 0 errors, 0 warnings\n");
}
