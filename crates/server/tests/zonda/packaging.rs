//! What `make install` installs: the layout that the manual lists, the unit, the first configuration, the alerts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Parser;

use crate::harness::{SERVFAIL, TestFolder, report_skipped};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(name: &str) -> String {
    fs::read_to_string(workspace().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The files below a folder, with paths that start there.
fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else { return found };
    for entry in entries {
        let entry = entry.expect("an entry");
        let name = entry.file_name().into_string().expect("text");
        match entry.path().is_dir() {
            true => found.extend(files(&entry.path()).iter().map(|file| format!("{name}/{file}"))),
            false => found.push(name),
        }
    }
    found.sort();
    found
}

/// Runs a target of the Makefile with the programs of this build.
fn make(target: &str, into: &Path, zonda: &str, load: &Path) {
    let mut command = Command::new("make");
    command.args(["--old-file", zonda, target, "PREFIX=/opt/zonda"]).current_dir(workspace()).env_remove("MAKEFLAGS");
    command.args([format!("ZONDA={zonda}"), format!("LOAD={}", load.display()), format!("DESTDIR={}", into.display())]);
    let output = command.output().expect("make runs");
    assert!(output.status.success(), "make {target}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn make_install_has_the_documented_layout_and_make_uninstall_removes_it() {
    let zonda = env!("CARGO_BIN_EXE_zonda");
    let load = Path::new(zonda).with_file_name("zonda-load");
    if !load.exists() || Command::new("make").arg("--version").output().is_err() {
        return report_skipped("make or zonda-load is not there");
    }
    let folder = TestFolder::new();
    make("install", folder.path(), zonda, &load);
    let installed = files(&folder.path().join("opt/zonda"));
    for expected in ["share/man/man1/zonda-serve.1", "share/man/man1/zonda-load.1", "share/man/man5/zonda.toml.5"] {
        assert!(installed.iter().any(|file| file == expected), "{expected} is not in {installed:?}");
    }
    let manual = read("docs/manual/operations.md");
    let (_, table) = manual.split_once("| below `/usr/local` |").expect("the table");
    let cells = table.lines().skip(2).map_while(|line| line.strip_prefix("| ")?.split(" | ").next());
    let documented: Vec<&str> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    let is_below =
        |file: &str, place: &str| file.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    for file in &installed {
        assert!(documented.iter().any(|place| is_below(file, place)), "{file} is not in the manual");
    }
    for place in documented {
        assert!(installed.iter().any(|file| is_below(file, place)), "{place} is not installed: {installed:?}");
    }
    let unit = folder.read("opt/zonda/lib/systemd/system/zonda.service");
    assert!(unit.contains("ExecStart=/opt/zonda/bin/zonda serve") && !unit.contains("/usr/local"), "{unit}");
    make("uninstall", folder.path(), zonda, &load);
    assert_eq!(files(folder.path()), [] as [&str; 0]);
}

/// The value of a key of the unit.
fn unit_value<'u>(unit: &'u str, key: &str) -> &'u str {
    let value = unit.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    value.unwrap_or_else(|| panic!("the unit has no {key}"))
}

#[test]
fn the_unit_runs_commands_that_exist_as_the_user_that_is_made() {
    let unit = read("packaging/zonda.service");
    for key in ["ExecStart", "ExecReload"] {
        let command = unit_value(&unit, key).strip_prefix("/usr/local/bin/").expect("where it is installed");
        let parsed = server::cli::Cli::try_parse_from(command.split_whitespace());
        assert!(parsed.is_ok(), "{command}: {:?}", parsed.err());
    }
    let user = unit_value(&unit, "User");
    assert!(read("packaging/zonda.sysusers").contains(&format!("\nu {user} ")));
    // What the manual says about the unit.
    let manual = read("docs/manual/operations.md");
    let (_, section) = manual.split_once("\n## systemd\n").expect("the section");
    let (section, _) = section.split_once("\n## ").expect("the next one");
    let settings =
        section.split('`').skip(1).step_by(2).filter(|text| text.contains("=yes") || text.contains("=strict"));
    let settings: Vec<&str> = settings.collect();
    assert!(!settings.is_empty());
    for setting in settings {
        assert!(unit.lines().any(|line| line == setting), "{setting} is not in the unit");
    }
}

