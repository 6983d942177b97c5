//! `zone-list`: one zone per line.

use std::fs;

use crate::harness::{CommandOutput, REFUSED, TestFolder};

const CONFIG: &str = "zone-list = [\"zones.list\"]\n[template.default]\nfile = \"zones/{name}.zone\"\n\
                      [template.public]\nfile = \"zones/{name}.zone\"\nallow-transfer = [\"192.0.2.0/24\"]\n";

fn folder_with_list(list: &str) -> TestFolder {
    let folder = TestFolder::new();
    folder.write("etc/zonda.toml", CONFIG);
    folder.write("etc/zones.list", list);
    folder
}

fn check(folder: &TestFolder) -> CommandOutput {
    folder.run(&["check", "--config", "etc/zonda.toml"])
}

/// Name and file of every zone that `zonda config` prints.
fn zones(folder: &TestFolder) -> serde_json::Value {
    let outcome = folder.run(&["config", "--config", "etc/zonda.toml", "--json"]);
    assert_eq!(outcome.status, 0, "{}", outcome.err);
    let mut config: serde_json::Value = serde_json::from_str(&outcome.out).expect("JSON");
    config["zone"].take()
}

#[test]
fn lists_name_zones_and_templates() {
    let expected = serde_json::json!([
        {"name": "a.example.", "file": "etc/zones/a.example.zone"},
        {"name": "b.example.", "file": "etc/zones/b.example.zone", "allow-transfer": ["192.0.2.0/24"]},
        {"name": "c#d.example.", "file": "etc/zones/c#d.example.zone"},
    ]);
    let lines = "# All zones.\n\nB.example\tpublic # secondaries may have it\n  a.example.\nc\\035d.example";
    let byte_order_mark = format!("\u{feff}{lines}");
    for list in [lines, &lines.replace('\n', "\r\n"), &format!("{lines}\n"), &byte_order_mark] {
        assert_eq!(zones(&folder_with_list(list)), expected, "{list:?}");
    }
}

#[test]
fn all_errors_of_a_list_are_reported_in_one_run() {
    let list = "a..example\n b.example pubic\nc.example default 300\nd.example\nD.EXAMPLE public\ne.example\n";
    let folder = folder_with_list(list);
    folder.write("etc/zonda.toml", &(CONFIG.to_owned() + "[[zone]]\nname = \"e.example\"\n"));
    let outcome = check(&folder);
    assert_eq!(outcome.status, 1);
    for expected in [
        "etc/zones.list:1:1: error: `a..example` is not a domain name: the name has an empty label (help: write it like example.com)",
        "etc/zones.list:2:1: error: there is no template `pubic` (help: did you mean `public`?)",
        "etc/zones.list:3:19: error: unexpected `300` (help: write one `NAME [TEMPLATE]` per line)",
        "etc/zones.list:5:1: error: zone d.example. is named twice (help: it was first named at etc/zones.list:4:1; ",
        "etc/zones.list:6:1: error: zone e.example. is named twice (help: it was first named at etc/zonda.toml:7:1; ",
    ] {
        assert!(outcome.out.contains(expected), "{expected}\nis not in\n{}", outcome.out);
    }
    assert!(outcome.out.ends_with("0 zones read, 5 errors, 0 warnings\n"), "{}", outcome.out);
}

#[test]
fn lists_that_cannot_be_read_are_errors() {
    let folder = folder_with_list("");
    fs::write(folder.path().join("etc/zones.list"), b"a.example\ncaf\xe9.example\n").expect("a file");
    let outcome = check(&folder);
    let expected = "etc/zones.list:2:4: error: this is not UTF-8 (help: save the file as UTF-8)\n";
    assert!(outcome.out.starts_with(expected), "{}", outcome.out);

    fs::remove_file(folder.path().join("etc/zones.list")).expect("it was there");
    let outcome = check(&folder);
    let expected = "etc/zonda.toml:1:14: error: `zones.list` cannot be read: No such file or directory (os error 2) \
                    (help: correct the path, or remove it from `zone-list`)\n";
    assert!(outcome.out.starts_with(expected), "{}", outcome.out);

    folder.write("etc/zonda.toml", "zone-list = [\"*.list\"]\n");
    assert_eq!(check(&folder).status, 0, "no match is not an error");
}

