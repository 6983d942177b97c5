//! The reference of all keys, from the key table: the manual page zonda.toml(5), and Markdown.

use std::fmt::Write;

use super::key_spec::{EffectiveAfter, KeySpec, KeyTable};
use super::keys::{Server, TopLevelKeys, TsigKeyTable, ZoneKeys};

const INTRODUCTION: &str = "\
`zonda serve` reads a TOML file: the one that `--config` names, else the first that exists of \
`$XDG_CONFIG_HOME/zonda/zonda.toml` (or `~/.config/zonda/zonda.toml`) and `/etc/zonda/zonda.toml`.

An unknown key is an error. `zonda check` finds all mistakes in one run; `zonda config` prints the effective configuration. \
Relative paths start at the folder of the file that contains them.

SIGHUP and `zonda reload` read the files again. If there are mistakes, nothing changes, but a certificate or key that cannot be used only keeps its predecessor in use. \
A changed key takes effect at once, unless its description says that it needs a restart; `zonda reload` names the keys that wait for one.";

const EXAMPLE: &str = r#"include = ["zones.d/*.toml"]

[server]
listen = ["192.0.2.1", "[2001:db8::1]:53"]
state-dir = "/var/lib/zonda"
user = "zonda"
nsid = "ns1.example.net"

[template.default]
file = "zones/{name}.zone"
allow-transfer = ["192.0.2.2", "2001:db8:1::/48"]

[[zone]]
name = "example.com"

[[zone]]
name = "example.net"
file = "elsewhere/example.net.signed"
"#;

/// A part of the reference: heading, introduction, keys.
struct Chapter {
    heading: &'static str,
    about: &'static str,
    keys: &'static [KeySpec],
}

const CHAPTERS: [Chapter; 4] = [
    Chapter { heading: "Before the first table", about: "", keys: TopLevelKeys::KEYS },
    Chapter { heading: "[server]", about: "Listeners, limits, logs.", keys: Server::KEYS },
    Chapter {
        heading: "[[zone]] and [template.NAME]",
        about: "Each zone has a `[[zone]]` table, or a line in a file of `zone-list`. A `[template.NAME]` table sets \
                keys for many zones. The value of a key is that of the zone's table, else that of its template \
                (`[template.default]` if it names none), else the default.",
        keys: ZoneKeys::KEYS,
    },
    Chapter {
        heading: "[[key]]",
        about: "Each secret shared with other servers and clients (TSIG, RFC 8945) has a `[[key]]` table. Zones refer to it by its \
                name. To replace a key without a gap, define the new one on both sides, use it, and then remove the old one.",
        keys: TsigKeyTable::KEYS,
    },
];

/// The reference as Markdown.
pub fn markdown() -> String {
    let mut out = format!("# zonda.toml: the configuration of zonda\n\n{INTRODUCTION}\n\n```toml\n{EXAMPLE}```\n");
    for chapter in &CHAPTERS {
        _ = write!(out, "\n## {}\n", chapter.heading);
        if !chapter.about.is_empty() {
            _ = write!(out, "\n{}\n", chapter.about);
        }
        for key in chapter.keys {
            _ = write!(out, "\n### `{}`\n\n{}\n", key.name, paragraphs(key.doc).join("\n\n"));
            _ = write!(out, "\n{}\n", facts(key));
        }
    }
    out
}

/// The manual page zonda.toml(5): the Markdown in roff.
pub fn man() -> String {
    let mut out = String::from(
        ".TH zonda.toml 5 \"\" zonda \"File formats\"\n.SH NAME\nzonda.toml \\- the configuration of zonda\n.SH DESCRIPTION\n",
    );
    for line in markdown().lines().skip(2) {
        _ = match line.split_once(' ') {
            _ if line.is_empty() => writeln!(out, ".PP"),
            _ if line == "```toml" => writeln!(out, ".nf"),
            _ if line == "```" => writeln!(out, ".fi"),
            Some(("##", heading)) => writeln!(out, ".SH {}", roff(heading)),
            Some(("###", heading)) => writeln!(out, ".SS {}", roff(heading)),
            _ => writeln!(out, "{}", roff(line)),
        };
    }
    out + ".SH SEE ALSO\n.BR zonda (1)\n"
}

/// Type, default and when a change takes effect, as one paragraph.
fn facts(key: &KeySpec) -> String {
    let default = match key.default {
        "" => "Default: not set.".into(),
        default => format!("Default: `{default}`."),
    };
    let restart = match key.effective_after {
        EffectiveAfter::Reload => "",
        EffectiveAfter::Restart => " A change takes effect after a restart.",
    };
    format!("Value: {}. {default}{restart}", (key.expected)())
}

/// The paragraphs of documentation, each on one line.
pub(super) fn paragraphs(doc: &str) -> Vec<String> {
    let mut paragraphs = vec![String::new()];
    for line in doc.lines().map(str::trim) {
        let last = paragraphs.last_mut().expect("there is always one");
        match line {
            "" if last.is_empty() => (),
            "" => paragraphs.push(String::new()),
            line if last.is_empty() => last.push_str(line),
            line => _ = write!(last, " {line}"),
        }
    }
    paragraphs.retain(|paragraph| !paragraph.is_empty());
    paragraphs
}

/// A line with roff commands escaped, and text between backquotes in bold.
fn roff(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut is_bold = false;
    for (at, character) in line.char_indices() {
        match character {
            '\\' => out.push_str("\\e"),
            '-' => out.push_str("\\-"),
            '.' | '\'' if at == 0 => _ = write!(out, "\\&{character}"),
            '~' => out.push_str("\\(ti"),
            '`' => {
                is_bold = !is_bold;
                out.push_str(if is_bold { "\\fB" } else { "\\fR" });
            }
            _ => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_a_summary() {
        for key in CHAPTERS.iter().flat_map(|chapter| chapter.keys) {
            let first = paragraphs(key.doc).swap_remove(0);
            assert!(first.len() > 10, "{}: {first}", key.name);
        }
    }

    #[test]
    fn roff_is_escaped() {
        assert_eq!(roff(".a `b-c` \\"), "\\&.a \\fBb\\-c\\fR \\e");
    }

    #[test]
    fn the_example_is_a_configuration() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("zonda.toml");
        std::fs::write(&path, EXAMPLE).expect("a file");
        let mut reader = crate::config::reader::ConfigReader::default();
        reader.read_file(&path);
        let config = reader.finish().expect("no mistakes");
        assert_eq!(config.zones.len(), 2);
    }
}
