//! Catalog zones (RFC 9432): members of consumed catalogs come and go, and produced catalogs list the zones of the server.

use serde_json::Value;

use crate::harness::{Daemon, NOERROR, REFUSED, TestFolder, zone_text};
use crate::zone_status::status_of;

const CATALOG: &str = "$TTL 0\n@ SOA invalid. invalid. SERIAL 1 1 86400 0\n@ NS invalid.\n";

/// A catalog that is read from a file.
fn catalog(serial: u32, records: &str) -> String {
    CATALOG.replace("SERIAL", &serial.to_string()) + "version TXT \"2\"\n" + records
}

const CONSUMER: &str = "[template.default]\nfile = \"zones/{name}.zone\"\n\
                        [template.other]\nfile = \"other/{name}.zone\"\n\
                        [[zone]]\nname = \"c.\"\nfile = \"c.zone\"\ncatalog = \"consume\"\n\
                        catalog-templates = { customers = \"other\" }\n";

fn reload(folder: &TestFolder) {
    let output = folder.reload();
    assert_eq!(output.status, 0, "{} {}", output.out, output.err);
}

/// A folder with zone files of three members in the folders of both templates.
fn members() -> TestFolder {
    let folder = TestFolder::new();
    for name in ["x", "y", "z"] {
        folder.write_zone(name, 1, "192.0.2.1");
        folder.write(&format!("other/{name}.zone"), &zone_text(1, "192.0.2.2"));
    }
    folder
}

fn consumer(folder: &TestFolder, config: &str, records: &str) -> Daemon {
    folder.write("zonda.toml", config);
    folder.write("c.zone", &catalog(1, records));
    folder.serve_with_config()
}

#[test]
fn members_are_added_moved_and_removed_with_the_catalog() {
    let folder = members();
    let daemon = consumer(&folder, CONSUMER, "1.zones PTR x.\n2.zones PTR Y.\ngroup.2.zones TXT customers\n");
    daemon.wait_for_rcode("x", NOERROR);
    daemon.wait_for_rcode("y", NOERROR);
    assert!(daemon.ask("www.x").has("192.0.2.1") && daemon.ask("www.y").has("192.0.2.2"));
    assert_eq!(daemon.ask("www.z").rcode(), REFUSED);
    let y = status_of(&folder, "y");
    assert_eq!((&y["template"], &y["catalogs"][0]["catalog"]), (&"other".into(), &"c.".into()), "{y}");
    assert_eq!(y["catalogs"][0]["groups"], serde_json::json!(["customers"]), "{y}");
    // RFC 9432 5.5: another group, another template. A reload that changes nothing else keeps members.
    folder.write("c.zone", &catalog(2, "2.zones PTR y.\n3.zones PTR z.\n"));
    reload(&folder);
    daemon.wait_for_rcode("z", NOERROR);
    daemon.wait_for_rcode("x", REFUSED);
    daemon.wait_until("moved", || daemon.ask("www.y").has("192.0.2.1"));
    reload(&folder);
    assert!(daemon.ask("www.z").has("192.0.2.1") && daemon.ask("www.y").has("192.0.2.1"));
    // Another template for the same zones.
    folder.write("zonda.toml", &CONSUMER.replace("zones/{name}", "other/{name}"));
    reload(&folder);
    daemon.wait_until("read from the other file", || daemon.ask("www.z").has("192.0.2.2"));
    // RFC 9432 5.1: no catalog, no members.
    folder.write("zonda.toml", "[[zone]]\nname = \"c.\"\nfile = \"c.zone\"\n");
    reload(&folder);
    daemon.wait_for_rcode("z", REFUSED);
    daemon.wait_for_rcode("y", REFUSED);
}

