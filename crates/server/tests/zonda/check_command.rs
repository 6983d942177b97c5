//! `check-command`: commands that accept, refuse, hang, flood, fork, do not exist.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::acceptance::folder;
use crate::harness::{SERVFAIL, TestFolder, eventually, zone_text};
use crate::zone_status::{serves, status, wait_for};

/// A script of the folder.
fn script(folder: &TestFolder, text: &str) {
    let path = folder.write("check", &format!("#!/bin/sh\n{text}\n"));
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).expect("it is ours");
}

/// A zone that this command checks, served with serial 1.
fn checked(arguments: &str, settings: &str) -> TestFolder {
    let folder = folder(&format!("check-command = [{arguments}]\n{settings}"), &zone_text(1, "192.0.2.1"));
    script(&folder, "exit 0");
    folder
}

#[test]
fn a_command_sees_the_zone_and_decides() {
    let folder = checked("\"./check\", \"{zone}\", \"x={file}\"", "");
    let daemon = folder.serve_with_config();
    assert!(daemon.ask("www.a.example").has("192.0.2.1"));
    // Everything that a check may want to know; the name of the file is gone with it.
    script(
        &folder,
        "file=${2#x=}\ncp \"$file\" seen; stat -c %a \"$file\" > mode\n\
         echo \"$1 $ZONDA_ZONE $ZONDA_SERIAL $file\" > arguments\necho 'no good' >&2; echo more >&2; exit 3",
    );
    folder.write("a.zone", &zone_text(2, "192.0.2.2"));
    let report = folder.reload();
    assert_eq!(report.status, 1, "{}", report.out);
    let reason = "check ended with exit status 3: no good; more";
    assert!(report.out.contains(reason), "{}", report.out);
    assert!(daemon.ask("www.a.example").has("192.0.2.1"));
    assert!(status(&folder)["problem"].as_str().is_some_and(|problem| problem.contains(reason)));
    let read = |name: &str| folder.read(name);
    assert!(read("seen").contains("www 3600 IN A 192.0.2.2"), "{}", read("seen"));
    assert_eq!(read("mode"), "600\n");
    let arguments = read("arguments");
    let path = arguments.trim_end().strip_prefix("a.example. a.example. 2 ").expect("the name, twice, and the serial");
    assert!(path.starts_with('/') && !Path::new(path).exists(), "{path}");
    script(&folder, "exit 0");
    assert_eq!(folder.reload().status, 0, "a version that was refused is asked about again");
    assert!(daemon.ask("www.a.example").has("192.0.2.2"));
}

#[test]
fn a_command_may_read_the_text_from_standard_input_or_not_at_all() {
    let folder = checked("\"./check\"", "");
    script(&folder, "grep -q 192.0.2.2 && exit 7; exit 0");
    let hosts: String = (0..50_000).map(|host| format!("h{host} A 192.0.2.9\n")).collect();
    folder.write("a.zone", &(zone_text(1, "192.0.2.1") + &hosts));
    let daemon = folder.serve_with_config();
    folder.write("a.zone", &(zone_text(2, "192.0.2.2") + &hosts));
    assert!(folder.reload().out.contains("exit status 7"));
    // It ends with most of the text unread.
    script(&folder, "exit 0");
    assert_eq!(folder.reload().status, 0);
    assert!(daemon.ask("www.a.example").has("192.0.2.2"));
}

/// zonda waits for its signals instead of being ended by them; a command that uses timeout(1) relies on SIGTERM.
#[test]
fn a_command_can_end_what_it_started() {
    let folder = checked("\"./check\"", "check-timeout-s = 5");
    let _daemon = folder.serve_with_config();
    script(&folder, "sleep 600 & kill $!; wait $!; exit 7");
    folder.write("a.zone", &zone_text(2, "192.0.2.2"));
    let report = folder.reload();
    assert!(report.out.contains("check ended with exit status 7"), "{}", report.out);
}

