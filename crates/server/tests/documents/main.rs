//! The documents describe the code as it is: the RFCs, files, functions, tests, links and make targets that they name exist.

mod import_cycles;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The files below `folder` with one of these extensions.
fn files(folder: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path, endings));
        } else if path.extension().is_some_and(|ending| endings.iter().any(|wanted| ending == *wanted)) {
            found.push(path);
        }
    }
    found
}

/// The Rust and Python sources, including tests.
fn sources() -> Vec<PathBuf> {
    let folders = ["crates", "interop"];
    folders.iter().flat_map(|folder| files(&workspace().join(folder), &["rs", "py"])).collect()
}

/// The RFCs that a text cites, of those with four or more digits: DNS RFCs begin at 1034.
fn cited(text: &str) -> BTreeSet<u32> {
    let numbers = text.split("RFC ").skip(1).map(|rest| {
        let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse().unwrap_or(0)
    });
    numbers.filter(|number| *number >= 1000).collect()
}

/// Whether a text cites this RFC; tables do it without the word.
fn cites(text: &str, rfc: u32) -> bool {
    cited(text).contains(&rfc) || text.contains(&format!("\"{rfc} ")) || text.contains(&format!(", {rfc} "))
}

/// The texts in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// A row of a table in docs/rfc.md.
struct RfcRow {
    rfc: u32,
    files: Vec<String>,
    tests: Vec<String>,
    line: String,
}

fn rows() -> Vec<RfcRow> {
    let text = read(&workspace().join("docs/rfc.md"));
    let lines = text.lines().filter(|line| line.starts_with("| ") && line.as_bytes()[2].is_ascii_digit());
    let rows: Vec<RfcRow> = lines.map(row).collect();
    assert!(rows.len() > 100, "only {} rows were found", rows.len());
    rows
}

fn row(line: &str) -> RfcRow {
    let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
    let [rfc, _, files, tests] = cells[..] else { panic!("these are not four cells: {line}") };
    let number = rfc.split(' ').next().and_then(|number| number.parse().ok());
    RfcRow {
        rfc: number.unwrap_or_else(|| panic!("no RFC begins {line}")),
        files: quoted(files).map(str::to_owned).collect(),
        tests: quoted(tests).map(str::to_owned).collect(),
        line: line.to_owned(),
    }
}

#[test]
fn every_cited_rfc_is_in_the_table() {
    let listed: BTreeSet<u32> = rows().iter().map(|row| row.rfc).collect();
    let tests = Path::new("tests");
    for path in sources().into_iter().filter(|path| !path.components().any(|part| part.as_os_str() == tests)) {
        let missing: Vec<u32> = cited(&read(&path)).difference(&listed).copied().collect();
        assert!(missing.is_empty(), "{}: RFCs {missing:?} are not in docs/rfc.md", path.display());
    }
}

#[test]
fn every_rule_has_its_files_and_tests() {
    let sources = sources().into_iter().chain(files(&workspace().join("attack"), &["py"]));
    let functions: BTreeSet<String> = sources.flat_map(|path| functions(&read(&path))).collect();
    let mut problems = Vec::new();
    for RfcRow { rfc, files, tests, line } in rows() {
        assert!(!files.is_empty() && (!tests.is_empty() || line.contains("no test")), "{line}");
        for file in &files {
            let folder = if file.starts_with("interop/") { workspace() } else { workspace().join("crates") };
            let text = fs::read_to_string(folder.join(file)).unwrap_or_default();
            if !cites(&text, rfc) {
                problems.push(format!("{file} does not exist or does not cite RFC {rfc}: {line}"));
            }
        }
        let commands = |test: &&String| !test.starts_with("make ");
        let missing = tests.iter().filter(commands).filter(|test| !functions.contains(*test));
        problems.extend(missing.map(|test| format!("there is no test {test}: {line}")));
    }
    assert!(problems.is_empty(), "docs/rfc.md:\n{}", problems.join("\n"));
}

