//! Runs the program: JSON lines on standard output, exit statuses, signals, messages about bad input.

use std::collections::HashSet;
use std::io::Read;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::thread;
use std::time::Instant;

use hdrhistogram::serialization::Deserializer;
use serde_json::Value;

use crate::program::{command, file, records, run};
use crate::running::Running;
use crate::tries::passes_in_one_of_ten;

#[path = "shared/program.rs"]
mod program;
#[path = "shared/running.rs"]
mod running;
#[path = "shared/tries.rs"]
mod tries;
#[path = "shared/udp_server.rs"]
mod udp_server;

/// A server that responds REFUSED, with another question where `is_wrong` says so of the number of the response.
fn serve(is_wrong: impl Fn(u64) -> bool + Send + 'static) -> u16 {
    let server = udp_server::serve(move |number, response| {
        response[3] = 5;
        response[13] ^= u8::from(is_wrong(number));
        true
    });
    server.port()
}

/// Of two zones of one name, the first was dropped without a word; a record that overflows its message was sent in pieces.
#[test]
fn the_null_primary_refuses_zones_that_it_cannot_serve() {
    let zone = file("primary.zone", "@ 60 SOA ns h 1 1 1 1 1\n");
    let long =
        file("long.zone", &format!("@ 60 SOA ns h 1 1 1 1 1\n@ 60 TYPE65280 \\# 65500 {}\n", "00".repeat(65_500)));
    for (lines, said) in [
        (format!("a.example {}\nA.example {}\n", zone.display(), zone.display()), "zone A.example. is listed twice"),
        (
            format!("a.example {}\n", long.display()),
            "the TYPE65280 record of a.example. with 65500 octets fits in no message",
        ),
    ] {
        let output =
            run(&format!("xfr serve --listen 127.0.0.1 --port 0 --zones {}", file("zones.txt", &lines).display()));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && errors.contains(said), "{errors}");
    }
}

#[test]
fn a_run_is_reported_in_json_lines() {
    let (port, queries) = (serve(|_| false), file("two.queries", "a.example A\nb.example MX\n"));
    let output = run(&format!(
        "query --server 127.0.0.1 --port {port} --queries {} --rate 200 --seconds 0.6 --warm-up 0.2 --interval 0.2",
        queries.display()
    ));
    let records = records(&output);
    let kinds: Vec<&str> = records.iter().map(|record| record["type"].as_str().expect("each has one")).collect();
    assert_eq!((kinds[0], *kinds.last().expect("not empty")), ("header", "stats_sum"));
    let periodic: Vec<&Value> = records.iter().filter(|record| record["type"] == "stats_periodic").collect();
    assert!((3..=5).contains(&periodic.len()), "{kinds:?}");
    assert!(records.iter().all(|record| record["runid"] == records[0]["runid"]));

    let sum = records.last().expect("not empty");
    assert_eq!(
        (&sum["queries"], &sum["responses"], &sum["response_rcodes"]["REFUSED"]),
        (&120.into(), &120.into(), &120.into())
    );
    let in_periods: u64 = periodic.iter().map(|record| record["queries"].as_u64().expect("a number")).sum();
    assert_eq!(in_periods, 120);
    assert_eq!((&sum["zonda"]["loop"], &sum["zonda"]["scheduled"]), (&"open".into(), &120.into()));
    let seconds = (sum["until"].as_u64().expect("a number") - sum["since"].as_u64().expect("a number")) as f64 / 1e9;
    assert!((0.6..2.0).contains(&seconds), "from the warm-up to the last sending: {seconds}");
    let encoded = sum["zonda"]["latency_intended"].as_str().expect("text");
    let octets = data_encoding::BASE64.decode(encoded.as_bytes()).expect("base64");
    let histogram = Deserializer::new().deserialize::<u64, _>(&mut &octets[..]).expect("an HdrHistogram");
    assert_eq!(histogram.len(), 120);
    assert_eq!(Some(histogram.value_at_quantile(0.5)), sum["zonda"]["quantiles_intended"]["p50"].as_u64());
}