#[test]
fn rfc_9432_5_2_the_zone_that_was_there_first_wins() {
    let folder = members();
    let own = "[[zone]]\nname = \"y\"\nfile = \"other/y.zone\"\n";
    let second = "[[zone]]\nname = \"d.\"\nfile = \"d.zone\"\ncatalog = \"consume\"\n";
    folder.write("d.zone", &catalog(1, "1.zones PTR x.\n2.zones PTR z.\n3.zones PTR d.\n"));
    let daemon = consumer(&folder, &(CONSUMER.to_owned() + own + second), "1.zones PTR x.\n2.zones PTR y.\n");
    daemon.wait_for_rcode("x", NOERROR);
    daemon.wait_for_rcode("z", NOERROR);
    assert!(daemon.ask("www.y").has("192.0.2.2"), "the configured zone");
    let y = status_of(&folder, "y");
    assert_eq!(y["catalogs"][0]["problem"], "the zone is configured itself", "{y}");
    let d = status_of(&folder, "d");
    assert_eq!(d["catalogs"][0]["problem"], "the zone is configured itself", "{d}");
    daemon.wait_until("listed twice", || status_of(&folder, "x")["catalogs"].as_array().is_some_and(|l| l.len() == 2));
    let x = status_of(&folder, "x");
    let problem = x["catalogs"][1]["problem"].as_str().expect("a problem");
    assert!(problem.starts_with("the zone is a member of the catalog "), "{x}");
    // The configuration frees one, takes another.
    let z = own.replace("\"y\"", "\"z\"").replace("y.zone", "z.zone");
    folder.write("zonda.toml", &(CONSUMER.to_owned() + &z + second));
    reload(&folder);
    daemon.wait_until("a member", || daemon.ask("www.y").has("192.0.2.1"));
    daemon.wait_until("taken over", || daemon.ask("www.z").has("192.0.2.2"));
    daemon.wait_until("the reason", || {
        status_of(&folder, "z")["catalogs"][0]["problem"] == "the zone is configured itself"
    });
    // RFC 9432 5.3: the catalog that does not own a zone does not remove it.
    folder.write("d.zone", &catalog(2, ""));
    reload(&folder);
    daemon.wait_until("listed once", || status_of(&folder, "x")["catalogs"].as_array().is_some_and(|l| l.len() == 1));
    assert!(daemon.ask("www.x").has("192.0.2.1"));
}

#[test]
fn rfc_9432_5_1_a_broken_catalog_leaves_its_members_alone() {
    let folder = members();
    let daemon = consumer(&folder, CONSUMER, "1.zones PTR x.\n2.zones PTR y.\n");
    daemon.wait_for_rcode("y", NOERROR);
    for (serial, text, problem) in [
        (2, catalog(2, "1.zones PTR x.\n").replace("version TXT \"2\"", "version TXT \"1\""), "version \"1\""),
        (3, catalog(3, "1.zones PTR x.\n2.zones PTR z.\n2.zones PTR y.\n"), "2.zones.c. must have one PTR record"),
        (4, catalog(4, "1.zones PTR x.\n2.zones PTR y.\n3.zones PTR x.\n"), "x. is listed more than once"),
    ] {
        folder.write("c.zone", &text);
        reload(&folder);
        daemon.wait_until(problem, || {
            let status = status_of(&folder, "c");
            status["serial"] == serial && status["problem"].as_str().is_some_and(|found| found.contains(problem))
        });
        assert!(daemon.ask("www.x").has("192.0.2.1") && daemon.ask("www.y").has("192.0.2.1"));
        assert_eq!(daemon.ask("www.z").rcode(), REFUSED);
    }
    folder.write("c.zone", &catalog(5, "1.zones PTR x.\n3.zones PTR z.\n"));
    reload(&folder);
    daemon.wait_for_rcode("z", NOERROR);
    daemon.wait_for_rcode("y", REFUSED);
    assert_eq!(status_of(&folder, "c")["problem"], Value::Null);
}

