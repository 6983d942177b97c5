//! Configurations with very many mistakes, and mistakes of any length: reported in linear time, in short messages.

use std::fs;
use std::path::Path;

use server::config::reader::ConfigReader;
use zone::Finding;

use crate::harness::TestFolder;

const COUNT: usize = 100_000;

/// Each case takes less than half a second. Searching the text for the position of every mistake took 9 to 60 s.
const MAX_CPU_S: f64 = 5.0;

/// CPU time of this thread (`proc_pid_schedstat`): other than elapsed time, it does not depend on the load of the machine.
fn cpu_s() -> f64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").expect("procfs");
    text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).expect("nanoseconds") / 1e9
}

/// The errors of `zonda.toml` in this folder.
fn errors(folder: &Path) -> Vec<Finding> {
    let mut reader = ConfigReader::default();
    reader.read_file(&folder.join("zonda.toml"));
    reader.finish().expect_err("there are mistakes")
}

fn repeated(line: impl Fn(usize) -> String) -> String {
    (0..COUNT).map(line).collect()
}

/// What is wrong, `zonda.toml`, the line of the first mistake, and its message.
fn cases() -> [(&'static str, String, u32, &'static str); 8] {
    let templates = repeated(|n| format!("[template.t{n}]\n"));
    let listed = "zone-list = [\"zones.list\"]\n".to_owned();
    [
        (
            "keys",
            "[server]\n".to_owned() + &repeated(|n| format!("k{n:06} = 1\n")),
            2,
            "there is no key `k000000` here",
        ),
        (
            "entries",
            format!("[server]\nlisten = [\n{}]\n", repeated(|_| "\"here\",\n".into())),
            3,
            "`listen`: `here` is not an address with an optional port",
        ),
        ("syntax", repeated(|_| "= 1\n".into()), 1, "unquoted keys cannot be empty"),
        (
            "values in a block",
            "[template]\n".to_owned() + &repeated(|n| format!("t{n:06} = 1\n")),
            2,
            "a template is a table",
        ),
        ("zones without names", repeated(|_| "[[zone]]\nfile = \"x\"\n".into()), 1, "this zone has no name"),
        (
            "zones that are named twice",
            repeated(|_| "[[zone]]\nname = \"a\"\nfile = \"x\"\n".into()),
            4,
            "zone a. is named twice",
        ),
        (
            "templates that do not exist",
            templates + &repeated(|n| format!("[[zone]]\nname = \"z{n:06}\"\ntemplate = \"x{n:06}\"\nfile = \"x\"\n")),
            100_001,
            "there is no template `x000000`",
        ),
        ("lines of a list", listed, 1, "`a..b` is not a domain name: the name has an empty label"),
    ]
}

#[test]
fn very_many_mistakes_are_reported_in_linear_time() {
    for (what, text, line, message) in cases() {
        let folder = TestFolder::new();
        folder.write("zonda.toml", &text);
        folder.write("zones.list", &repeated(|_| "a..b\n".into()));
        let begin = cpu_s();
        let errors = errors(folder.path());
        let seconds = cpu_s() - begin;
        assert!(seconds < MAX_CPU_S, "{what}: {seconds} s of CPU time");
        let first = errors.iter().find(|error| error.position.line > 0).expect("a position");
        assert_eq!(first.position.line, line, "{what}: {first}");
        assert!(first.message.starts_with(message), "{what}: {first}");
        assert!(errors.iter().any(|error| error.message.ends_with("more errors are not listed")), "{what}");
    }
}

#[test]
fn a_missing_template_is_one_mistake() {
    let folder = TestFolder::new();
    folder.write("zones.list", &("# none\n".to_owned() + &repeated(|n| format!("z{n:06}.example pubic\n"))));
    folder.write("zonda.toml", "zone-list = [\"zones.list\"]\n[template.public]\nfile = \"{name}.zone\"\n");
    let begin = cpu_s();
    let errors = errors(folder.path());
    assert!(cpu_s() - begin < MAX_CPU_S);
    let [Finding { position, message, help, .. }] = &errors[..] else { panic!("{errors:?}") };
    assert_eq!(position.line, 2);
    assert_eq!(message, "there is no template `pubic` (100000 zones name it)");
    assert_eq!(help, "did you mean `public`?");
}

#[test]
fn messages_quote_the_start_of_long_words() {
    let long = "\u{7f}".repeat(1 << 20);
    let escaped = format!("\"{}\"", "\\u007f".repeat(1 << 20));
    let folder = TestFolder::new();
    folder.write("zones.list", &format!("a.example {long}\nb.example default {long}\n{long}\n"));
    folder.write(
        "zonda.toml",
        &format!(
            "zone-list = [\"zones.list\", {escaped}]\ninclude = [{escaped}]\n{escaped} = 1\n[server]\nlisten = [{escaped}]\n\
             log-level = {escaped}\nnsid = {escaped}\nuser = {escaped}\ncookie-secrets = [{escaped}]\n\
             [template]\n{escaped} = 1\n[[zone]]\nname = {escaped}\n[[zone]]\nname = \"c.example\"\nchecks = {escaped}\n\
             allow-transfer = [{escaped}]\nfile = {escaped}\ntemplate = \"x\"\n{escaped} = 1\n[template.{escaped}]\n[template.{escaped}]\n"
        ),
    );
    let errors = errors(folder.path());
    assert!(errors.len() >= 16, "{}", errors.len());
    for error in &errors {
        let text = error.to_string();
        assert!(text.len() < 2000, "{} octets: {}", text.len(), &text[..300]);
        assert!(!text.contains('\u{7f}'), "{text:?}");
    }
    assert!(errors.iter().any(|error| error.message.contains(&format!("`{}…`", "\\u{7f}".repeat(64)))));
}