#[test]
fn the_exit_status_says_whether_the_run_is_valid() {
    let queries = file("one.query", "a.example A\n");
    let status = |port: u16| {
        let queries = queries.display();
        let output =
            run(&format!("query --server 127.0.0.1 --port {port} --queries {queries} --rate 50 --seconds 0.2"));
        (output.status.code(), records(&output).pop().expect("a sum"), String::from_utf8(output.stderr).expect("UTF-8"))
    };
    let (code, sum, stderr) = status(serve(|number| number == 5));
    assert_eq!(code, Some(3));
    assert!(stderr.contains("zonda-load: invalid because 1 of 10 answers are wrong"), "{stderr}");
    let reasons = sum["zonda"]["invalid_because"].as_array().expect("a list");
    assert!(reasons.contains(&"1 of 10 answers are wrong".into()), "{reasons:?}");
    let (code, sum, _) = status(serve(|_| false));
    // On a busy machine even this run may be late.
    let is_late = sum["zonda"]["late"].as_u64().is_some_and(|late| late > 0);
    assert_eq!(code, Some(if is_late { 3 } else { 0 }));
}

#[test]
fn bad_input_is_reported_in_one_line_before_anything_is_sent() {
    let (empty, bad) = (file("empty.queries", "; nothing\n"), file("bad.queries", "a A\nb\n"));
    let (zone, expectations) = (file("bad.zone", "$TTL 1\nx A 1.2.3\n"), file("bad.expect", "NOERROR answer\n"));
    let (empty, bad, zone, expectations) = (empty.display(), bad.display(), zone.display(), expectations.display());
    let two = file("bad-two.queries", "a A\nb A\n");
    for (arguments, message) in [
        ("--queries nowhere --rate 1".into(), "nowhere: No such file".to_string()),
        (format!("--queries {empty} --rate 1"), format!("{empty}: no queries")),
        (format!("--queries {bad} --rate 1"), format!("{bad}: line 2: 1 words")),
        (format!("--pcap {bad} --rate 1"), format!("{bad}: neither a pcap nor a pcapng file")),
        (format!("--from-zone {zone} --zone example --rate 1"), format!("zonda-load: {zone}:2:")),
        (
            format!("--queries {} --expect {expectations} --rate 1", two.display()),
            format!("{expectations}: there are 1 expectations for 2 queries"),
        ),
        (format!("--queries {} --rate 1 --source-prefix ::/64", two.display()), "--source-prefix is of another".into()),
        (format!("--queries {}", two.display()), "--rate".into()),
        (format!("--queries {} --rate 1 --fast-open", two.display()), "--fast-open is for TCP and TLS".into()),
        (format!("--queries {} --rate -3", two.display()), "a number from 0.000001 to".into()),
        (format!("--queries {} --rate 1e300", two.display()), "a number from 0.000001 to".into()),
        (format!("--queries {} --rate 1 --interval 1e-10", two.display()), "a number from 0.001 to".into()),
        (format!("--queries {} --rate 1 --interval 1e300", two.display()), "a number from 0.001 to".into()),
        (format!("--queries {} --rate 1 --warm-up 1e300", two.display()), "a number from 0 to".into()),
        (format!("--queries {} --rate 1 --seconds 1e300", two.display()), "a number above 0, at most".into()),
        (format!("--queries {} --rate 1 --seconds NaN", two.display()), "a number above 0, at most".into()),
        (format!("--queries {} --find-peak 200", two.display()), "neither a percentage".into()),
        (format!("--queries {} --outstanding 0", two.display()), "0 is not in 1..".into()),
        (format!("--queries {} --rate 1 --resume", two.display()), "--resume needs --transport tls".into()),
        (format!("--queries {} --rate 1 --ca {bad}", two.display()), "need --transport tls".into()),
        (
            format!("--queries {} --rate 1 --transport tls --ca {bad}", two.display()),
            format!("{bad}: no certificate in PEM"),
        ),
        (
            format!("--queries {} --rate 1 --tsig hmac-md5:key:AAAA", two.display()),
            "no algorithm of that name; there are hmac-sha1".into(),
        ),
    ] {
        let output = run(&format!("query --server=127.0.0.1 --port=9 {}", arguments.replace("--rate -3", "--rate=-3")));
        let stderr = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(output.status.code(), Some(2), "{arguments}: {stderr}");
        assert!(stderr.contains(&message), "{arguments}: {stderr}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn sigterm_ends_a_run_with_its_sum() {
    let (port, queries) = (serve(|_| false), file("long.queries", "a.example A\n"));
    let queries = queries.display();
    let arguments =
        format!("query --server 127.0.0.1 --port {port} --queries {queries} --rate 100 --seconds 600 --interval 0.1");
    let mut running = Running::start(command(&arguments));
    running.next_with("type", "stats_periodic");
    let (sum, code) = running.terminate();
    assert!(sum["queries"].as_u64().is_some_and(|queries| (5..60_000).contains(&queries)));
    assert!(code.is_some());
}

#[test]
fn a_run_at_an_unreachable_rate_can_be_stopped() {
    let (port, queries) = (serve(|_| false), file("unreachable.queries", "a.example A\n"));
    let arguments = format!(
        "query --server 127.0.0.1 --port {port} --queries {} --rate 1e9 --seconds 60 --timeout-ms 10 --interval 0.1",
        queries.display()
    );
    let mut running = Running::start(command(&arguments));
    running.next_with("type", "stats_periodic");
    let (sum, code) = running.terminate();
    assert!(sum.to_string().contains("scheduled queries were never sent"));
    assert_eq!(code, Some(3));
}

#[test]
fn a_run_fails_if_results_cannot_be_written() {
    let (port, queries) = (serve(|_| false), file("full.queries", "a.example A\n"));
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
    let arguments =
        format!("query --server 127.0.0.1 --port {port} --queries {} --rate 20 --seconds 0.2", queries.display());
    let output = command(&arguments).stdout(full).output().expect("the program was built");
    let stderr = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("writing results: No space left on device"), "{stderr}");
}

#[test]
fn an_interrupted_search_reports_what_it_found() {
    let (port, queries) = (serve(|_| false), file("interrupted.queries", "a.example A\n"));
    let arguments = format!(
        "query --server 127.0.0.1 --port {port} --queries {} --find-peak 99 --rate 10 --seconds 0.3",
        queries.display()
    );
    let mut running = Running::start(command(&arguments));
    running.next_with("msg_type", "trial");
    let (sum, code) = running.terminate();
    assert_eq!(sum["zonda"]["invalid_because"][0], "the search was interrupted");
    assert_eq!(code, Some(3));
}

#[test]
fn a_run_without_a_server_is_invalid() {
    let queries = file("nobody.queries", "a.example A\n");
    let nobody = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("loopback").port();
    for timing in ["--rate 50", "--outstanding 1", "--rate 50 --transport tcp"] {
        let output = run(&format!(
            "query --server 127.0.0.1 --port {nobody} --queries {} {timing} --seconds 0.2 --timeout-ms 50",
            queries.display()
        ));
        let stderr = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(output.status.code(), Some(3), "{timing}: {stderr}");
        assert!(stderr.contains("not one query was answered"), "{timing}: {stderr}");
    }
}

#[test]
fn there_is_a_manual_page_for_each_command() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("man");
    std::fs::create_dir_all(&folder).expect("a writable folder");
    assert!(run(&format!("man {}", folder.display())).status.success());
    let page = |name: &str| std::fs::read_to_string(folder.join(name)).expect(name);
    assert!(page("zonda-load.1").contains("zonda\\-load\\-hold(1)"));
    assert!(page("zonda-load-query.1").contains("\\-\\-burst") && page("zonda-load-xfr-pull.1").contains("\\-\\-zone"));
}

