//! `zonda zone add` and `zonda zone remove` with the real daemon, and produced catalogs that list zones.

use std::io::Write;
use std::process::Stdio;

use crate::harness::{NOERROR, REFUSED, TestFolder, outcome};
use crate::zone_status::status_of;

const CONFIG: &str = "[template.default]\nfile = \"zones/{name}.zone\"\n[template.none]\n\
                      [[zone]]\nname = \"own\"\nfile = \"zones/own.zone\"\n";

fn folder() -> TestFolder {
    let folder = TestFolder::new();
    ["own", "a", "b", "c"].iter().for_each(|name| folder.write_zone(name, 1, "192.0.2.1"));
    folder.write("zonda.toml", CONFIG);
    folder
}

#[test]
fn added_zones_survive_reloads_and_kill_9() {
    let folder = folder();
    let daemon = folder.serve_with_config();
    let added = folder.zone(&["add", "a", "B."]);
    assert_eq!(added.status, 0, "{}", added.err);
    daemon.wait_for_rcode("a", NOERROR);
    daemon.wait_for_rcode("b", NOERROR);
    assert_eq!(folder.reload().status, 0);
    assert!(daemon.ask("www.a").has("192.0.2.1"));
    assert_eq!(status_of(&folder, "a")["template"], "default");
    let removed = folder.zone(&["remove", "a", "--json"]);
    assert_eq!(removed.status, 0, "{}", removed.err);
    assert!(removed.out.contains("\"done\": 1"), "{}", removed.out);
    daemon.wait_for_rcode("a", REFUSED);
    // Drop kills it.
    drop(daemon);
    let saved = folder.path().join("state/zonda/added-zones");
    let mut file = std::fs::File::options().append(true).open(&saved).expect("the file");
    file.write_all(b"+ c. defa").expect("space");
    let daemon = folder.serve_with_config();
    daemon.wait_for_rcode("b", NOERROR);
    assert_eq!((daemon.ask("www.a").rcode(), daemon.ask("www.c").rcode()), (REFUSED, REFUSED));
    let text = std::fs::read_to_string(&saved).expect("text");
    assert!(
        text.starts_with("= added-zones 3 ") && text.lines().count() == 2 && text.contains("+ b. default "),
        "{text}"
    );
    // The configuration wins, and later removes it.
    folder.write("zonda.toml", &(CONFIG.to_owned() + "[[zone]]\nname = \"b\"\nfile = \"zones/c.zone\"\n"));
    assert_eq!(folder.reload().status, 0);
    daemon.wait_for_log("the zone is configured now");
    folder.write("zonda.toml", CONFIG);
    assert_eq!(folder.reload().status, 0);
    daemon.wait_for_rcode("b", REFUSED);
}

/// There are no configured zones that could be missing.
#[test]
fn a_server_whose_zones_are_all_added_can_reload() {
    let folder = folder();
    folder.write("zonda.toml", CONFIG.split_once("[[zone]]").expect("a zone").0);
    let daemon = folder.serve_with_config();
    assert_eq!(folder.zone(&["add", "a"]).status, 0);
    daemon.wait_for_rcode("a", NOERROR);
    let reloaded = folder.reload();
    assert_eq!(reloaded.status, 0, "{} {}", reloaded.out, reloaded.err);
    assert!(daemon.ask("www.a").has("192.0.2.1"));
}

#[test]
fn a_damaged_line_of_added_zones_is_reported_and_the_others_are_served() {
    let folder = folder();
    let daemon = folder.serve_with_config();
    assert_eq!(folder.zone(&["add", "a", "b", "c"]).status, 0);
    drop(daemon);
    let saved = folder.path().join("state/zonda/added-zones");
    let text = std::fs::read_to_string(&saved).expect("text");
    let line = 1 + text.lines().position(|line| line.starts_with("+ b. ")).expect("it was added");
    // One bit: the zone r. instead of b.
    std::fs::write(&saved, text.replace("+ b. ", "+ r. ")).expect("space");
    let daemon = folder.serve_with_config();
    daemon.wait_for_rcode("a", NOERROR);
    daemon.wait_for_rcode("c", NOERROR);
    assert_eq!(daemon.ask("www.b").rcode(), REFUSED);
    let message =
        format!("`added-zones` in the state-dir is damaged at line {line}, which is left out: `+ r. default ");
    daemon.wait_for_log("added zones restored");
    let log = daemon.log();
    assert_eq!(log.matches(&message).count(), 1, "{log}");
    assert!(
        log.contains("damaged_lines=1") && log.contains("the damaged file is kept as `added-zones.damaged`"),
        "{log}"
    );
    assert_eq!(folder.zone(&["add", "b"]).status, 0);
    daemon.wait_for_rcode("b", NOERROR);
}