/// The names of the functions of a source in Rust or Python.
fn functions(text: &str) -> Vec<String> {
    let definitions = text.lines().filter_map(|line| line.trim().strip_prefix("fn ").or(line.strip_prefix("def ")));
    definitions.filter_map(|rest| rest.split('(').next()).map(str::to_owned).collect()
}

/// All documents for users and developers.
fn documents() -> Vec<PathBuf> {
    const OTHERS: [&str; 8] = [
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "attack/README.md",
        "interop/README.md",
        "lab/README.md",
        "lab/FAULTS.md",
        "lab/LOAD-CONTRACT.md",
    ];
    let mut documents = files(&workspace().join("docs"), &["md"]);
    documents.extend(OTHERS.map(|name| workspace().join(name)));
    documents
}

#[test]
fn links_have_targets() {
    let mut count = 0;
    for document in documents() {
        let text = read(&document);
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if target.contains("://") {
                continue;
            }
            count += 1;
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let path = match file {
                "" => document.clone(),
                _ => document.parent().expect("a file has a folder").join(file),
            };
            assert!(path.exists(), "{}: {target} is not there", document.display());
            let has_heading = || anchors(&read(&path)).any(|anchor| anchor == heading);
            assert!(heading.is_empty() || has_heading(), "{}: {target} has no such heading", document.display());
        }
    }
    assert!(count >= 50, "only {count} links were found");
}

/// The anchors of the headings, as GitHub makes them.
fn anchors(text: &str) -> impl Iterator<Item = String> {
    let headings = text.split("```").step_by(2).flat_map(str::lines).filter(|line| line.starts_with('#'));
    headings.map(|line| {
        let kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_');
        line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-").chars().filter(kept).collect()
    })
}

#[test]
fn make_targets_in_documents_exist() {
    let makefiles = ["Makefile", "lab/lab.mk"].map(|name| format!("\n{}", read(&workspace().join(name)))).concat();
    let mut count = 0;
    for document in documents() {
        for target in make_targets(&read(&document)) {
            count += 1;
            assert!(makefiles.contains(&format!("\n{target}:")), "{}: make {target}", document.display());
        }
    }
    assert!(count >= 30, "only {count} targets were found");
}

/// What follows `make` in code, without variables.
fn make_targets(text: &str) -> Vec<&str> {
    let prose = text.split("```").step_by(2).flat_map(quoted);
    let typed = text.split("```").skip(1).step_by(2).flat_map(str::lines);
    let goals = prose.chain(typed).filter_map(|line| line.trim().strip_prefix("make ")?.split('#').next());
    let is_target = |word: &&str| word.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-');
    goals.flat_map(str::split_whitespace).filter(is_target).collect()
}

#[test]
fn the_readme_links_every_document() {
    let readme = read(&workspace().join("README.md"));
    for path in files(&workspace().join("docs"), &["md"]) {
        let path = path.strip_prefix(workspace()).expect("it is below the workspace");
        assert!(readme.contains(&format!("]({})", path.display())), "README.md does not link {}", path.display());
    }
}

#[test]
fn the_migration_page_names_keys_and_commands_that_exist() {
    let text = read(&workspace().join("docs/manual/migration.md"));
    let code = Code::read();
    // The last column is ours.
    let cells = text.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.rsplit(" | ").next());
    let is_name = |name: &&str| !name.starts_with(['[', '{']);
    let names: Vec<&str> = cells.flat_map(quoted).filter(is_name).collect();
    assert!(names.len() > 60, "only {} names were found", names.len());
    for name in names {
        let key = name.split(' ').next().unwrap_or(name);
        let exists = code.keys.contains(&format!("`{key}")) || code.commands.contains(name);
        assert!(exists, "docs/manual/migration.md names `{name}`");
    }
}

#[test]
fn everything_that_the_architecture_names_exists() {
    let text = read(&workspace().join("docs/architecture.md"));
    let prose: String = text.split("```").step_by(2).collect();
    let code = Code::read();
    let named: Vec<&str> = quoted(&prose).collect();
    assert!(named.len() > 60, "only {} names were found", named.len());
    let missing: Vec<&&str> = named.iter().filter(|name| !code.has(name)).collect();
    assert!(missing.is_empty(), "docs/architecture.md names what is not there: {missing:?}");
}