#[test]
fn a_pattern_that_matches_the_configuration_itself_is_an_error() {
    let folder = folder_with_list("a.example\n");
    for (key, pattern) in [("zone-list", "*"), ("zone-list", "zonda.toml"), ("include", "../etc/z*")] {
        folder.write(
            "etc/zonda.toml",
            &CONFIG.replace("zone-list = [\"zones.list\"]", &format!("{key} = [\"{pattern}\"]")),
        );
        _ = fs::remove_file(folder.path().join("etc/zones.list"));
        let path = if key == "include" { "etc/../etc/zonda.toml" } else { "etc/zonda.toml" };
        let column = key.len() + 5;
        let expected = format!(
            "etc/zonda.toml:1:{column}: error: `{pattern}` matches the configuration file {path} (help: write a pattern for \
             the files of `{key}` only, or move them to their own folder)\n0 zones read, 1 errors, 0 warnings\n"
        );
        assert_eq!(check(&folder).out, expected);
    }
    folder.write("etc/zonda.toml", "zone-list = [\"more.toml\"]\ninclude = [\"more.toml\"]\n");
    folder.write("etc/more.toml", "zone-list = [\"zonda.*\"]\n");
    let expected = "etc/more.toml:1:14: error: `zonda.*` matches the configuration file etc/zonda.toml (help: ";
    assert!(check(&folder).out.contains(expected), "{}", check(&folder).out);
    let expected = "etc/zonda.toml:1:14: error: `more.toml` matches the configuration file etc/more.toml (help: ";
    assert!(check(&folder).out.contains(expected), "also one that is read later: {}", check(&folder).out);
}

#[test]
fn a_zone_of_a_list_needs_a_template_with_a_file() {
    let folder = folder_with_list("a.example\n");
    folder.write("etc/zonda.toml", "zone-list = [\"zones.list\"]\n");
    let expected = "etc/zones.list:1:1: error: zone a.example. has no file (help: set `file` in ";
    let outcome = check(&folder);
    assert!(outcome.out.starts_with(expected) && outcome.out.contains("or `primaries` to"), "{}", outcome.out);
}

#[test]
fn included_files_may_have_their_own_lists() {
    let folder = folder_with_list("a.example\n");
    folder.write("etc/zonda.toml", &format!("include = [\"more/*.toml\"]\n{CONFIG}"));
    folder.write("etc/more/b.toml", "zone-list = [\"lists/?.txt\"]\n");
    folder.write("etc/more/lists/2.txt", "c.example\n");
    folder.write("etc/more/lists/1.txt", "b.example\n");
    let names: Vec<String> = (0..3).map(|index| zones(&folder)[index]["name"].to_string()).collect();
    assert_eq!(names, ["\"a.example.\"", "\"b.example.\"", "\"c.example.\""]);
}

#[test]
fn the_key_goes_before_the_first_table() {
    let folder = folder_with_list("");
    folder.write("etc/zonda.toml", "[server]\nzone-list = [\"zones.list\"]\n");
    let expected = "etc/zonda.toml:2:1: error: there is no key `zone-list` here \
                    (help: `zone-list` belongs before the first table)\n";
    assert!(check(&folder).out.starts_with(expected), "{}", check(&folder).out);
}

#[test]
fn zonda_check_reads_the_zones_of_a_list() {
    let folder = folder_with_list("a.example\nb.example\n");
    folder.write("etc/zones/a.example.zone", &crate::harness::zone_text(1, "192.0.2.1"));
    folder.write("etc/zones/b.example.zone", "nonsense\n");
    let outcome = check(&folder);
    assert_eq!(outcome.status, 1);
    assert!(outcome.out.starts_with("etc/zones/b.example.zone:1:"), "{}", outcome.out);
    assert!(outcome.out.contains("[zone b.example.]\n"), "{}", outcome.out);
    assert!(outcome.out.contains("2 zones read, "), "{}", outcome.out);
}

#[test]
fn a_reload_reads_lists_again() {
    let folder = folder_with_list("a.example\n");
    for (name, address) in [("a", "192.0.2.1"), ("b", "192.0.2.2")] {
        folder.write(&format!("etc/zones/{name}.example.zone"), &crate::harness::zone_text(1, address));
    }
    let daemon = folder.serve(&["--config", "etc/zonda.toml"]);
    assert!(daemon.ask("www.a.example").has("192.0.2.1"));
    folder.write("etc/zones.list", "b.example\n");
    let outcome = folder.run(&["reload", "--config", "etc/zonda.toml"]);
    assert!(outcome.out.starts_with("a.example.: removed\nb.example.: added, serial 1\n"), "{}", outcome.out);
    assert_eq!(daemon.ask("www.a.example").rcode(), REFUSED);
    assert!(daemon.ask("www.b.example").has("192.0.2.2"));

    folder.write("etc/zones.list", "b..example\n");
    let outcome = folder.run(&["reload", "--config", "etc/zonda.toml"]);
    assert!(outcome.out.starts_with("etc/zones.list:1:1: error: "), "{}", outcome.out);
    assert!(daemon.ask("www.b.example").has("192.0.2.2"), "a list with mistakes changes nothing");
}