/// The log of a server whose catalog has a million of them must have room for other things.
#[test]
fn very_many_members_that_are_not_served_do_not_fill_the_log() {
    let folder = members();
    let config = CONSUMER.replace("template.default", "template.unused");
    let records: String = (0..300).map(|number| format!("m{number}.zones PTR z{number}.\n")).collect();
    let daemon = consumer(&folder, &config, &records);
    daemon.wait_for_log("not_served=300");
    assert_eq!(daemon.log().matches("a member of the catalog is not served").count(), 100, "{}", daemon.log());
    assert_eq!(status_of(&folder, "z299")["state"], "not-served", "the status explains each");
    assert_eq!(folder.zone(&["status"]).out.matches(": not served; listed in c.").count(), 300);
    let all = folder.zone(&["refresh"]);
    assert!(!all.out.contains("z299") && !all.err.contains("z299"), "nothing can be done about it: {all:?}");
}

#[test]
fn a_member_without_a_template_is_explained() {
    let folder = members();
    let config = CONSUMER.replace("template.default", "template.unused");
    folder.write_zone("root", 1, "192.0.2.1");
    let daemon = consumer(&folder, &config, "1.zones PTR x.\ngroup.1.zones TXT nobody\n2.zones PTR .\n");
    daemon.wait_for_log("catalog processed");
    let x = status_of(&folder, "x");
    assert_eq!((&x["state"], &x["catalogs"][0]["groups"][0]), (&"not-served".into(), &"nobody".into()), "{x}");
    let problem = x["catalogs"][0]["problem"].as_str().expect("a problem");
    assert_eq!(problem, "there is no template default: add [template.default]");
    let rolled_back = folder.zone(&["rollback", "x"]);
    assert!(rolled_back.status == 1 && rolled_back.err.contains("the zone is not served"), "{rolled_back:?}");
    let text = folder.zone(&["status", "x"]).out;
    assert!(
        text.contains("x.: not served; listed in c., group nobody, not served as its member: there is no"),
        "{text}"
    );
    assert_eq!(daemon.ask("www.x").rcode(), REFUSED);
    folder.write("zonda.toml", CONSUMER);
    reload(&folder);
    daemon.wait_for_rcode("x", NOERROR);
}

#[test]
fn rfc_9432_4_3_1_a_catalog_hands_a_member_over() {
    let folder = members();
    let second = "[[zone]]\nname = \"d.\"\nfile = \"d.zone\"\ncatalog = \"consume\"\n\
                  catalog-templates = { all = \"other\" }\n";
    folder.write("d.zone", &catalog(1, ""));
    let daemon = consumer(&folder, &(CONSUMER.to_owned() + second), "1.zones PTR x.\n2.zones PTR y.\n");
    daemon.wait_for_rcode("y", NOERROR);
    // Without the property there is no migration, whoever asks for it.
    let arriving = "1.zones PTR x.\ngroup.1.zones TXT all\n2.zones PTR y.\n";
    folder.write("d.zone", &catalog(2, arriving));
    reload(&folder);
    daemon.wait_until("refused", || status_of(&folder, "x")["catalogs"].as_array().is_some_and(|l| l.len() == 2));
    daemon.wait_for_log("catalog processed catalog=d. serial=2");
    assert_eq!(status_of(&folder, "x")["catalogs"][0]["catalog"], "c.");
    // It moves with the next version of the new catalog, or sooner if a reload makes zonda list that catalog once more.
    folder.write("c.zone", &catalog(2, "1.zones PTR x.\ncoo.1.zones PTR d.\n2.zones PTR y.\ncoo.2.zones PTR e.\n"));
    reload(&folder);
    daemon.wait_for_log("catalog processed catalog=c. serial=2");
    folder.write("d.zone", &catalog(3, arriving));
    reload(&folder);
    daemon.wait_until("migrated", || daemon.ask("www.x").has("192.0.2.2"));
    let x = status_of(&folder, "x");
    assert_eq!((&x["catalogs"][0]["catalog"], &x["template"]), (&"d.".into(), &"other".into()), "{x}");
    assert_eq!(status_of(&folder, "y")["catalogs"][0]["catalog"], "c.");
    // The old catalog may drop it now.
    folder.write("c.zone", &catalog(3, "2.zones PTR y.\n"));
    reload(&folder);
    daemon.wait_for_log("catalog processed catalog=c. serial=3");
    assert!(daemon.ask("www.x").has("192.0.2.2"));
}