/// The options of EDNS and of passes reach the wire.
#[test]
fn queries_have_the_options_of_the_command_line() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let port = socket.local_addr().expect("bound").port();
    let receiver = thread::spawn(move || {
        let receive = |_| {
            let mut octets = [0; 2048];
            let (len, _) = socket.recv_from(&mut octets).expect("loopback");
            octets[..len].to_vec()
        };
        (0..4).map(receive).collect::<Vec<_>>()
    });
    let queries = file("options.queries", "a.example A\nb.example A\n");
    let output = run(&format!(
        "query --server 127.0.0.1 --port {port} --queries {} -n 2 --rate 100 --timeout-ms 50 \
         --cookie 0102030405060708 --ecs 192.0.2.0/24 --padding 128",
        queries.display()
    ));
    assert_eq!(records(&output).last().expect("a sum")["queries"], 4);
    for query in receiver.join().expect("no panic") {
        let options = wire::Message::parse(&query).expect("well-formed").edns.expect("it has options").options;
        assert_eq!((query.len(), options.len()), (128, 3));
        assert_eq!(options[0].data, [1, 2, 3, 4, 5, 6, 7, 8]);
    }
    let bad = run("query --server 127.0.0.1 --queries x --rate 1 --cookie 0102");
    assert!(String::from_utf8_lossy(&bad.stderr).contains("a cookie has 8, or 16 to 40"));
}