#[test]
fn what_cannot_be_added_or_removed_is_explained() {
    let folder = folder();
    let text = "$TTL 0\n@ SOA invalid. invalid. 1 1 1 86400 0\n@ NS invalid.\nversion TXT 2\n1.zones PTR c.\n";
    folder.write("m.zone", text);
    let catalog = "[[zone]]\nname = \"m\"\nfile = \"m.zone\"\ncatalog = \"consume\"\n";
    folder.write("zonda.toml", &(CONFIG.to_owned() + catalog));
    let daemon = folder.serve_with_config();
    daemon.wait_for_rcode("c", NOERROR);
    assert_eq!(folder.zone(&["add", "a"]).status, 0);
    let added = folder.zone(&["add", "a", "own", "c", "b", "--template", "none"]);
    assert_eq!(added.status, 1);
    for reason in [
        "a.: the zone was added already, with the template default",
        "own.: the zone is configured already",
        "c.: the zone is a member of the catalog m. already",
        "b.: the template none has neither `primaries` nor `file`",
    ] {
        assert!(added.err.contains(reason), "{reason}: {}", added.err);
    }
    let removed = folder.zone(&["remove", "own", "c", "b"]);
    assert_eq!(removed.status, 1);
    for reason in ["own.: the zone is configured: remove it", "c.: the zone is a member", "b.: this is not a zone of"] {
        assert!(removed.err.contains(reason), "{reason}: {}", removed.err);
    }
    // A catalog that lists the zone, too, serves it once it is removed.
    folder.write("m.zone", &(text.replace(" 1 1 1 ", " 2 1 1 ") + "2.zones PTR a.\n"));
    assert_eq!(folder.reload().status, 0);
    daemon.wait_until("listed", || status_of(&folder, "a")["catalogs"][0]["problem"].is_string());
    assert_eq!(folder.zone(&["remove", "a"]).status, 0);
    daemon.wait_until("a member", || status_of(&folder, "a")["catalogs"][0]["problem"].is_null());
}

/// Otherwise the log of each start would report it, until somebody edits a file of the state-dir.
#[test]
fn an_added_zone_whose_template_is_gone_is_removed_or_comes_back_with_it() {
    let folder = folder();
    let template = "[template.t]\nfile = \"zones/{name}.zone\"\n";
    folder.write("zonda.toml", &format!("{template}{CONFIG}"));
    let daemon = folder.serve_with_config();
    assert_eq!(folder.zone(&["add", "a", "b", "--template", "t"]).status, 0);
    daemon.wait_for_rcode("b", NOERROR);
    daemon.kill();
    folder.write("zonda.toml", CONFIG);
    let daemon = folder.serve_with_config();
    daemon.wait_for_log("a zone that was added is not served");
    let removed = folder.zone(&["remove", "a"]);
    assert_eq!(removed.status, 0, "{}", removed.err);
    assert_eq!(folder.zone(&["remove", "a"]).status, 1, "it is gone");
    folder.write("zonda.toml", &format!("{template}{CONFIG}"));
    assert_eq!(folder.reload().status, 0);
    daemon.wait_for_rcode("b", NOERROR);
    assert_eq!(daemon.ask("www.a").rcode(), REFUSED);
    daemon.kill();
    let daemon = folder.serve_with_config();
    daemon.wait_for_rcode("b", NOERROR);
    assert_eq!(daemon.ask("www.a").rcode(), REFUSED);
}

/// As on a disk without room for another file. What was added is served, and no other process may change the journal.
#[test]
fn without_a_control_socket_the_state_dir_is_used_and_locked() {
    let folder = folder();
    let daemon = folder.serve_with_config();
    assert_eq!(folder.zone(&["add", "a"]).status, 0);
    daemon.kill();
    let socket = folder.path().join("state/zonda/control.sock");
    std::fs::remove_file(&socket).expect("it is there");
    std::fs::create_dir(&socket).expect("a folder");
    let daemon = folder.serve_with_config();
    daemon.wait_for_log("cannot reach this daemon");
    daemon.wait_for_rcode("a", NOERROR);
    let other = folder.run_with_config(&["serve", "--listen", "127.0.0.1:0"]);
    let expected = format!("another zonda (process {}) uses the state-dir", daemon.id());
    assert!(other.status == 1 && other.err.contains(&expected), "{other:?}");
}

