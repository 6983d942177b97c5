//! NOTIFY while very many zones are due.

use std::sync::Arc;

use super::*;

const ZONES: u32 = 10_000;

/// It has a queue of its own. All zones are due and wait for a primary that is off, before and after connections to it were begun.
#[test]
fn notify_waits_for_no_zone_that_is_due() {
    for run_ms in [0, 3000] {
        let mut simulation = Simulation::new(ZONES, &[&[1]], 1);
        simulation.world.faults.insert(1, Fault::Off);
        if run_ms > 0 {
            simulation.run_until(run_ms);
        }
        let (zone, apex, _) = simulation.zones[ZONES as usize - 1].clone();
        let soa: Arc<[u8]> = [&[0, 0][..], &101u32.to_be_bytes(), &[0; 16]].concat().into();
        let targets: Arc<[PeerConfig]> = [PeerConfig::plain(([192, 0, 2, 9], 53).into())].into();
        simulation.engine.command(TransferCommand::SendNotify { zone, apex, soa, targets }, simulation.world.now);
        simulation.engine.step(simulation.world.now, &mut simulation.world);
        assert_eq!(simulation.engine.notify_counters().sent, 1, "after {run_ms} ms");
        assert_eq!(simulation.outdated().len(), ZONES as usize);
        // The first datagrams may be lost.
        simulation.run_until(run_ms + 10_000);
        assert_eq!(simulation.engine.notify_counters().answered, 1, "after {run_ms} ms");
    }
}