/// Each may have the text of a large zone.
#[test]
fn a_killed_daemon_leaves_no_text_of_zones_behind() {
    let folder = checked("\"./check\", \"{file}\"", "");
    let daemon = folder.serve_with_config();
    script(&folder, "echo \"$1\" > file.new && mv file.new file; sleep 3; exit 1");
    folder.write("a.zone", &zone_text(2, "192.0.2.2"));
    daemon.signal("HUP");
    let file = read_when_written(&folder.path().join("file"));
    assert!(Path::new(&file).starts_with(folder.path().canonicalize().expect("it is there")), "{file}");
    daemon.kill();
    assert!(Path::new(&file).exists(), "nobody could remove it");
    script(&folder, "exit 0");
    let _daemon = folder.serve_with_config();
    assert!(!Path::new(&file).exists());
}

/// A check may run for minutes; with the daemon gone, nobody would end it.
#[test]
fn a_command_ends_when_the_daemon_stops() {
    let folder = checked("\"./check\"", "");
    let daemon = folder.serve_with_config();
    // The one in the background keeps the pipe open, and the group.
    script(&folder, "sleep 600 & echo $$ > group.new && mv group.new group; exec sleep 600");
    folder.write("a.zone", &zone_text(2, "192.0.2.2"));
    daemon.signal("HUP");
    let path = folder.path().join("group");
    let group = read_when_written(&path);
    daemon.stop();
    assert!(eventually(|| processes_of(&group) == 0), "of group {group}");
}

/// How many processes of a group run.
fn processes_of(group: &str) -> usize {
    let stat =
        |entry: std::io::Result<std::fs::DirEntry>| std::fs::read_to_string(entry.ok()?.path().join("stat")).ok();
    let runs = |stat: &String| {
        // After the name: the state, the parent and the group.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        fields.len() > 2 && fields[0] != "Z" && fields[2] == group
    };
    std::fs::read_dir("/proc").expect("Linux").filter_map(stat).filter(runs).count()
}

/// The contents of a file, once it is there.
fn read_when_written(path: &Path) -> String {
    assert!(eventually(|| path.exists()), "{} is not written", path.display());
    std::fs::read_to_string(path).expect("it is there").trim().into()
}

#[test]
fn a_hostile_command_harms_only_its_zone() {
    let hostile = [
        ("sleep 600", "did not end within 1 s and was killed"),
        ("trap '' TERM; while :; do :; done", "did not end within 1 s and was killed"),
        ("while :; do echo yyyyyyyyyyyyyyyyyyyyyyyyyyyyy; done", "did not end within 1 s and was killed"),
        ("while :; do echo yyyyyyyyyyyyyyyyyyyyyyyyyyyyy >&2; done", "did not end within 1 s and was killed"),
        ("sleep 601 & sleep 601 & exit 4", "ended with exit status 4"),
        ("setsid sleep 3 & exit 5", "ended with exit status 5"),
        ("kill -9 $$", "ended with signal 9"),
        ("printf '\\033[31m\\nred' >&2; exit 6", "exit status 6: \\u{1b}[31m; red"),
    ];
    let folder = checked("\"./check\"", "check-timeout-s = 1\n[[zone]]\nname = \"b.example\"\nfile = \"b.zone\"\n");
    folder.write("b.zone", &zone_text(1, "192.0.2.1"));
    let daemon = folder.serve_with_config();
    for (serial, (text, reason)) in (2..).zip(hostile) {
        script(&folder, text);
        folder.write("a.zone", &zone_text(serial, "192.0.2.2"));
        folder.write("b.zone", &zone_text(serial, "192.0.2.3"));
        let begin = Instant::now();
        let report = folder.reload();
        assert!(report.status == 1 && report.out.contains(reason), "{text}: {}", report.out);
        assert!(begin.elapsed() < Duration::from_secs(10), "{text}");
        assert!(daemon.ask("www.a.example").has("192.0.2.1"), "{text}");
        assert!(daemon.ask("www.b.example").has("192.0.2.3"), "{text}");
    }
    let processes = std::fs::read_dir("/proc").expect("procfs").flatten();
    let is_left = |process: &std::fs::DirEntry| {
        std::fs::read(process.path().join("cmdline")).is_ok_and(|arguments| arguments.starts_with(b"sleep\x00601\x00"))
    };
    assert_eq!(processes.filter(is_left).count(), 0, "the group of the command is killed");
}