#[test]
fn sampled_queries_and_expected_answers_are_written_line_by_line() {
    let zone = file("sampled.zone", "@ 60 SOA a b 1 2 3 4 5\n@ 60 NS a\na 60 A 192.0.2.1\ncut 60 NS a\n");
    let list = file("sampled.list", &format!("one. {0}\ntwo. {0}\n", zone.display()));
    let [queries, expect] = ["sampled.queries", "sampled.expect"].map(|name| file(name, ""));
    let (list, queries, expect) = (list.display(), queries.display(), expect.display());
    let arguments = format!("sample --zones {list} --queries {queries} --expect {expect} --count 300 --types A=1");
    let done = run(&format!("{arguments} --nxdomain 0.3 --referral 0.3"));
    assert!(done.status.success() && done.stdout.is_empty(), "{done:?}");
    let read = |path: String| std::fs::read_to_string(path).expect("it was written");
    let (queries, expect) = (read(queries.to_string()), read(expect.to_string()));
    assert_eq!((queries.lines().count(), expect.lines().count()), (300, 300));
    for (query, answer) in queries.lines().zip(expect.lines()) {
        let expected = match query {
            _ if query.starts_with("nx") => "NXDOMAIN nxdomain",
            _ if query.starts_with("www") && query.contains(".cut.") => "NOERROR referral",
            "a.one. A" | "a.two. A" => "NOERROR answer",
            _ => panic!("{query}"),
        };
        assert_eq!(answer, expected, "{query}");
    }
    assert_eq!(run(&arguments.replace("A=1", "MX=1")).status.code(), Some(2), "no zone has the type");
}

#[test]
fn notify_and_update_messages_are_sent() {
    let (port, zones) = (serve(|_| false), file("three.zones", "a.example\nb.example\nc.example\n"));
    let output = run(&format!("notify --server 127.0.0.1 --port {port} --zones {} --rate 100", zones.display()));
    assert_eq!(records(&output).last().expect("a sum")["responses"], 3);
    let output = run(&format!("update --server 127.0.0.1 --port {port} --zone example --rate 100 --seconds 0.1"));
    assert_eq!(records(&output).last().expect("a sum")["responses"], 10);
}

