//! The start of the transfer thread, and what receives its transfers.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use tracing::error;
use zone::transfer_receiver::{TransferLimits, TransferReceiver, TransferRequest};
use zone::zone_builder::ZoneBuilderOptions;

use super::receive_memory::ReceiveMemory;
use super::received_zone::ZoneReceiver;
use super::{WriterError, WriterEvent};
use crate::essential_thread;
use crate::tls::{TlsConnector, TlsPeers};
use crate::transfer::engine::{EngineLimits, RequestedTransfer};
use crate::transfer::network::{TransferHandle, TransferNetwork};
use crate::transfer::primary::SizeLimits;

/// The name of the thread.
const NAME: &str = "transfers";

/// Starts the transfer thread; its events go to the writer's queue.
pub(super) fn start(events: Sender<WriterEvent>, tls: TlsPeers) -> Result<TransferHandle, WriterError> {
    let seed = RandomState::new().hash_one(std::process::id());
    let max_octets = netio::resource_limits::physical_memory().map_err(WriterError::Memory)?;
    let memory = ReceiveMemory::new(netio::resource_limits::available_memory);
    let sink = move |transfer: RequestedTransfer<'_>| new_receiver(transfer, max_octets, &memory);
    // Sending fails only if the writer has ended, and that ends with the process.
    let on_event = move |event| _ = events.send(WriterEvent::Transfer(Box::new(event)));
    let (network, transfers) =
        TransferNetwork::new(EngineLimits::default(), seed, Box::new(TlsConnector(tls)), sink, on_event)
            .map_err(WriterError::Descriptors)?;
    let run = move || {
        if let Err(error) = network.run() {
            error!(%error, "cannot wait for the network");
            essential_thread::abort(NAME);
        }
    };
    essential_thread::spawn(NAME, run).map_err(WriterError::Thread)?;
    Ok(transfers)
}

/// A received zone takes at most twice as much memory as it will when it is built, and this much for records that are not encoded yet.
const MAX_STAGED: u64 = 16 << 20;

/// Receives a transfer. What exceeds the limits of the zone by far ends it; they are checked when it is complete. Skipped and repeated
/// records, which take no memory, are bounded by `max_octets`.
pub(super) fn new_receiver(
    transfer: RequestedTransfer<'_>,
    max_octets: u64,
    memory: &Arc<ReceiveMemory>,
) -> ZoneReceiver {
    let RequestedTransfer { apex, from_serial, not_before, limits } = transfer;
    let SizeLimits { max_records, max_bytes } = limits;
    let request = TransferRequest { ixfr_from: from_serial, not_before, is_udp: false };
    let or_unlimited = |limit: u32, max: u64| if limit == 0 { u64::MAX } else { max };
    let limits = TransferLimits {
        max_octets,
        max_records: or_unlimited(max_records, max_records.into()),
        max_memory: or_unlimited(max_bytes, 2 * u64::from(max_bytes) + MAX_STAGED),
    };
    let memory = (max_bytes == 0).then(|| memory.share());
    let options = ZoneBuilderOptions { source: "transfer".into(), ..ZoneBuilderOptions::default() };
    let receiver = Box::new(TransferReceiver::new(apex, request, limits, options));
    ZoneReceiver { receiver, accepts_any_serial: not_before.is_none(), memory }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::process::{Command, Output};
    use std::sync::mpsc::channel;

    use super::*;

    /// What is missing in the process that the test runs.
    const MISSING: &str = "ZONDA_TEST_IS_WITHOUT";

    /// Runs the test below once more, in a process of its own.
    fn run_without(missing: &str) -> Output {
        let program = std::env::current_exe().expect("a test program");
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -n 64; exec \"$0\" \"$@\""]).arg(program).env(MISSING, missing);
        // No machine has the memory for the larger stack.
        let stack: u64 = if missing == "threads" { 1 << 60 } else { 1 << 20 };
        command.env("RUST_MIN_STACK", stack.to_string()).env("RUST_TEST_THREADS", "1");
        let test = "writer::transfer_thread::tests::a_start_without_descriptors_or_threads_says_what_is_missing";
        command.args(["--exact", test]).output().expect("it is there")
    }

    #[test]
    fn a_start_without_descriptors_or_threads_says_what_is_missing() {
        let Ok(missing) = std::env::var(MISSING) else {
            for missing in ["descriptors", "threads"] {
                let output = run_without(missing);
                let has_run = output.stdout.windows(8).any(|text| text == b"1 passed");
                assert!(output.status.success() && has_run, "{missing}: {output:?}");
            }
            return;
        };
        let open_files = std::iter::from_fn(|| File::open("/dev/null").ok());
        let _held: Vec<File> = open_files.take(if missing == "descriptors" { usize::MAX } else { 0 }).collect();
        let error = start(channel().0, TlsPeers::default()).map(drop).expect_err("something is missing");
        match missing.as_str() {
            "descriptors" => assert!(matches!(error, WriterError::Descriptors(_)), "{error}"),
            _ => assert!(matches!(error, WriterError::Thread(_)), "{error}"),
        }
    }
}