#[test]
fn a_command_that_cannot_be_run_refuses_every_version() {
    let folder = checked("\"./missing\"", "");
    let daemon = folder.serve_with_config();
    assert_eq!(daemon.ask("www.a.example").rcode(), SERVFAIL);
    let problem = status(&folder)["problem"].to_string();
    assert!(problem.contains("missing cannot be run: No such file or directory"), "{problem}");
    folder.write("missing", "#!/bin/sh\nexit 0\n");
    let report = folder.reload();
    assert!(report.status == 1 && report.out.contains("cannot be run: Permission denied"), "{report:?}");
    assert!(report.out.contains("help: make it executable"), "{report:?}");
    // A shell would run it, the system does not.
    let path = folder.write("missing", "exit 0\n");
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).expect("it is ours");
    let report = folder.reload();
    assert!(
        report.status == 1 && report.out.contains("help: begin a script with a line like `#!/bin/sh`"),
        "{report:?}"
    );
}

#[test]
fn a_zone_that_waits_for_its_command_delays_no_other() {
    let folder = checked("\"./check\"", "[[zone]]\nname = \"b.example\"\nfile = \"b.zone\"\n");
    folder.write("b.zone", &zone_text(1, "192.0.2.1"));
    let daemon = folder.serve_with_config();
    script(&folder, "while [ ! -e go ]; do sleep 0.1; done");
    folder.write("a.zone", &zone_text(2, "192.0.2.2"));
    folder.write("b.zone", &zone_text(2, "192.0.2.2"));
    let mut waiting = folder.zonda(&["reload", "--config", "zonda.toml"]).spawn().expect("zonda runs");
    daemon.wait_until("reloaded", || daemon.ask("www.b.example").has("192.0.2.2"));
    assert!(daemon.ask("www.a.example").has("192.0.2.1"));
    assert!(waiting.try_wait().expect("it is ours").is_none(), "the reload waits for the command");
    folder.write("go", "");
    assert!(waiting.wait().expect("it is ours").success());
    assert!(daemon.ask("www.a.example").has("192.0.2.2"));
}

/// What the check is about may be content that the new primaries never had.
#[test]
fn a_transfer_whose_primaries_changed_while_it_was_checked_is_not_served() {
    let (first, second) = (folder("allow-transfer = [\"127.0.0.1\"]", &zone_text(1, "192.0.2.1")), TestFolder::new());
    let primary = first.serve_with_config();
    let settings = "check-command = [\"./check\"]\nmin-refresh-s = 1\nmin-retry-s = 1\n";
    let configure = |primary: &str| {
        let zone = format!("[[zone]]\nname = \"a.example\"\nprimaries = [\"{primary}\"]\n{settings}");
        second.write("zonda.toml", &zone);
    };
    configure(&primary.address.to_string());
    script(&second, "exit 0");
    let daemon = second.serve_with_config();
    wait_for(&second, "transferred", serves(1));
    script(&second, "echo > begun; while [ ! -e go ]; do sleep 0.1; done; echo > ended");
    first.write("a.zone", &zone_text(2, "192.0.2.2"));
    assert_eq!(first.reload().status, 0);
    assert_eq!(second.zone(&["refresh", "a.example"]).status, 0);
    read_when_written(&second.path().join("begun"));
    // Nobody listens there.
    configure("127.0.0.1:1");
    assert_eq!(second.reload().status, 0);
    second.write("go", "");
    read_when_written(&second.path().join("ended"));
    std::thread::sleep(Duration::from_secs(1));
    assert!(daemon.ask("www.a.example").has("192.0.2.1"), "{}", daemon.log());
    configure(&primary.address.to_string());
    assert_eq!(second.reload().status, 0);
    wait_for(&second, "transferred again", serves(2));
}