/// As at run time, where a member without its template keeps its settings.
#[test]
fn what_is_stored_of_members_that_lack_their_template_is_kept() {
    let primary = TestFolder::new();
    let (source, template) = primary_of_x(&primary);
    let catalog_zone = "[[zone]]\nname = \"c.\"\nfile = \"c.zone\"\ncatalog = \"consume\"\n";
    let folder = TestFolder::new();
    let daemon = consumer(&folder, &(template.clone() + catalog_zone), "1.zones PTR x.\n");
    daemon.wait_for_rcode("x", NOERROR);
    daemon.stop();
    source.kill();
    let other = "[template.other]\nfile = \"other/{name}.zone\"\n";
    folder.write("zonda.toml", &format!("{other}{catalog_zone}catalog-templates = {{ customers = \"other\" }}\n"));
    let daemon = folder.serve_with_config();
    daemon.wait_for_log("there is no template default");
    daemon.wait_for_rcode("x", REFUSED);
    daemon.stop();
    folder.write("zonda.toml", &(template + catalog_zone));
    let daemon = folder.serve_with_config();
    daemon.wait_for_rcode("x", NOERROR);
}

/// A primary of the zone x, and the template whose zones are transferred from it.
fn primary_of_x(folder: &TestFolder) -> (Daemon, String) {
    folder.write_zone("x", 1, "192.0.2.1");
    folder.write("zonda.toml", "[[zone]]\nname = \"x\"\nfile = \"zones/x.zone\"\nallow-transfer = [\"127.0.0.1\"]\n");
    let daemon = folder.serve_with_config();
    let template = format!("[template.default]\nprimaries = [\"{}\"]\n", daemon.address);
    (daemon, template)
}

/// Catalogs are read in the order of their names, which says nothing about whose member a zone is.
#[test]
fn rfc_9432_5_2_a_member_that_two_catalogs_list_keeps_its_owner_over_a_restart() {
    let (primary, folder) = (TestFolder::new(), TestFolder::new());
    let (source, template) = primary_of_x(&primary);
    let of_file = |name| format!("[[zone]]\nname = \"{name}.\"\nfile = \"{name}.zone\"\nprimaries = []\n");
    let catalogs = ["c", "d"].map(|name| of_file(name) + "catalog = \"consume\"\n");
    folder.write("d.zone", &catalog(1, "1.zones PTR x.\n"));
    let daemon = consumer(&folder, &(template + &catalogs.concat()), "");
    daemon.wait_for_rcode("x", NOERROR);
    folder.write("c.zone", &catalog(2, "9.zones PTR x.\n"));
    reload(&folder);
    daemon.wait_until("listed twice", || status_of(&folder, "x")["catalogs"].as_array().is_some_and(|l| l.len() == 2));
    daemon.stop();
    source.kill();
    let daemon = folder.serve_with_config();
    daemon.wait_for_log("catalog processed catalog=c. serial=2");
    daemon.wait_for_log("catalog processed catalog=d. serial=1");
    daemon.wait_for_rcode("x", NOERROR);
    let x = status_of(&folder, "x");
    assert_eq!(x["catalogs"][0]["catalog"], "d.", "{x}");
    assert_eq!(x["catalogs"][1]["problem"], "the zone is a member of the catalog d.", "{x}");
    daemon.stop();
    // The owner drops it while the server is down: then it is free.
    folder.write("d.zone", &catalog(2, ""));
    let daemon = folder.serve_with_config();
    // Until then nobody lists it.
    daemon.wait_for_log("catalog processed catalog=c. serial=2");
    daemon.wait_for_log("catalog processed catalog=d. serial=2");
    daemon.wait_until("a member of c.", || status_of(&folder, "x")["catalogs"][0]["catalog"] == "c.");
}

