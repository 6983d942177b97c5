//! The output complies with the rules of DNS-OARC's dns-metrics.
//!
//! The tables are a copy of the types in dns-metrics.schema.json of 2024-05-30 (<https://github.com/DNS-OARC/dns-metrics>).

use serde_json::Value;

use crate::running::Running;

#[path = "shared/program.rs"]
mod program;
#[path = "shared/running.rs"]
mod running;
#[path = "shared/udp_server.rs"]
mod udp_server;

/// The type of a member in the schema.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Text,
    Integer,
    Number,
    Texts,
    /// An object, all of whose members are integers.
    Counts,
    /// An object of members with types of their own.
    Object(&'static [Member]),
}

/// A member's name, type, and whether it is required.
type Member = (&'static str, Kind, bool);

const LATENCY: Kind = Kind::Counts;
const HEADER: &[Member] = &[
    ("schema_version", Kind::Integer, true),
    ("generator", Kind::Text, true),
    ("generator_version", Kind::Text, true),
    ("generator_params", Kind::Texts, false),
    ("time_units_per_sec", Kind::Integer, false),
    ("stats_interval", Kind::Number, true),
    ("timeout", Kind::Number, false),
];
const EVENT: &[Member] = &[("msg", Kind::Text, true), ("msg_type", Kind::Text, false)];
const STATS: &[Member] = &[
    ("since", Kind::Integer, true),
    ("until", Kind::Integer, true),
    ("queries", Kind::Integer, false),
    ("responses", Kind::Integer, false),
    ("timeouts", Kind::Integer, false),
    ("interrupted", Kind::Integer, false),
    ("unexpected", Kind::Integer, false),
    ("discarded", Kind::Integer, false),
    ("response_rcodes", Kind::Counts, false),
    ("response_latency", LATENCY, false),
    ("conn_info", Kind::Object(CONNECTIONS), false),
];
const CONNECTIONS: &[Member] = &[
    // Required here: without it, an object matches several of the schema's alternatives, which allow only one.
    ("type", Kind::Text, true),
    ("packets_sent", Kind::Integer, false),
    ("packets_received", Kind::Integer, false),
    ("socket_errors", Kind::Integer, false),
    ("handshakes", Kind::Integer, false),
    ("handshakes_failed", Kind::Integer, false),
    ("conn_latency", Kind::Object(CONNECTION_LATENCIES), false),
    ("resumption", Kind::Counts, false),
];
const CONNECTION_LATENCIES: &[Member] =
    &[("initial", LATENCY, false), ("handshake", LATENCY, false), ("connection", LATENCY, false)];
const CONNECTION_TYPES: [&str; 4] = ["udp", "tcp", "tls_conn", "quic_conn"];
/// The members of every record, and the one for what the schema does not define.
const COMMON: [&str; 3] = ["runid", "type", "zonda"];
/// Members of an event and of `conn_info` that the schema does not define; it allows others.
const ALLOWED: [&str; 3] = ["time", "handshakes_resumed", "handshake_failure"];

fn check_record(record: &Value) {
    assert!(record["runid"].is_string(), "{record}");
    let members = match record["type"].as_str() {
        Some("header") => HEADER,
        Some("event") => EVENT,
        Some("stats_periodic" | "stats_sum") => STATS,
        other => panic!("no type {other:?}"),
    };
    check_object(record, members);
    if let Some(kind) = record["conn_info"]["type"].as_str() {
        assert!(CONNECTION_TYPES.contains(&kind), "conn_info of type {kind}");
    }
}

fn check_object(object: &Value, members: &[Member]) {
    for &(name, kind, is_required) in members {
        match object.get(name) {
            Some(value) => assert!(is_of(value, kind), "{name} is {value}, not {kind:?}"),
            None => assert!(!is_required, "{name} is missing in {object}"),
        }
    }
    let is_known = |name: &str| members.iter().any(|(known, ..)| *known == name);
    for name in object.as_object().expect("an object").keys().map(String::as_str) {
        assert!(is_known(name) || COMMON.contains(&name) || ALLOWED.contains(&name), "{name} belongs into `zonda`");
    }
}

fn is_of(value: &Value, kind: Kind) -> bool {
    match kind {
        Kind::Text => value.is_string(),
        Kind::Integer => value.is_i64() || value.is_u64(),
        Kind::Number => value.is_number(),
        Kind::Texts => value.as_array().is_some_and(|texts| texts.iter().all(Value::is_string)),
        Kind::Counts => {
            value.as_object().is_some_and(|counts| counts.values().all(|count| is_of(count, Kind::Integer)))
        }
        Kind::Object(members) => {
            check_object(value, members);
            true
        }
    }
}

#[test]
fn records_comply_with_the_schema() {
    let port = udp_server::serve(|_, _| true).port();
    let (file, zones) = (program::file("schema.queries", "example SOA\n"), program::file("schema.zones", "example\n"));
    let (file, zones, mut count) = (file.display(), zones.display(), 0);
    let short = "--rate 100 --seconds 0.3 --interval 0.1 --timeout-ms 50";
    for arguments in [
        format!("query --queries {file} {short}"),
        format!("query --queries {file} {short} --transport tcp"),
        format!("query --queries {file} {short} --transport tls"),
        format!("query --queries {file} {short} --tcp-share 0.5"),
        format!("query --queries {file} --outstanding 2 --seconds 0.1"),
        format!(
            "query --queries {file} --find-peak 99 --rate 10 --seconds 0.1 --resolution 100 --timeout-ms 20 --tcp-share 1"
        ),
        "hold --connections 2 --seconds 0".into(),
        format!("xfr pull --zones {zones} --timeout-ms 100"),
        format!("probe --queries {file} --seconds 0.1"),
        format!("notify --zones {zones} --rate 10"),
        "update --zone example --rate 10 --seconds 0.2".into(),
        "hostile --kind silence --connections 2 --seconds 0".into(),
    ] {
        let output = program::run(&format!("{arguments} --server 127.0.0.1 --port {port}"));
        let records = program::records(&output);
        assert!(records.len() >= 2, "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
        records.iter().for_each(check_record);
        count += records.len();
    }
    assert!(count > 30, "{count} records");
}

#[test]
fn records_of_servers_comply_with_the_schema() {
    let zone = program::file("schema.zone", "example. 60 IN SOA a. b. 1 2 3 4 5\nexample. 60 IN NS a.\n");
    let served = program::file("schema.served", &format!("example {}\n", zone.display()));
    let file = program::file("schema.quic-queries", "example SOA\n");
    for arguments in ["echo --quic-port 0".into(), format!("xfr serve --zones {}", served.display())] {
        let mut server = Running::start(program::command(&format!("{arguments} --listen 127.0.0.1 --port 0")));
        let (header, ready) = (server.next_with("type", "header"), server.next_with("msg_type", "ready"));
        if let Some(port) = ready["zonda"]["quic_port"].as_u64() {
            let to = format!("--server 127.0.0.1 --port {port} --queries {}", file.display());
            let output = program::run(&format!("quic {to} --connections 1 --outstanding 1 --seconds 0.1"));
            let records = program::records(&output);
            assert!(records.len() >= 3, "{}", String::from_utf8_lossy(&output.stderr));
            records.iter().for_each(check_record);
        }
        let (sum, status) = server.terminate();
        assert_eq!(status, Some(0), "{arguments}");
        [header, ready, sum].iter().for_each(check_record);
    }
}

#[test]
#[should_panic(expected = "stats_interval is missing")]
fn a_header_without_a_required_member_is_detected() {
    check_record(
        &serde_json::json!({"runid": "1", "type": "header", "schema_version": 1, "generator": "", "generator_version": ""}),
    );
}

#[test]
#[should_panic(expected = "conn_info of type tls")]
fn a_value_outside_the_schema_is_detected() {
    check_record(
        &serde_json::json!({"runid": "1", "type": "stats_sum", "since": 0, "until": 0, "conn_info": {"type": "tls"}}),
    );
}
