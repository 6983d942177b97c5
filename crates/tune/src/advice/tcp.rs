//! How TCP behaves: acknowledgements, congestion, metrics.

use super::evidence::{
    BIND_AT_FULL_LOAD, LATENCY, PROCESSOR, SHARE, TRANSFER, alone, effect, group, medians, sweep, together,
};
use super::sources::Document::{Diiner, Esnet, Kernel, LowerValues, Operator, Rfc2018, Usc};
use super::sources::{advises, says};
use super::workload::Role;
use super::{Advice, Group, SETTING, Setting, card};

const TCP: Setting = Setting { group: Group::Tcp, ..SETTING };

/// The paths of E30 on which congestion control and SACK may matter.
const LONG_OR_LOSSY: &[&str] = &["zonda, 100 ms", "zonda, 20 ms, 1 % loss", "zonda, 100 ms, 1 % loss"];
const RETRIES: &str = "net.ipv4.tcp_retries2";

pub(super) const SETTINGS: &[Setting] = &[
    Setting {
        name: "net.ipv4.tcp_sack",
        rule: "1, the default: without it the sender learns of one lost packet in each round trip",
        compute: |case| {
            case.default(
                "net.ipv4.tcp_sack",
                "1",
                "several lost packets of a long answer or transfer are sent again within a round trip",
            )
        },
        sources: &[
            advises(Operator, "0"),
            advises(Diiner, "1")
                .saying(" lowers latency by 1.5 % at full load; but 1 is the default of Linux, so this may be chance"),
            advises(Kernel, "1").saying(" by default"),
            says(Rfc2018, "without it a sender learns of a single lost packet per round trip time"),
        ],
        evidence: &[
            effect("E30", TRANSFER, "sack 0").only(LONG_OR_LOSSY),
            sweep("sack 1 (the default)"),
            sweep("sack 0"),
            group("other operator"),
        ],
        risk: "0 makes transfers slow over paths that lose several packets of a window, as RFC 2018 says; our records do not show it",
        condition: "paths with loss; E16 and E17 have a link without loss, where SACK does nothing",
        ..TCP
    },
    Setting {
        name: "net.ipv4.tcp_timestamps",
        rule: "1, the default: they protect against old packets, and their offset is random since Linux 4.12",
        compute: |case| {
            case.default(
                "net.ipv4.tcp_timestamps",
                "1",
                "they are needed by tcp_tw_reuse and by the protection of long transfers against old packets",
            )
        },
        sources: &[says(LowerValues, "0 was for kernels before 4.12; 1 is recommended since then")],
        evidence: &[alone(PROCESSOR, "timestamps 0"), together(SHARE, "tw_reuse 1, timestamps 0")],
        risk: "12 octets in each packet",
        ..TCP
    },
    Setting {
        name: "net.ipv4.tcp_congestion_control",
        rule: "left for queries; for transfers over long paths bbr or cubic, whichever the kernel has",
        compute: |case| {
            let transfers = case.is_role(&[Role::Primary, Role::Secondary]);
            let why = match transfers {
                true => "for transfers over long and lossy paths try bbr; it concerns the sender, the primary",
                false => "answers fit into the initial window, where congestion control has no say",
            };
            case.leave("net.ipv4.tcp_congestion_control", why)
        },
        sources: &[
            advises(Esnet, "htcp").saying(" for 10G and 100 ms"),
            advises(Kernel, "cubic").saying(" by default"),
        ],
        evidence: &[
            effect("E30", TRANSFER, "bbr").only(LONG_OR_LOSSY),
            effect("E30", TRANSFER, "reno").only(&["zonda, 100 ms", "zonda, 100 ms, 1 % loss"]),
        ],
        risk: "an algorithm that is missing as a module makes the whole line of sysctl fail",
        condition: "transfers over paths with delay or loss; E30 compares with cubic. htcp needs a kernel with it (CONFIG_TCP_CONG_HTCP), which the kernel of the lab lacks, and is not measured here",
        ..TCP
    },
    Setting {
        name: "net.ipv4.tcp_mtu_probing",
        rule: "1 where the card has jumbo frames, so that a path that drops them silently recovers; otherwise left at 0",
        compute: |case| {
            let jumbo = card::fastest(case).filter(|card| card.mtu > 1_500);
            match (jumbo, case.host.sysctl_number("net.ipv4.tcp_mtu_probing")) {
                (_, None) => Advice::Absent(super::missing()),
                (Some(card), Some(0 | 1)) => Advice::set(1, format!("{} has an MTU of {}", card.name, card.mtu)),
                (Some(_), Some(_)) => Advice::Keep("probing is on".into()),
                (None, Some(_)) => Advice::Leave("the card has no jumbo frames".into()),
            }
        },
        sources: &[advises(Esnet, "1").saying(" for hosts with jumbo frames")],
        evidence: &[alone(TRANSFER, "mtu_probing 1")],
        risk: "small packets for a while after a loss",
        condition: "an MTU above 1500",
        ..TCP
    },
    Setting {
        name: "net.ipv4.tcp_low_latency",
        rule: "left: it has done nothing since Linux 4.14",
        compute: |case| match case.host.kernel_version() {
            Some(version) if version < (4, 14) => case.leave(
                "net.ipv4.tcp_low_latency",
                "on this old kernel 1 turns the prequeue off, which an event loop never uses",
            ),
            _ => case.leave("net.ipv4.tcp_low_latency", "it has done nothing since Linux 4.14"),
        },
        sources: &[advises(Operator, "1").saying("; “removed in v4.13”")],
        risk: "none: useless",
        ..TCP
    },
    Setting {
        name: "net.ipv4.tcp_no_metrics_save",
        rule: "left at 0: the saved round-trip times help clients that come back",
        compute: |case| {
            case.default(
                "net.ipv4.tcp_no_metrics_save",
                "0",
                "a returning client's connection starts with what was learned",
            )
        },
        sources: &[advises(Operator, "1")],
        evidence: &[alone(LATENCY, "no_metrics_save 1"), group("other operator")],
        risk: "with 0 one bad moment can slow the next connection to that client",
        ..TCP
    },
    Setting {
        name: "net.ipv4.tcp_tso_win_divisor",
        rule: "left at 3, the default",
        compute: |case| {
            case.default("net.ipv4.tcp_tso_win_divisor", "3", "a DNS answer is rarely large enough for it to matter")
        },
        sources: &[says(Diiner, "1 is massively negative, and not recommended")],
        evidence: &[
            effect("E16", "Answered rate", "tso_win_divisor 1").only(BIND_AT_FULL_LOAD),
            sweep("tso_win_divisor 1"),
        ],
        risk: "1 lets one burst take the whole congestion window",
        ..TCP
    },
    Setting {
        name: "net.ipv4.tcp_slow_start_after_idle",
        rule: "0 for a primary that keeps connections open between transfers, otherwise left",
        compute: |case| match (
            case.is_role(&[Role::Primary]),
            case.host.sysctl_number("net.ipv4.tcp_slow_start_after_idle"),
        ) {
            (_, None) => Advice::Absent(super::missing()),
            (true, Some(_)) => Advice::set(0, "a transfer on a connection that was idle starts with the window it had"),
            (false, Some(_)) => Advice::Leave("answers to queries fit into the first window".into()),
        },
        sources: &[advises(Kernel, "1").saying(" by default: the window falls back after an idle time")],
        risk: "a burst into a path that has become narrower",
        condition: "secondaries that keep connections open",
        ..TCP
    },
    Setting {
        name: RETRIES,
        rule: "left at 15, the default, or at 8 and more; back to 15 below, because a connection must survive 100 s without a path",
        compute: |case| match case.host.sysctl_number(RETRIES) {
            Some(0..8 | 15) => case.default(RETRIES, "15", "below 8 a connection dies before 100 s have passed"),
            _ => case.leave(RETRIES, "the server's own deadlines close connections without progress earlier"),
        },
        sources: &[
            says(Operator, "“see tcp_retries2 for details” of tcp_orphan_retries, without a value"),
            advises(Kernel, "15").saying(" by default, about 924 s; at least 8, about 100 s"),
        ],
        risk: "too low: a transfer over a path that fails for a moment is cut",
        ..TCP
    },
    // RFC 9210 4.1 recommends it for servers. It is left because of its risk.
    Setting {
        name: "net.ipv4.tcp_fastopen",
        rule: "left: 1 lets clients use it; the server side needs 3 and a server that asks for it, or 1027 for every listener",
        compute: |case| {
            case.leave(
                "net.ipv4.tcp_fastopen",
                "it saves a round trip on a new connection, but few resolvers send data in the SYN, and middleboxes drop it",
            )
        },
        sources: &[says(
            super::sources::Document::KnotManual,
            "2 or 3 for the server side, 1 or 3 for the client side",
        )],
        evidence: &[alone(LATENCY, "fastopen 1027")],
        risk: "data in a SYN can be replayed; whoever shares the address of a client can have answers of many KB sent to it",
        condition: "one query for each connection, over a distance",
        ..TCP
    },
    Setting {
        name: "queries on a connection",
        place: super::Place::Habit,
        rule: "left to the clients: many queries on a connection cost far less than a connection each",
        compute: |_| Advice::Leave("the server answers all queries of a connection, several at once (RFC 7766)".into()),
        sources: &[says(Usc, "processing out of order in parallel is faster")],
        evidence: &[medians("E31", "Server CPU time per answer").only(&[
            "zonda, TCP, open connections",
            "zonda, TCP, a connection per query",
            "bind, TCP, open connections",
            "bind, TCP, a connection per query",
        ])],
        risk: "none known",
        ..TCP
    },
];
