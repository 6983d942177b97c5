//! Records as text for people.

use std::fmt::Write as _;

use serde_json::Value;

/// The text of a record; empty for records that only programs need.
pub fn text_of(record: &Value) -> String {
    match record["type"].as_str() {
        Some("event") => format!("{}\n", record["msg"].as_str().unwrap_or_default()),
        Some("stats_sum") if record["response_latency"].is_object() => run(record),
        Some("stats_sum") => figures(&record["zonda"]),
        _ => String::new(),
    }
}

/// The result of a run of queries.
fn run(record: &Value) -> String {
    let zonda = &record["zonda"];
    let (queries, responses) = (count(&record["queries"]), count(&record["responses"]));
    let seconds = (count(&record["until"]).saturating_sub(count(&record["since"]))) as f64 / 1e9;
    let [kind, transport] = [&zonda["loop"], &zonda["transport"]].map(|text| text.as_str().unwrap_or_default());
    let mut text = String::new();
    let mut line = |name: &str, value: String| writeln!(text, "{name:<12}{value}").expect("writing to memory");
    let rate = |count: u64| count as f64 / seconds.max(1e-9);
    line("queries", format!("{queries} in {seconds:.2} s, {:.0} per second ({kind} loop, {transport})", rate(queries)));
    let in_window = count(&zonda["responses_in_window"]);
    let share = 100.0 * responses as f64 / queries.max(1) as f64;
    line("answers", format!("{responses} ({share:.3} %), {:.0} per second while sending", rate(in_window)));
    line("rcodes", pairs(&record["response_rcodes"], |count| count.to_string()));
    let losses = ["missed", "late", "wrong", "refused", "receive_drops"];
    let losses = losses.iter().map(|&name| (name, count(&zonda[name]))).filter(|(_, count)| *count > 0);
    let losses: String = losses.map(|(name, count)| format!(", {} {count}", name.replace('_', " "))).collect();
    line("losses", format!("timeouts {}{losses}", count(&record["timeouts"])));
    line("latency", quantiles(&zonda["quantiles_intended"]));
    for part in zonda["breakdown"].as_array().into_iter().flatten() {
        let rcode = part["rcode"].as_str().unwrap_or("no answer");
        let latency = quantiles(&part["latency"]);
        line("  by type", format!("{} {rcode} {}: {latency}", plain(&part["qtype"]), part["queries"]));
    }
    if zonda["loop"] == "open" {
        line("sent late", quantiles(&zonda["schedule_error"]));
    }
    if zonda["opening"].is_object() {
        line("opening", handshakes(&zonda["opening"]));
    }
    if record["conn_info"].is_object() {
        line("handshakes", handshakes(&record["conn_info"]));
    }
    line("generator", format!("busy {:.0} %", 100.0 * zonda["busy"].as_f64().unwrap_or_default()));
    for peak in zonda["peaks"].as_array().into_iter().flatten() {
        line("peak", peak_line(peak));
    }
    for wrong in zonda["wrong_examples"].as_array().into_iter().flatten() {
        line("wrong", wrong.as_str().unwrap_or_default().into());
    }
    text
}

/// The handshakes of `conn_info`, or of the opening with its duration.
fn handshakes(connections: &Value) -> String {
    let [made, resumed, failed] =
        ["handshakes", "handshakes_resumed", "handshakes_failed"].map(|key| count(&connections[key]));
    let within = connections["seconds"].as_f64().map(|seconds| format!(" in {seconds:.2} s"));
    let mean_ms = count(&connections["conn_latency"]["handshake"]["avg"]) as f64 / 1e6;
    let latency = if made > 0 { format!(", mean {mean_ms:.3} ms") } else { String::new() };
    format!("{made}{}, {resumed} resumed, {failed} failed{latency}", within.unwrap_or_default())
}

fn peak_line(peak: &Value) -> String {
    let objective = peak["objective"].as_str().unwrap_or_default();
    let objective = if peak["percent"].is_number() { format!("{objective} % answered") } else { objective.into() };
    let rate = peak["rate"].as_f64().unwrap_or_default();
    let is_bound = peak["generator_bound"].as_bool() == Some(true);
    let passed = format!("{}{rate:.0} queries per second", if is_bound { "at least " } else { "" });
    match (peak["failed_rate"].as_f64(), peak["failure"].as_str()) {
        (Some(failed), Some(why)) => format!("{objective}: {passed}; {failed:.0} failed ({why})"),
        _ => format!("{objective}: {passed}"),
    }
}