#[test]
fn systemd_accepts_the_unit() {
    let folder = TestFolder::new();
    let unit = read("packaging/zonda.service").replace("/usr/local/bin/zonda", env!("CARGO_BIN_EXE_zonda"));
    let path = folder.write("zonda.service", &unit);
    let Ok(output) = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(path).output() else {
        return report_skipped("systemd-analyze is not installed");
    };
    let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(!said.contains("zonda.service"), "{said}");
}

#[test]
fn the_first_configuration_passes_as_it_is_and_with_its_examples() {
    let folder = TestFolder::new();
    let text = read("packaging/zonda.toml");
    assert_eq!(unit_value(&read("packaging/zonda.service"), "StateDirectory"), "zonda");
    assert!(text.contains("\nstate-dir = \"/var/lib/zonda\"\n"));
    // The comments that are examples: keys and tables.
    let example = |line: &str| match line.strip_prefix("# ") {
        Some(code) if code.starts_with('[') || code.split(' ').nth(1) == Some("=") => code.to_owned(),
        _ => line.to_owned(),
    };
    let with_examples: Vec<String> = text.lines().map(example).collect();
    folder.write_zone("example.com", 1, "192.0.2.1");
    for (text, zones) in [(text.clone(), 0), (with_examples.join("\n"), 1)] {
        folder.write("zonda.toml", &text);
        let outcome = folder.run_with_config(&["check"]);
        assert_eq!((outcome.status, outcome.out), (0, format!("{zones} zones read, 0 errors, 0 warnings\n")), "{text}");
    }
}

/// The alerts of `zonda.rules.yml`: names and expressions.
fn alerts(rules: &str) -> Vec<(&str, &str)> {
    let values =
        |key: &'static str| rules.lines().filter_map(move |line| line.trim_start_matches(['-', ' ']).strip_prefix(key));
    values("alert: ").zip(values("expr: ")).collect()
}

/// The metrics of zonda in an expression, each with its label: `zonda_zones`, `state="expired"`.
fn metrics(expression: &str) -> impl Iterator<Item = (&str, &str)> {
    expression.match_indices("zonda_").map(|(at, _)| {
        let rest = &expression[at..];
        let end = rest.find(|letter: char| !letter.is_ascii_lowercase() && letter != '_').unwrap_or(rest.len());
        let label = rest[end..].strip_prefix('{').and_then(|labels| labels.split('}').next()).unwrap_or_default();
        (&rest[..end], label)
    })
}

#[test]
fn alerts_are_in_the_manual_and_use_metrics_that_exist() {
    let folder = TestFolder::new();
    folder.write_zone("good.example", 1, "192.0.2.1");
    folder.write("zones/bad.example.zone", "nonsense\n");
    let daemon = folder.serve(&["zones"]);
    assert_eq!(daemon.ask("www.bad.example").rcode(), SERVFAIL);
    let state_dir = folder.path().join("state/zonda");
    let printed = folder.run(&["metrics", "--state-dir", state_dir.to_str().expect("a path")]).out;
    let (rules, manual) = (read("packaging/zonda.rules.yml"), read("docs/manual/operations.md"));
    let alerts = alerts(&rules);
    assert!(alerts.len() > 8 && rules.matches("alert:").count() == alerts.len());
    for (alert, expression) in alerts {
        assert!(manual.contains(&format!("| `{alert}`: `{expression}`")), "{alert} is not in the manual like this");
        for (metric, label) in metrics(expression) {
            let has = |line: &str| {
                line.strip_prefix(metric).is_some_and(|rest| rest.starts_with(['{', ' ']) && rest.contains(label))
            };
            assert!(printed.lines().any(has), "{alert}: there is no {metric} with {label}");
        }
    }
}

#[test]
fn prometheus_accepts_the_alerts() {
    let rules = workspace().join("packaging/zonda.rules.yml");
    let Ok(output) = Command::new("promtool").args(["check", "rules"]).arg(rules).output() else {
        return report_skipped("promtool is not installed");
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
