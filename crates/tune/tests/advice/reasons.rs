//! What rows say of their reasons: records, sources that disagree, and what an advice costs.

use tune::advice::{Action, settings};
use tune::render::{manual, table};
use tune::{Case, Role, Row, Server, ServerFacts, Workload, advise};

use crate::synthetic::{TestHost, workload};

fn row(role: Role, name: &str) -> Row {
    TestHost::recorded().row(workload(role), name)
}

fn of_bind(name: &str) -> Row {
    TestHost::recorded().row(Workload { server: Server::Bind, ..workload(Role::Secondary) }, name)
}

/// E14 has measured no exhausted ports, so that it says nothing of a remedy.
#[test]
fn a_level_that_a_record_could_not_test_is_not_quoted() {
    for name in ["net.ipv4.tcp_max_tw_buckets", "net.ipv4.ip_local_port_range"] {
        let evidence = row(Role::Secondary, name).evidence;
        let (before, after) =
            evidence.split_once("to be recorded again").unwrap_or_else(|| panic!("{name}: {evidence}"));
        assert!(!before.contains("E14") && after.contains("E14 “"), "{name}: {evidence}");
        assert!(!evidence.contains("equivalent within 5.0%"), "{name}: {evidence}");
        assert!(
            evidence.contains("E12, Maximum sockets in TIME_WAIT, median: knot, zones 30,000, tuned 28,232"),
            "{name}: {evidence}"
        );
    }
    assert!(
        manual::markdown().contains("to be recorded again, because its record could not test it: E14 “more ports”")
    );
}

#[test]
fn exhausted_ports_are_quoted_from_the_records_that_had_them() {
    let evidence = row(Role::Secondary, "net.ipv4.ip_local_port_range").evidence;
    for figure in [
        "E12, Time to transfer all zones, s, median: knot, zones 30,000, tuned ",
        "E15, Time to transfer all zones, s, median: bind, tcp, zones 30,000 ",
    ] {
        assert!(evidence.contains(figure), "{figure}: {evidence}");
    }
}

#[test]
fn a_cold_page_cache_is_quoted_from_its_record() {
    let evidence = row(Role::Primary, "cold page cache at the start").evidence;
    assert!(evidence.contains("E10") && evidence.contains("a cold page cache delays the start"), "{evidence}");
    for server in ["zonda ", "nsd ", "knot ", "bind "] {
        assert!(evidence.contains(server), "{server}: {evidence}");
    }
}

#[test]
fn the_options_of_bind_for_many_zones_are_quoted_as_a_group() {
    for name in ["transfers-in", "transfers-per-ns", "serial-query-rate"] {
        let evidence = of_bind(name).evidence;
        assert!(evidence.starts_with("not measured here; E12 “tuned” (the whole group)"), "{name}: {evidence}");
        for figure in ["bind, zones 2,000, tuned ", "bind, zones 2,000, defaults at least 30"] {
            assert!(evidence.contains(figure), "{name}: {evidence}");
        }
    }
    let manual = manual::markdown();
    assert!(
        manual.contains("in a whole group: E12 “tuned”")
            && manual.contains("| E12 “tuned” | time to transfer all zones, s, median")
    );
}

/// The number or numbers at the start of what a source says.
fn first_numbers(source: &str) -> Option<String> {
    let says = source.split_once(": ")?.1;
    let is_value =
        |word: &&str| word.trim_end_matches([',', ';', ':']).split(':').all(|part| part.parse::<u64>().is_ok());
    let words: Vec<&str> = says.split(' ').take_while(is_value).collect();
    (!words.is_empty()).then(|| words.join(" ").trim_end_matches([',', ';', ':']).to_owned())
}

#[test]
fn a_row_says_where_its_sources_disagree() {
    for name in [
        "net.core.somaxconn",
        "net.core.netdev_max_backlog",
        "net.core.rmem_max",
        "net.core.wmem_max",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_wmem",
        "net.ipv4.tcp_abort_on_overflow",
        "net.ipv4.tcp_sack",
        "net.ipv4.tcp_max_tw_buckets",
        "net.ipv4.tcp_congestion_control",
    ] {
        assert!(row(Role::Tcp, name).disagreement.is_some(), "{name}");
    }
    assert_eq!(row(Role::Tcp, "net.ipv4.tcp_syncookies").disagreement, None);
    let mut found = 0;
    for setting in settings() {
        let mut values: Vec<String> =
            setting.sources.iter().filter_map(|source| first_numbers(&source.to_string())).collect();
        values.dedup();
        let said = setting.disagreement().unwrap_or_default();
        if values.len() > 1 {
            found += 1;
            for value in values {
                assert!(said.contains(&format!("{value} (")), "{}: {value} is not in “{said}”", setting.name);
            }
        }
    }
    assert!(found > 10, "{found}");
}