/// The numbers and texts of another command's result, one a line.
fn figures(zonda: &Value) -> String {
    let members = zonda.as_object().into_iter().flatten();
    let shown = members.filter(|(name, value)| !value.is_array() && !is_histogram(name));
    shown.map(|(name, value)| format!("{:<20}{}\n", name.replace('_', " "), plain(value))).collect()
}

/// Whether the member is an encoded histogram.
fn is_histogram(name: &str) -> bool {
    name == "arrivals"
}

fn plain(value: &Value) -> String {
    match value {
        Value::Object(_) => pairs(value, Value::to_string),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// `name value, name value`.
fn pairs(object: &Value, show: impl Fn(&Value) -> String) -> String {
    let members = object.as_object().into_iter().flatten();
    members.map(|(name, value)| format!("{name} {}", show(value))).collect::<Vec<_>>().join(", ")
}

/// Latencies in milliseconds, ascending: JSON objects are sorted by name, which would put the maximum first.
fn quantiles(object: &Value) -> String {
    let mut members: Vec<_> = object.as_object().into_iter().flatten().map(|(name, ns)| (count(ns), name)).collect();
    members.sort_by_key(|&(ns, name)| (ns, name == "max", name));
    members.iter().map(|(ns, name)| format!("{name} {:.3} ms", *ns as f64 / 1e6)).collect::<Vec<_>>().join(", ")
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_run_is_summarized_in_a_few_lines() {
        let record = json!({
            "type": "stats_sum", "since": 0, "until": 2_000_000_000, "queries": 2000, "responses": 1990, "timeouts": 10,
            "response_rcodes": {"NOERROR": 1990}, "response_latency": {},
            "zonda": {
                "loop": "open", "transport": "udp", "responses_in_window": 1980, "wrong": 3, "missed": 0, "busy": 0.25,
                "quantiles_intended": {"p50": 120_000, "max": 1_500_000}, "wrong_examples": ["a. A: expected X, got Y"],
                "schedule_error": {"p50": 4000, "max": 90_000},
                "peaks": [{"objective": "p99=1ms", "percent": null, "rate": 990.4, "failed_rate": 1010.2,
                    "failure": "latency", "generator_bound": true}],
            },
        });
        assert_eq!(
            text_of(&record),
            "queries     2000 in 2.00 s, 1000 per second (open loop, udp)\n\
             answers     1990 (99.500 %), 990 per second while sending\n\
             rcodes      NOERROR 1990\n\
             losses      timeouts 10, wrong 3\n\
             latency     p50 0.120 ms, max 1.500 ms\n\
             sent late   p50 0.004 ms, max 0.090 ms\n\
             generator   busy 25 %\n\
             peak        p99=1ms: at least 990 queries per second; 1010 failed (latency)\n\
             wrong       a. A: expected X, got Y\n"
        );
    }

    #[test]
    fn the_handshakes_of_the_opening_are_apart() {
        let handshakes = |made, ns| {
            json!({"handshakes": made, "handshakes_resumed": 1, "handshakes_failed": 0,
                "conn_latency": {"handshake": {"avg": ns}}})
        };
        let mut opening = handshakes(20, 1_500_000);
        opening["seconds"] = json!(0.25);
        let record = json!({"type": "stats_sum", "response_latency": {}, "conn_info": handshakes(3, 900_000),
            "zonda": {"opening": opening}});
        let text = text_of(&record);
        assert!(text.contains("opening     20 in 0.25 s, 1 resumed, 0 failed, mean 1.500 ms\n"), "{text}");
        assert!(text.contains("handshakes  3, 1 resumed, 0 failed, mean 0.900 ms\n"), "{text}");
    }

    #[test]
    fn other_results_are_listed() {
        let record = json!({"type": "stats_sum", "zonda": {"zones": 3, "first_byte_s": 0.5, "udp": {"queries": 7}, "failures": []}});
        let text = text_of(&record);
        assert!(text.contains("zones               3\n") && text.contains("udp                 queries 7\n"), "{text}");
        assert_eq!(text_of(&json!({"type": "header"})), "");
        assert_eq!(text_of(&json!({"type": "event", "msg": "ready"})), "ready\n");
    }
}
