//! What simulated primaries do wrong.

/// What a primary does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Answers nothing and refuses connections.
    Dead,
    /// A machine that is off: not even a RST comes. Every second dead primary is one.
    Off,
    /// Accepts connections and sends nothing.
    Silent,
    /// Loses three of four datagrams.
    Lossy,
    /// Answers REFUSED.
    Refusing,
    /// Does not know IXFR.
    NoIxfr,
    /// Answers the first query of a connection and closes it.
    OnePerConnection,
    /// Closes connections in the middle of the second transfer.
    StopsMidway,
    /// Sends an octet per second.
    Trickle,
    Garbage,
    /// Sends another zone.
    OtherZone,
    /// Sends an older serial.
    Older,
    /// Sends an older serial in transfers alone: several servers have its address.
    OlderTransfers,
    /// Sets TC in all answers over UDP.
    Truncates,
    /// A firewall drops its datagrams.
    NoUdp,
    /// A firewall drops what is sent to its TCP port.
    NoTcp,
    /// Answers REFUSED over UDP.
    RefusesUdp,
    /// Does not know EDNS.
    NoEdns,
    /// As [`Fault::OlderTransfers`], without IXFR.
    OlderWithoutIxfr,
    /// Needs 15 seconds before the first octet of a response over TCP.
    SlowTransfers,
    /// Sends 600 octets per second of each transfer, without an end.
    Endless,
}

/// All but [`Fault::Off`], and those after [`Fault::NoEdns`].
pub const FAULTS: [Fault; 18] = [
    Fault::None,
    Fault::Dead,
    Fault::Silent,
    Fault::Lossy,
    Fault::Refusing,
    Fault::NoIxfr,
    Fault::OnePerConnection,
    Fault::StopsMidway,
    Fault::Trickle,
    Fault::Garbage,
    Fault::OtherZone,
    Fault::Older,
    Fault::OlderTransfers,
    Fault::Truncates,
    Fault::NoUdp,
    Fault::NoTcp,
    Fault::RefusesUdp,
    Fault::NoEdns,
];