/// Nothing is stored of a small zone that is read from a file, and the templates of catalogs may have different files and access lists.
#[test]
fn rfc_9432_5_2_a_member_that_is_read_from_a_file_keeps_its_owner_over_a_restart() {
    let folder = members();
    let d = "[[zone]]\nname = \"d.\"\nfile = \"d.zone\"\ncatalog = \"consume\"\n";
    folder.write("d.zone", &catalog(1, "1.zones PTR x.\n"));
    let daemon = consumer(&folder, &(CONSUMER.to_owned() + d), "");
    daemon.wait_for_rcode("x", NOERROR);
    folder.write("c.zone", &catalog(2, "9.zones PTR x.\ngroup.9.zones TXT customers\n"));
    reload(&folder);
    let is_listed_twice = || status_of(&folder, "x")["catalogs"].as_array().is_some_and(|listed| listed.len() == 2);
    daemon.wait_until("listed twice", is_listed_twice);
    let mut daemon = daemon;
    for _ in 0..2 {
        daemon.stop();
        daemon = folder.serve_with_config();
        daemon.wait_for_log("catalog processed catalog=c. serial=2");
        daemon.wait_for_log("catalog processed catalog=d. serial=1");
        daemon.wait_for_rcode("x", NOERROR);
        assert!(daemon.ask("www.x").has("192.0.2.1"), "the file of the template of d.");
        assert_eq!(status_of(&folder, "x")["catalogs"][0]["catalog"], "d.");
    }
    // The owner drops it while the server is down: then it is free, and keeps its new owner.
    daemon.stop();
    folder.write("d.zone", &catalog(2, ""));
    let daemon = folder.serve_with_config();
    daemon.wait_until("a member of c.", || daemon.ask("www.x").has("192.0.2.2"));
}

/// With the same label, the data is kept; with another one, the zone begins anew. Whose member it is must be stored in both cases.
#[test]
fn rfc_9432_4_3_1_a_handover_lasts_over_a_restart() {
    let primary = TestFolder::new();
    let (source, template) = primary_of_x(&primary);
    let catalogs =
        ["c", "d"].map(|name| format!("[[zone]]\nname = \"{name}.\"\nfile = \"{name}.zone\"\ncatalog = \"consume\"\n"));
    let consumers = ["1", "2"].map(|label| {
        let folder = TestFolder::new();
        folder.write("d.zone", &catalog(1, ""));
        let daemon = consumer(&folder, &(template.clone() + &catalogs.concat()), "1.zones PTR x.\n");
        daemon.wait_for_rcode("x", NOERROR);
        folder.write("d.zone", &catalog(2, &format!("{label}.zones PTR x.\n")));
        folder.write("c.zone", &catalog(2, "1.zones PTR x.\ncoo.1.zones PTR d.\n"));
        reload(&folder);
        daemon.wait_until("handed over", || status_of(&folder, "x")["catalogs"][0]["catalog"] == "d.");
        // It does not come back.
        folder.write("c.zone", &catalog(3, "1.zones PTR x.\n"));
        reload(&folder);
        daemon.wait_for_log("catalog processed catalog=c. serial=3");
        daemon.wait_for_rcode("x", NOERROR);
        assert_eq!(status_of(&folder, "x")["catalogs"][0]["catalog"], "d.");
        daemon.stop();
        folder
    });
    source.kill();
    for folder in consumers {
        let daemon = folder.serve_with_config();
        daemon.wait_for_log("catalog processed catalog=c. serial=3");
        daemon.wait_for_log("catalog processed catalog=d. serial=2");
        daemon.wait_for_rcode("x", NOERROR);
        assert_eq!(status_of(&folder, "x")["catalogs"][0]["catalog"], "d.");
    }
}