#[test]
fn secrets_are_not_printed() {
    let (port, zones) = (serve(|_| false), file("secret.zones", "a.example\n"));
    for tsig in ["--tsig hmac-sha256:k:c2VjcmV0", "--tsig=hmac-sha256:k:c2VjcmV0"] {
        let output =
            run(&format!("notify --server 127.0.0.1 --port {port} --zones {} --rate 9 {tsig}", zones.display()));
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        assert!(text.contains("hmac-sha256:k:...") && !text.contains("c2VjcmV0"), "{text}");
    }
}

#[test]
fn two_thousand_connections_are_held_at_once() {
    netio::resource_limits::raise_open_files().expect("up to the hard limit");
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let port = listener.local_addr().expect("bound").port();
    let server = thread::spawn(move || {
        let mut streams: Vec<TcpStream> = listener.incoming().take(2000).collect::<Result<_, _>>().expect("loopback");
        let sources: HashSet<_> = streams.iter().map(|stream| stream.peer_addr().expect("connected").ip()).collect();
        // The first one ends after the last one is established.
        (sources.len(), streams.iter_mut().all(|stream| matches!(stream.read(&mut [0]), Ok(0))))
    });
    let output = run(&format!(
        "hold --server 127.0.0.1 --port {port} --connections 2000 --rate 4000 --seconds 0.2 --sources 4 --source-prefix 127.20.0.0/16"
    ));
    let sum = records(&output).pop().expect("a sum");
    let zonda = &sum["zonda"];
    assert_eq!((&zonda["open"], &zonda["failed"], &zonda["closed_by_peer"]), (&2000.into(), &0.into(), &0.into()));
    assert_eq!(server.join().expect("no panic"), (4, true));
}

#[test]
fn too_few_descriptors_are_reported_with_the_number_needed() {
    let output = run("hold --server 127.0.0.1 --port 9 --connections 4000000000");
    let stderr = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("descriptors; allow 4000000016"), "{stderr}");
}

#[test]
fn the_peak_of_a_rate_limited_server_is_found() {
    passes_in_one_of_ten(find_the_peak_of_a_rate_limited_server);
}

fn find_the_peak_of_a_rate_limited_server() {
    // 500 responses per second, by a token bucket of 20.
    let (mut tokens, mut last) = (20.0, Instant::now());
    let server = udp_server::serve(move |_, _| {
        let now = Instant::now();
        tokens = f64::min(20.0, tokens + (now - last).as_secs_f64() * 500.0);
        last = now;
        let has_token = tokens >= 1.0;
        tokens -= f64::from(u8::from(has_token));
        has_token
    });
    let (port, queries) = (server.port(), file("peak.queries", "a.example A\n"));
    let output = run(&format!(
        "query --server 127.0.0.1 --port {port} --queries {} --find-peak 90 --rate 200 --seconds 0.4 --timeout-ms 50 --resolution 20",
        queries.display()
    ));
    let sum = records(&output).pop().expect("a sum");
    let peak = &sum["zonda"]["peaks"][0];
    let rate = peak["rate"].as_f64().expect("a number");
    assert!((400.0..800.0).contains(&rate), "{peak}");
    let failed = peak["failed_rate"].as_f64().expect("a number");
    assert!(failed > rate && failed <= rate * 1.21 && peak["failure"] == "unanswered", "{peak}");
    let trials: Vec<Value> = records(&output).into_iter().filter(|record| record["msg_type"] == "trial").collect();
    assert_eq!(trials.len() as u64, peak["trials"].as_u64().expect("a number"));
    for trial in trials.iter().map(|trial| &trial["zonda"]) {
        let window = |key: &str| trial[key].as_u64().expect("a time");
        let seconds = (window("until") - window("since")) as f64 / 1e9;
        assert!((0.4..0.6).contains(&seconds) || trial["on_schedule"] == false, "{trial}");
        let share =
            trial["responses_in_window"].as_f64().expect("a number") / trial["scheduled"].as_f64().expect("a number");
        assert!((share - trial["answered"].as_f64().expect("a number")).abs() < 1e-9, "{trial}");
    }
}