#[test]
fn people_read_where_sources_disagree() {
    let recorded = TestHost::recorded();
    let host = recorded.read();
    let case = Case { host: &host, workload: workload(Role::Tcp), server: ServerFacts::default() };
    let text = table::text(&case, &advise(&case), &[], &[]);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let said = "sources disagree: 65535 (Liang et al. 2018) or 32768 (an operator's lower values)";
    assert!(words.contains(said) && manual::markdown().contains(said), "{text}");
}

/// E33 found that these drop connections without a client sooner.
#[test]
fn a_faster_drop_that_is_not_advised_has_its_price_named() {
    let host = TestHost::recorded();
    for (name, fast) in
        [("net.ipv4.tcp_synack_retries", "1"), ("net.ipv4.tcp_orphan_retries", "1"), ("net.ipv4.tcp_fin_timeout", "5")]
    {
        host.write(&tune::host::sysctl_path(name), fast);
        let row = host.row(workload(Role::Tcp), name);
        assert_eq!(row.action, Action::Set, "{name}: {}", row.why);
        assert!(row.why.contains("sooner (E33)") && row.why.contains("but"), "{name}: {}", row.why);
    }
    // Only BIND keeps such connections for long.
    let bind = host.row(Workload { server: Server::Bind, ..workload(Role::Tcp) }, "net.ipv4.tcp_orphan_retries");
    assert_eq!((bind.action, bind.advised.as_deref()), (Action::Leave, Some("1")), "{}", bind.why);
}

/// Zonda pins its UDP threads in both placements.
#[test]
fn free_processors_are_quoted_for_nsd_only() {
    let evidence = row(Role::Udp, "binding of workers").evidence;
    assert!(evidence.contains("nsd, 30,000 q/s") && !evidence.contains("zonda, 30,000 q/s"), "{evidence}");
}

#[test]
fn what_the_kernel_of_the_lab_lacks_is_not_planned() {
    let manual = manual::markdown();
    for name in ["net.core.default_qdisc", "qdisc of the card"] {
        let evidence = row(Role::Tcp, name).evidence;
        assert!(evidence.contains("needs a kernel with the qdiscs fq, fq_codel, sfq and codel"), "{evidence}");
        assert!(!evidence.contains("planned"), "{evidence}");
    }
    assert!(manual.contains("needs a kernel with the qdiscs fq") && !manual.contains("planned: E16"));
    let congestion = row(Role::Primary, "net.ipv4.tcp_congestion_control");
    assert!(congestion.condition.contains("htcp needs a kernel with it"), "{}", congestion.condition);
}

#[test]
fn claims_without_a_record_have_their_source() {
    let sack = row(Role::Primary, "net.ipv4.tcp_sack");
    assert!(sack.sources.iter().any(|source| source.starts_with("RFC 2018: ")), "{:?}", sack.sources);
    assert!(sack.risk.contains("RFC 2018") && sack.risk.contains("our records do not show it"), "{}", sack.risk);
}

#[test]
fn a_reset_is_a_failure_for_clients_that_do_not_try_again() {
    let row = row(Role::Tcp, "net.ipv4.tcp_abort_on_overflow");
    let rule = settings().find(|setting| setting.name == row.name).expect("the setting").rule;
    for text in [rule, &row.why] {
        assert!(text.contains("clients that do not try again"), "{text}");
    }
}

/// In E33 no connection was reset, so that it shows nothing of resets.
#[test]
fn resets_are_not_judged_by_a_record_without_any() {
    let row = row(Role::Tcp, "net.ipv4.tcp_abort_on_overflow");
    assert!(!row.evidence.contains("E33"), "{}", row.evidence);
    assert!(row.condition.contains("E33") && row.condition.contains("no connection was reset"), "{}", row.condition);
}

/// Of all servers, Zonda included: the lab checks that connections have used the descriptors of each.
#[test]
fn exhausted_descriptors_are_quoted_for_all_servers() {
    let evidence = row(Role::Tcp, "LimitNOFILE").evidence;
    let (_, answered) = evidence.split_once("E19, Share of UDP queries answered, median: ").expect("a figure of E19");
    assert!(["zonda", "nsd", "knot", "bind"].iter().all(|server| answered.contains(server)), "{evidence}");
}