#[test]
fn names_that_do_not_exist_are_detected() {
    let code = Code::read();
    for name in ["answer::respond()", "Zone", "answer/src/lib.rs", "zonda check", "make bench", "log-level", "answer"] {
        assert!(code.has(name), "{name}");
    }
    for name in
        ["zone::respond()", "respond", "NoSuchType", "answer/src/none.rs", "zonda dance", "make tea", "no-such-key"]
    {
        assert!(!code.has(name), "{name}");
    }
}

/// What a document may name: sources in Rust, the manual, the Makefile.
struct Code {
    /// Path and text of each source in Rust.
    rust: Vec<(PathBuf, String)>,
    /// The keys of the configuration.
    keys: String,
    commands: String,
    makefile: String,
}

impl Code {
    fn read() -> Code {
        let rust = files(&workspace().join("crates"), &["rs"]);
        Code {
            rust: rust.into_iter().map(|path| (path.clone(), read(&path))).collect(),
            keys: read(&workspace().join("docs/manual/zonda.toml.md")),
            commands: read(&workspace().join("docs/manual/zonda.md")),
            makefile: read(&workspace().join("Makefile")),
        }
    }

    /// Whether a name written as code exists: a path, `module::function()` or `Type::function()`, a type or constant, a
    /// command, a make target, a configuration key, or a crate.
    fn has(&self, name: &str) -> bool {
        if let Some(function) = name.strip_suffix("()") {
            return self.has_function(function);
        }
        if let Some(target) = name.strip_prefix("make ") {
            return self.makefile.contains(&format!("\n{target}:"));
        }
        let exists = |folder: &str| workspace().join(folder).join(name).exists();
        if name.contains(['/', '.']) || exists("") || exists("crates") {
            return exists("") || exists("crates");
        }
        if let Some(program) = name.strip_prefix("zonda-") {
            return self.has(program);
        }
        if name.starts_with("zonda") {
            return self.commands.contains(name);
        }
        self.has_definition(name) || self.keys.contains(&format!("`{name}`"))
    }

    /// Whether a function is defined in this module or for this type.
    fn has_function(&self, name: &str) -> bool {
        let Some((qualifier, function)) = name.rsplit_once("::") else { return false };
        let qualifier = qualifier.rsplit("::").next().unwrap_or(qualifier);
        let definition = [format!("fn {function}("), format!("fn {function}<")];
        let is_of = |path: &Path, text: &str| {
            let is_module = path.components().any(|part| Path::new(&part).file_stem() == Some(qualifier.as_ref()));
            let is_type = text.lines().any(|line| {
                let line = line.trim_start_matches("pub ");
                let block = line.starts_with("impl") || line.starts_with("trait ");
                block && line.split(|letter: char| !letter.is_alphanumeric()).any(|word| word == qualifier)
            });
            is_module || is_type
        };
        self.rust.iter().any(|(path, text)| definition.iter().any(|one| text.contains(one)) && is_of(path, text))
    }

    /// Whether a type, trait, constant or static of this name is defined.
    fn has_definition(&self, name: &str) -> bool {
        let is_proper = name.starts_with(|letter: char| letter.is_ascii_uppercase());
        let keywords = ["struct", "enum", "trait", "type", "const", "static"];
        let definitions: Vec<String> = keywords.iter().map(|keyword| format!("{keyword} {name}")).collect();
        let is_whole = |rest: &str| !rest.starts_with(|letter: char| letter.is_alphanumeric() || letter == '_');
        let defines = |text: &str| {
            definitions.iter().any(|one| text.match_indices(one).any(|(at, _)| is_whole(&text[at + one.len()..])))
        };
        is_proper && self.rust.iter().any(|(_, text)| defines(text))
    }
}

#[test]
fn every_source_file_begins_with_its_purpose() {
    for path in sources() {
        let text = read(&path);
        let begin = text.trim_start_matches("#!/usr/bin/env python3\n");
        assert!(begin.starts_with("//! ") || begin.starts_with("\"\"\""), "{} begins with its code", path.display());
    }
}
