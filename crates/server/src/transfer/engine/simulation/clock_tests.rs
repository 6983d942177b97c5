//! Clocks that are set, and a machine that is suspended.

use super::*;

/// An operator or NTP sets the clock: no zone expires because of that, and none waits for years for its next check.
#[test]
fn setting_the_clock_neither_expires_zones_nor_delays_their_checks() {
    const YEARS_S: i64 = 10 * 365 * 86_400;
    for step_s in [YEARS_S, -600_000] {
        let mut simulation = Simulation::new(40, &[&[1]], 3);
        simulation.run_until(10_000);
        simulation.assert_current("before the clock is set");
        simulation.world.clock_step_s = step_s;
        simulation.world.set_time(10_000);
        simulation.engine.step(simulation.world.now, &mut simulation.world);
        let lifetimes = simulation.world.refreshed.values();
        let lifetimes = lifetimes.map(|timers| i64::from(timers.expires_at_s) - i64::from(simulation.world.now.s));
        let lifetimes: Vec<i64> = lifetimes.collect();
        // RFC 7314 3.2: the EXPIRE option, which is computed from them, is right at once.
        assert!(lifetimes.len() == 40 && lifetimes.iter().all(|s| (4900..=5000).contains(s)), "{lifetimes:?}");
        simulation.run_until(21_000);
        assert_eq!(simulation.world.expired.len(), 0, "{step_s}");
        let status = simulation.engine.status(simulation.zones[0].0).expect("it is a zone");
        let lifetime_s = i64::from(status.expires_at_s) - i64::from(simulation.world.now.s);
        assert!((4000..=5000).contains(&lifetime_s), "{step_s}: expires in {lifetime_s} s by the new clock");
        // No NOTIFY arrives: the next check must find the change.
        simulation.raise_serials();
        simulation.run_until(700_000);
        simulation.assert_current(&format!("{step_s}"));
        let timers = simulation.world.refreshed.values().next().expect("all were refreshed");
        assert!(timers.check_at_s.abs_diff(simulation.world.now.s) <= 600, "stored times are those of the new clock");
        simulation.world.faults.insert(1, Fault::Dead);
        simulation.run_until(700_000 + 6_000_000);
        assert_eq!(simulation.world.expired.len(), 40, "{step_s}: zones still expire");
    }
}

/// More zones than are reported at once; the clock is set again meanwhile.
#[test]
fn all_zones_have_times_by_the_new_clock_after_it_was_set() {
    let mut simulation = Simulation::new(10_000, &[&[1]], 3);
    simulation.run_until(100_000);
    simulation.assert_current("before the clock is set");
    let before = simulation.world.refreshed.clone();
    for step_s in [100_000, 300_000] {
        simulation.world.clock_step_s = step_s;
        simulation.world.set_time(100_000);
        simulation.engine.step(simulation.world.now, &mut simulation.world);
    }
    simulation.run_until(100_000);
    for (zone, timers) in &simulation.world.refreshed {
        assert_eq!(timers.expires_at_s, before[zone].expires_at_s + 300_000);
        assert_eq!(timers.check_at_s, before[zone].check_at_s + 300_000);
    }
    assert_eq!(before.len(), 10_000);
}

/// RFC 1034 4.3.5: the time of a suspend counts as any other time. Both clocks go on, and the engine gets no turn.
#[test]
fn zones_are_refreshed_or_expire_at_once_after_a_suspend() {
    for (suspended_s, expired) in [(3000, 0), (86_400, 40)] {
        let mut simulation = Simulation::new(40, &[&[1]], 3);
        simulation.run_until(10_000);
        simulation.raise_serials();
        let resumed_ms = 10_000 + suspended_s * 1000;
        simulation.world.set_time(resumed_ms);
        simulation.engine.step(simulation.world.now, &mut simulation.world);
        assert_eq!(simulation.world.expired.len(), expired, "{suspended_s} s");
        simulation.run_until(resumed_ms + 10_000);
        assert_eq!((simulation.outdated().len(), simulation.world.expired.len()), (0, 0), "{suspended_s} s");
    }
}
