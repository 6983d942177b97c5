//! Searches with simulated servers.

use super::*;
use fastrand::Rng;
use std::convert::Infallible;

fn search(objectives: &[&str], first_rate: f64) -> Search {
    let objectives = objectives.iter().map(|text| text.parse().expect("an objective")).collect();
    Search { objectives, first_rate, resolution: 0.02 }
}

fn trial(answered: f64) -> Trial {
    let mut latency = LatencyHistogram::default();
    latency.saturating_record(if answered < 0.995 { 1_000_000_000 } else { 100_000 });
    Trial {
        answered,
        latency,
        schedule_error: LatencyHistogram::default(),
        has_wrong: false,
        is_void: false,
        busy: 0.2,
    }
}

/// Searches with a server that answers `capacity` queries per second and drops the others. In one of ten trials the
/// network loses some more, and in one of ten the generator falls behind.
fn peaks(search: &Search, capacity: f64, generator: f64) -> (Vec<Peak>, u32) {
    let (mut random, mut count) = (Rng::with_seed(5), 0);
    let mut peaks = Vec::new();
    let searched = search.run(&mut peaks, |rate| {
        count += 1;
        let packet_loss = if random.usize(..10) == 0 { 0.003 } else { 0.0 };
        let hiccup = random.usize(..10) == 0;
        let is_void = rate > generator || hiccup;
        Ok::<_, Infallible>(Trial { is_void, ..trial((capacity / rate).min(1.0 - packet_loss)) })
    });
    searched.expect("infallible");
    (peaks, count)
}

fn failed_rate(peak: &Peak) -> f64 {
    peak.failure.expect("a rate failed").0
}

#[test]
fn the_peak_is_found_from_below_and_above() {
    for first_rate in [10.0, 1000.0, 3e6] {
        let (peaks, count) = peaks(&search(&["100", "90"], first_rate), 123_456.0, 1e9);
        assert!((0.97..1.001).contains(&(peaks[0].rate / 123_456.0)), "{peaks:?}");
        assert!((0.97..1.001).contains(&(peaks[1].rate / (123_456.0 / 0.9))), "{peaks:?}");
        assert!(peaks.iter().all(|peak| !peak.generator_bound && failed_rate(peak) > peak.rate));
        assert!(peaks.iter().all(|peak| failed_rate(peak) <= peak.rate * 1.021), "{peaks:?}");
        assert_eq!(peaks.iter().map(|peak| peak.trials).sum::<u32>(), count);
        assert!(count < 100, "{count} trials");
    }
}

/// A start far below the peak is no ceiling.
#[test]
fn the_search_extends_upward_without_a_limit() {
    let (peaks, _) = peaks(&search(&["99"], 1.0), 30e6, 1e9);
    assert!((0.97..1.02).contains(&(peaks[0].rate / (30e6 / 0.99))), "{peaks:?}");
}

#[test]
fn a_slow_generator_is_reported_as_the_bottleneck() {
    let (found, _) = peaks(&search(&["99"], 100.0), 1e6, 5e4);
    assert!(found[0].generator_bound && (0.97..1.001).contains(&(found[0].rate / 5e4)), "{found:?}");
    assert_eq!(found[0].failure.map(|(_, why)| why), Some(Failure::Generator));
}

#[test]
fn a_busy_generator_is_at_its_limit_even_on_schedule() {
    let mut found = Vec::new();
    let capacity = |rate: f64| Ok::<_, Infallible>(Trial { busy: rate / 1e5, ..trial(9.5e4 / rate) });
    search(&["100"], 100.0).run(&mut found, capacity).expect("infallible");
    assert!(found[0].generator_bound && found[0].failure.map(|(_, why)| why) == Some(Failure::Unanswered), "{found:?}");
}