#[test]
fn a_list_names_many_zones() {
    let folder = folder();
    let daemon = folder.serve_with_config();
    let count = 20_000;
    let list: String = (0..count).map(|number| format!("n{number}.example # a comment\n")).collect();
    folder.write("list", &("a default\n".to_owned() + &list));
    let added = folder.zone(&["add", "--list", "list", "--json"]);
    assert!(added.out.contains("\"done\": 20001"), "{} {}", added.out, added.err);
    daemon.wait_for_rcode("a", NOERROR);
    let mut command = folder.zonda(&["zone", "remove", "--list", "-", "--config", "zonda.toml", "--json"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("zonda runs");
    child.stdin.take().expect("it is piped").write_all(list.as_bytes()).expect("it reads");
    let removed = outcome(child.wait_with_output().expect("it ends"));
    assert!(removed.out.contains("\"done\": 20000"), "{} {}", removed.out, removed.err);
    assert_eq!(daemon.ask("www.n7.example").rcode(), REFUSED);
    let wrong = folder.write("list", "a..b\n");
    let failed = folder.zone(&["add", "--list", wrong.to_str().expect("text")]);
    assert!(failed.status == 1 && failed.err.contains("list:1: `a..b` is not a domain name"), "{}", failed.err);
}

#[test]
fn a_produced_catalog_lists_zones_and_its_consumer_serves_them() {
    let (first, second) = (folder(), TestFolder::new());
    // What the consumer listens on, known before the producer starts: no other test uses this address.
    let listen = std::net::UdpSocket::bind("127.0.94.1:0").and_then(|socket| socket.local_addr()).expect("a port");
    let config = |more: &str| {
        format!(
            "[template.default]\nfile = \"zones/{{name}}.zone\"\nallow-transfer = [\"127.0.0.1\"]\ncatalog-member = \"p.\"\n\
             catalog-group = \"g\"\n[[zone]]\nname = \"p.\"\ncatalog = \"produce\"\nnotify = [\"{listen}\"]\n\
             [[zone]]\nname = \"own\"\n{more}"
        )
    };
    first.write("zonda.toml", &config(""));
    let producer = first.serve_with_config();
    producer.wait_for_log("catalog produced");
    let primary = format!("primaries = [\"{}\"]\n", producer.address);
    second.write(
        "zonda.toml",
        &format!("[template.g]\n{primary}[[zone]]\nname = \"p.\"\ncatalog = \"consume\"\ncatalog-templates = {{ g = \"g\" }}\n{primary}"),
    );
    let consumer = second.serve_at(&listen.to_string());
    consumer.wait_for_rcode("own", NOERROR);
    assert_eq!(first.zone(&["add", "a", "b"]).status, 0);
    consumer.wait_for_rcode("a", NOERROR);
    consumer.wait_for_rcode("b", NOERROR);
    let kind = |folder: &TestFolder| status_of(folder, "p.")["last-transfer"]["kind"].clone();
    assert_eq!(kind(&second), "ixfr");
    assert_eq!(first.zone(&["remove", "a"]).status, 0);
    consumer.wait_for_rcode("a", REFUSED);
    first.write("zonda.toml", &config("[[zone]]\nname = \"c\"\n"));
    assert_eq!(first.reload().status, 0);
    consumer.wait_for_rcode("c", NOERROR);
    // A restart lists the same zones, with a later serial.
    let serial = |folder: &TestFolder| status_of(folder, "p.")["serial"].as_u64().expect("a serial");
    let (before, address) = (serial(&first), producer.address.to_string());
    drop(producer);
    // Serials are the time, or the next number after changes in the same second.
    std::thread::sleep(std::time::Duration::from_secs(3));
    let _producer = first.serve_at(&address);
    consumer.wait_until("produced again", || status_of(&first, "p.")["serial"].is_number());
    assert!(serial(&first) >= before);
    // RFC 9432 5.1: the members of a stored catalog are served before any primary answers.
    drop((consumer, _producer));
    let consumer = second.serve_at(&listen.to_string());
    consumer.wait_for_rcode("b", NOERROR);
    consumer.wait_for_rcode("own", NOERROR);
    assert!(consumer.ask("www.b").has("192.0.2.1"));
    let _producer = first.serve_at(&address);
    consumer.wait_until("produced again", || status_of(&first, "p.")["serial"].is_number());
    let export = first.zone(&["export", "p."]).out;
    assert_eq!(export.matches(" PTR ").count(), 3, "{export}");
    assert!(consumer.ask("www.b").has("192.0.2.1") && consumer.ask("www.own").has("192.0.2.1"));
}

/// RFC 9432 5.6: a consumer that sees no version of the catalog without the zone starts it anew nevertheless. Otherwise it would keep the
/// later serial.
#[test]
fn rfc_9432_5_6_a_consumer_that_was_away_resets_a_zone_that_was_added_again() {
    let (first, second) = (folder(), TestFolder::new());
    first.write(
        "zonda.toml",
        "[template.default]\nfile = \"zones/{name}.zone\"\nallow-transfer = [\"127.0.0.1\"]\ncatalog-member = \"p.\"\n\
         [[zone]]\nname = \"p.\"\ncatalog = \"produce\"\n[[zone]]\nname = \"own\"\n[server]\nstate-dir = \"kept\"\n",
    );
    first.write_zone("a", 5, "192.0.2.5");
    let producer = first.serve_with_config();
    producer.wait_for_log("catalog produced");
    assert_eq!(first.zone(&["add", "a"]).status, 0);
    let primaries = format!("primaries = [\"{}\"]\n", producer.address);
    second.write(
        "zonda.toml",
        &format!(
            "[template.default]\n{primaries}[[zone]]\nname = \"p.\"\ncatalog = \"consume\"\n{primaries}[server]\nstate-dir = \"kept\"\n"
        ),
    );
    let consumer = second.serve_with_config();
    consumer.wait_until("transferred", || consumer.ask("www.a").has("192.0.2.5"));
    drop(consumer);
    let labels = || -> Vec<String> {
        let export = first.zone(&["export", "p."]).out;
        export.lines().filter(|line| line.contains(" PTR ")).map(str::to_owned).collect()
    };
    let before = labels();
    assert_eq!(before.len(), 2, "{before:?}");
    // A restart keeps the labels.
    let address = producer.address.to_string();
    drop(producer);
    let producer = first.serve_at(&address);
    producer.wait_for_rcode("a", NOERROR);
    assert_eq!(first.zone(&["add", "b"]).status, 0);
    producer.wait_until("listed", || labels().len() == 3);
    assert!(before.iter().all(|line| labels().contains(line)), "{before:?} {:?}", labels());
    first.write_zone("a", 1, "192.0.2.1");
    assert_eq!((first.zone(&["remove", "a"]).status, first.zone(&["add", "a"]).status), (0, 0));
    let listed = |name: &str, lines: &[String]| lines.iter().find(|line| line.ends_with(name)).cloned();
    producer.wait_until("listed again", || labels().len() == 3 && listed(" a.", &labels()) != listed(" a.", &before));
    assert_eq!(listed(" own.", &labels()), listed(" own.", &before));
    let consumer = second.serve_with_config();
    consumer.wait_until("transferred anew", || consumer.ask("www.a").has("192.0.2.1"));
}

/// RFC 9432 5.6: what was acknowledged counts, whether the catalog was changed before the end or not.
#[test]
fn rfc_9432_5_6_a_zone_gets_another_label_though_the_producer_is_killed_before_the_catalog_changes() {
    let folder = folder();
    folder.write(
        "zonda.toml",
        "[template.default]\nfile = \"zones/{name}.zone\"\ncatalog-member = \"p.\"\n\
         [[zone]]\nname = \"p.\"\ncatalog = \"produce\"\n[[zone]]\nname = \"own\"\n[server]\nstate-dir = \"kept\"\n",
    );
    let daemon = folder.serve_with_config();
    daemon.wait_for_log("catalog produced");
    assert_eq!(folder.zone(&["add", "a", "b"]).status, 0);
    let labels = || -> Vec<String> {
        let export = folder.zone(&["export", "p."]).out;
        export.lines().filter(|line| line.contains(" PTR ")).map(str::to_owned).collect()
    };
    daemon.wait_until("listed", || labels().len() == 3);
    let before = labels();
    // A frozen catalog does not change.
    assert_eq!(folder.zone(&["freeze", "p."]).status, 0);
    assert_eq!((folder.zone(&["remove", "a"]).status, folder.zone(&["add", "a"]).status), (0, 0));
    daemon.kill();
    let daemon = folder.serve_with_config();
    daemon.wait_until("frozen", || status_of(&folder, "p.")["frozen"] == true);
    assert_eq!(labels(), before);
    assert_eq!(folder.zone(&["thaw", "p."]).status, 0);
    let kept = || labels().iter().filter(|line| before.contains(line)).count();
    daemon.wait_until("listed again", || labels().len() == 3 && kept() == 2);
    assert!(!labels().iter().any(|line| line.ends_with(" a.") && before.contains(line)), "{before:?} {:?}", labels());
    // Only once.
    let after = labels();
    daemon.kill();
    let daemon = folder.serve_with_config();
    assert_eq!(folder.zone(&["add", "c"]).status, 0);
    daemon.wait_until("listed", || labels().len() == 4);
    assert!(after.iter().all(|line| labels().contains(line)), "{after:?} {:?}", labels());
}