/// The generator has headroom at the rate that passes, but not in the trials that fail: one without it may be what failed.
#[test]
fn a_rate_that_only_a_busy_generator_failed_is_no_peak_of_the_server() {
    for (busy, generator_bound) in [(0.95, true), (0.85, false)] {
        let mut found = Vec::new();
        let trial =
            |rate: f64| Ok::<_, Infallible>(Trial { busy: if rate > 5e4 { busy } else { 0.6 }, ..trial(5e4 / rate) });
        search(&["100"], 100.0).run(&mut found, trial).expect("infallible");
        assert_eq!(found[0].generator_bound, generator_bound, "{found:?}");
        assert_eq!(found[0].failure.map(|(_, why)| why), Some(Failure::Unanswered));
    }
}

#[test]
fn a_server_that_never_answers_has_no_peak() {
    let (peaks, _) = peaks(&search(&["99"], 100.0), 0.0, 1e9);
    assert_eq!(peaks[0].rate, 0.0);
}

/// A server that falsifies answers from 5000 queries per second on: one wrong answer fails the rate, whatever other trials say.
#[test]
fn wrong_answers_void_a_rate() {
    let (mut found, mut count) = (Vec::new(), 0);
    let searched = search(&["99"], 100.0).run(&mut found, |rate| {
        count += 1;
        Ok::<_, Infallible>(Trial { has_wrong: rate >= 5000.0 && count % 2 == 0, ..trial(1e6 / rate) })
    });
    searched.expect("infallible");
    assert!((0.97..1.0).contains(&(found[0].rate / 5000.0)), "{found:?}");
    assert_eq!(found[0].failure.map(|(_, why)| why), Some(Failure::Wrong));
}

#[test]
fn the_highest_rate_below_a_latency_limit_is_found() {
    // The latency of an M/M/1 queue: 1 / (capacity - rate).
    let mut found = Vec::new();
    let searched = search(&["99", "p99=1ms"], 100.0).run(&mut found, |rate| {
        let mut latency = LatencyHistogram::default();
        let ns = if rate < 50_000.0 { 1e9 / (50_000.0 - rate) } else { 1e9 };
        latency.saturating_record(ns as u64);
        Ok::<_, Infallible>(Trial { latency, ..trial(50_000.0 / rate) })
    });
    searched.expect("infallible");
    assert!((0.97..1.001).contains(&(found[1].rate / 49_000.0)), "{found:?}");
    assert_eq!(found[1].failure.map(|(_, why)| why), Some(Failure::Latency));
    assert!(found[1].trials < 12, "it starts from the trials of the first objective: {found:?}");
}

/// Latencies above the limit that the generator may have caused itself say nothing about the server.
#[test]
fn a_late_generator_is_not_taken_for_a_slow_server() {
    let mut found = Vec::new();
    let searched = search(&["p99=1ms"], 100.0).run(&mut found, |rate| {
        let (mut latency, mut schedule_error) = (LatencyHistogram::default(), LatencyHistogram::default());
        let late_ns = if rate > 20_000.0 { 5_000_000 } else { 10_000 };
        schedule_error.saturating_record(late_ns);
        latency.saturating_record(100_000 + late_ns);
        Ok::<_, Infallible>(Trial { latency, schedule_error, ..trial(1.0) })
    });
    searched.expect("infallible");
    assert!(found[0].generator_bound && (0.97..1.001).contains(&(found[0].rate / 20_000.0)), "{found:?}");
}

#[test]
fn objectives_are_parsed_and_printed() {
    for text in ["100", "99.99", "p99=1ms", "p99.9=1.5us", "max=2s", "p50=500ns"] {
        assert_eq!(text.parse::<Objective>().map(|objective| objective.to_string()), Ok(text.into()));
    }
    for text in ["0", "101", "p99", "p99=1", "p0=1ms", "q99=1ms", "p99=-1ms", "max=1h", "max=2e12s", "NaN"] {
        assert!(text.parse::<Objective>().is_err(), "{text}");
    }
}
