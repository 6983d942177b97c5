//! Network cards: queues and steering, rings, interrupts, offloads, queueing discipline.

use std::collections::BTreeSet;

use super::evidence::{effect, qdisc};
use super::sources::Document::{Diiner, Esnet, Kernel, Microsoft, NlnetLabs, Usc};
use super::sources::{advises, says};
use super::{Advice, Case, Group, Place, SETTING, Setting, sizes};
use crate::host::Interface;

const CARD: Setting = Setting { group: Group::Card, place: Place::Device, ..SETTING };

/// The names of rows whose current value is a property of a card.
const RSS: &str = "RSS queues";
const HASH: &str = "RSS hash fields and indirection table";
const RPS: &str = "RPS (rps_cpus)";
const XPS: &str = "XPS (xps_cpus)";
const IRQ: &str = "IRQ affinity";
const RING: &str = "NIC receive buffers (ring)";
const SEND_RING: &str = "NIC transmit buffers (ring)";
const OFFLOADS: &str = "offloads (GRO, GSO, TSO)";
const QDISC: &str = "qdisc of the card";

/// Why there is no advice on a ring.
const NO_RING: &str = "`ethtool` is missing or prints nothing, or the card has no ring to set";

/// Queries from 1,000 addresses, as a server has them: with one address there is nothing to steer.
const MANY_SOURCES: &[&str] = &["zonda, source addresses 1,000", "nsd, source addresses 1,000"];

/// Why polling is off.
const NO_POLLING: &str = "under load the queue is never empty, and idle servers need no microseconds";

const BUSY_POLLING: Setting = Setting {
    place: Place::Sysctl,
    rule: "left at 0: polling burns a processor for a few microseconds of latency; it does nothing where the driver has no queue to poll",
    sources: &[says(
        Kernel,
        "50 is a starting point where latency is everything; a socket has SO_BUSY_POLL for itself",
    )],
    risk: "processors are busy all the time",
    condition: "cards whose driver supports it (a NAPI ID), which namespaces joined by veth have not",
    ..CARD
};

pub(super) const SETTINGS: &[Setting] = &[
    Setting {
        name: "net.core.default_qdisc",
        place: Place::Sysctl,
        rule: "left: what the distribution chose; fq where tcp_congestion_control is bbr on kernels before 4.13",
        compute: |case| {
            let bbr = case.host.sysctl("net.ipv4.tcp_congestion_control").as_deref() == Some("bbr");
            match (bbr, case.host.kernel_version()) {
                (true, Some(version)) if version < (4, 13) => {
                    Advice::Set { value: "fq".into(), why: "bbr of this kernel needs a qdisc that paces".into() }
                }
                _ => case.leave("net.core.default_qdisc", "DIINER found no impact of any discipline on a DNS server"),
            }
        },
        sources: &[advises(Esnet, "fq"), says(Diiner, "sfq, codel, fq_codel, fq: no impact under any load")],
        evidence: &[qdisc("qdisc fq"), qdisc("qdisc fq_codel")],
        risk: "none known: a card with several queues gets it for each of them, below mq, and a card that is up keeps its own",
        ..CARD
    },
    Setting {
        name: "fq maxrate (tc)",
        rule: "left, except for a primary whose bursts overflow the switch or the receivers: then 80 % of the card's speed",
        compute: |case| match fastest(case).and_then(|card| card.speed) {
            Some(mbit @ 10_000..) => Advice::Leave(format!(
                "only if transfers lose packets in the switch: tc qdisc replace dev {} root fq maxrate {}mbit",
                name(case),
                mbit / 5 * 4
            )),
            Some(_) => Advice::Leave("it is meant for 10 Gbit/s and more".into()),
            None => Advice::Absent("no card reports its speed".into()),
        },
        sources: &[says(Esnet, "8gbit on a 10G host: avoids bursts that overflow switch and receiver")],
        risk: "it limits each flow; too low, it slows transfers. As the root of a card with several queues it replaces mq, and all processors wait for one lock",
        condition: "10 Gbit/s and more, and losses during transfers",
        ..CARD
    },
    Setting {
        name: QDISC,
        rule: "left: noqueue, mq or fq_codel of the distribution",
        compute: |case| match now(case, QDISC) {
            Some(_) => Advice::Leave("DIINER found no impact of any discipline on a DNS server".into()),
            None => Advice::Absent("`tc` is missing or prints nothing, or there is no card".into()),
        },
        sources: &[says(Diiner, "sfq, codel, fq_codel, fq: no impact under any load")],
        evidence: &[qdisc("qdisc fq"), qdisc("qdisc fq_codel")],
        ..CARD
    },
    Setting {
        name: RSS,
        rule: "as many combined queues as physical cores of the card's memory node, at most as many as the card has and as the server has workers",
        compute: rss,
        sources: &[
            says(
                Microsoft,
                "of 10 cores of a node 4 for RSS, of 6 cores 2, one core each; 8 queues for mid-range systems; 4 handle 150,000 queries per second",
            ),
            says(NlnetLabs, "readers: the card decides; on Linux the interrupt handler takes the rest of the cores"),
        ],
        evidence: &[effect("E8", "Server CPU time per answer", "by the server's CPU").only(MANY_SOURCES)],
        risk: "the link goes down for a moment when the number changes",
        condition: "cards with several queues; sources disagree: fewer queues than cores (Microsoft), or one each; the record is of veth, where RPS stands for RSS",
        ..CARD
    },
    Setting {
        name: HASH,
        rule: "left: where a card hashes addresses only, all queries of one address reach one queue, which matters only where few addresses send most queries, such as proxies, load balancers and benchmarks: ethtool -N DEV rx-flow-hash udp4 sdfn, the same for udp6, and ethtool -X DEV equal N, so that the indirection table has all N queues",
        compute: hash_fields,
        sources: &[
            says(Microsoft, "from one source address all packets reach one core"),
            says(Kernel, "the indirection table spreads hashes evenly over all queues by default"),
        ],
        risk: "fragments have no ports, so that those of one datagram arrive at another queue than the others",
        condition: "cards with several queues, and few addresses that send most queries",
        ..CARD
    },
    Setting {
        name: RPS,
        rule: "left where the card has as many queues as it needs; for a card with one queue, all processors of its node but the one that takes the interrupt",
        compute: rps,
        sources: &[
            says(Kernel, "for cards with fewer queues than processors that share a cache"),
            says(Microsoft, "from one source address all packets reach one core"),
        ],
        evidence: &[
            effect("E8", "Server CPU time per answer", "by the server's CPU").only(MANY_SOURCES),
            effect("E8", "Answered rate", "by the server's CPU").only(MANY_SOURCES),
            effect("E20", "Server CPU time per answer", "a core each, packets on the server's"),
        ],
        risk: "it saves CPU time while the processors are nearly idle; at a high load the server's processor has less time for it",
        condition: "one queue and at least four processors",
        ..CARD
    },
    Setting {
        name: XPS,
        rule: "left: drivers with several queues set it themselves",
        compute: |case| match now(case, XPS) {
            Some(_) => Advice::Leave("a send queue for each processor is what drivers set".into()),
            None => Advice::Absent("no card has several send queues".into()),
        },
        sources: &[says(Kernel, "set by the driver where possible")],
        ..CARD
    },
    Setting {
        name: IRQ,
        rule: "one interrupt for each processor, on the card's memory node, without irqbalance, where the card has several queues; then bind workers beside them",
        compute: irq,
        sources: &[
            says(Usc, "see ESnet on interrupt binding"),
            says(Microsoft, "a physical core for each RSS queue, and none of them at 100 %"),
            says(NlnetLabs, "a reader suspects NUMA behind the limit on Linux"),
        ],
        risk: "a fixed binding does not follow a change of load",
        condition: "cards with several queues",
        ..CARD
    },
    Setting {
        name: RING,
        rule: "the packets of 5 ms at --rate for each queue, a power of two, from 512 to what the card has",
        compute: ring,
        sources: &[says(Microsoft, "the maximum; 2048 is good for mid-range systems; 3000 in the settings of Hyper-V")],
        risk: "a ring larger than the cache costs cache misses; the link goes down for a moment",
        ..CARD
    },
    Setting {
        name: SEND_RING,
        rule: "left: answers that the card cannot take yet wait in its qdisc",
        compute: |case| match now(case, SEND_RING) {
            Some(_) => Advice::Leave("the qdisc holds what the ring does not".into()),
            None => Advice::Absent(NO_RING.into()),
        },
        sources: &[says(Microsoft, "3000 in the settings of Hyper-V, as for receiving")],
        risk: "a larger ring delays an answer behind a transfer",
        ..CARD
    },
    Setting {
        name: OFFLOADS,
        rule: "on, which is the default; receive offload (LRO) off on a host that forwards",
        compute: |case| {
            let Some(card) = fastest(case).filter(|card| !card.offloads.is_empty()) else {
                return Advice::Absent("`ethtool` is missing or prints nothing, or there is no card".into());
            };
            let wanted = ["generic-receive-offload", "generic-segmentation-offload", "tcp-segmentation-offload"];
            let off: Vec<&str> = wanted.into_iter().filter(|name| card.offloads.get(*name) == Some(&false)).collect();
            match off[..] {
                [] => Advice::Keep("transfers over TCP need them; UDP queries are not affected".into()),
                _ => Advice::Set {
                    value: format!("ethtool -K {} gro on gso on tso on", card.name),
                    why: format!("off: {}; transfers over TCP need them", off.join(", ")),
                },
            }
        },
        sources: &[says(Kernel, "on by default")],
        ..CARD
    },
    Setting {
        name: "queues of virtual machines",
        place: Place::Habit,
        rule: "as many virtio or SR-IOV queues as virtual processors, given by the host",
        compute: queues_of_guest,
        sources: &[says(
            Microsoft,
            "8 RSS queues in a guest of 8 cores, 16 on the host, VM queues on, VM buffers 16 MB in and 32 MB out",
        )],
        condition: "virtual machines",
        ..CARD
    },
    Setting {
        name: "net.core.busy_poll",
        compute: |case| case.default("net.core.busy_poll", "0", NO_POLLING),
        ..BUSY_POLLING
    },
    Setting {
        name: "net.core.busy_read",
        compute: |case| case.default("net.core.busy_read", "0", NO_POLLING),
        ..BUSY_POLLING
    },
];

/// The current value of a row of this table.
pub(super) fn now(case: &Case, name: &str) -> Option<String> {
    let card = fastest(case)?;
    let of = |value: String| Some(format!("{}: {value}", card.name));
    match name {
        RSS => of(card
            .channels
            .map_or(format!("{} queues", card.rx_queues), |(now, most)| format!("{now} of {most} queues"))),
        HASH => of(if card.hashes_udp_ports? { "addresses and ports" } else { "addresses" }.into()),
        RPS if !card.rps.is_empty() => of(card.rps.join(" ")),
        XPS if card.xps.len() > 1 => of(card.xps.join(" ")),
        IRQ if !card.interrupts.is_empty() => {
            let on = |cpus: &Vec<usize>| cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
            of(card
                .interrupts
                .iter()
                .map(|(number, cpus)| format!("{number} on {}", on(cpus)))
                .collect::<Vec<_>>()
                .join(" "))
        }
        RING => card.rx_ring.and_then(|(now, most)| of(format!("{now} of {most}"))),
        SEND_RING => card.tx_ring.and_then(|(now, most)| of(format!("{now} of {most}"))),
        OFFLOADS if !card.offloads.is_empty() => {
            let on = card.offloads.iter().filter(|(name, on)| {
                **on && matches!(
                    name.as_str(),
                    "generic-receive-offload"
                        | "generic-segmentation-offload"
                        | "tcp-segmentation-offload"
                        | "large-receive-offload"
                )
            });
            of(on.map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(" "))
        }
        QDISC => card.qdisc.clone().and_then(of),
        _ => None,
    }
}

/// The card that the advice is about: the fastest, else the one with most queues.
pub(super) fn fastest<'a>(case: &'a Case) -> Option<&'a Interface> {
    let devices = case.host.interfaces.iter().filter(|interface| interface.is_device);
    devices.max_by_key(|interface| (interface.speed, interface.rx_queues)).or_else(|| case.host.interfaces.first())
}

fn name<'a>(case: &'a Case) -> &'a str {
    fastest(case).map_or("eth0", |card| card.name.as_str())
}

fn rss(case: &Case) -> Advice {
    let Some(card) = fastest(case) else { return Advice::Absent("there is no card".into()) };
    let node = case.host.cpus.node(card.node);
    let cores = node.map_or(case.host.cpus.cores, |node| node.cores) as u64;
    let Some((now, most)) = card.channels else {
        return Advice::Absent(format!(
            "{} has {} queues, and `ethtool` is missing, prints nothing, or cannot change them",
            card.name, card.rx_queues
        ));
    };
    let wanted = most.min(cores).min(case.udp_sockets()).max(1);
    let why = format!(
        "the node of {} has {cores} cores, the card at most {most} queues, the server {} sockets",
        card.name,
        case.udp_sockets()
    );
    match wanted == now {
        true => Advice::Keep(why),
        false => Advice::Set { value: format!("ethtool -L {} combined {wanted}", card.name), why },
    }
}

fn hash_fields(case: &Case) -> Advice {
    let Some(card) = fastest(case).filter(|card| card.rx_queues > 1) else {
        return Advice::Absent("no card has several queues".into());
    };
    match card.hashes_udp_ports {
        None => Advice::Absent("`ethtool` is missing, or the card does not report its hash fields".into()),
        Some(true) => Advice::Keep("queries of one address, but from several ports, reach several queues".into()),
        Some(false) => Advice::Leave(format!(
            "queries from many addresses reach all queues; where few addresses send most of them: ethtool -N {0} rx-flow-hash udp4 sdfn, the same for udp6, and ethtool -X {0} equal {1}",
            card.name, card.rx_queues
        )),
    }
}

fn rps(case: &Case) -> Advice {
    /// With fewer, the processor that would take over the packets runs the server.
    const ENOUGH: usize = 4;
    let Some(card) = fastest(case) else { return Advice::Absent("there is no card".into()) };
    let cpus = case.host.cpus.node(card.node).map_or(&case.host.cpus.allowed, |node| &node.cpus);
    match (card.rx_queues, cpus.len()) {
        (1, ENOUGH..) if !card.has_rps() => {
            let taken = card.interrupts.values().next().and_then(|cpus| cpus.first()).copied().unwrap_or(0);
            let others: Vec<usize> = cpus.iter().copied().filter(|cpu| *cpu != taken).collect();
            let value = format!("echo {} > /sys/class/net/{}/queues/rx-0/rps_cpus", mask(&others), card.name);
            Advice::Set {
                value,
                why: format!("one queue for {} processors: processor {taken} would do all packet work", cpus.len()),
            }
        }
        (1, ENOUGH..) => Advice::Keep("the packets of the one queue are spread".into()),
        (queues, count) => Advice::Leave(format!(
            "{queues} queues for {count} processors: steering to another processor costs more than it gains"
        )),
    }
}

fn irq(case: &Case) -> Advice {
    let Some(card) = fastest(case).filter(|card| card.rx_queues > 1 && !card.interrupts.is_empty()) else {
        return Advice::Absent("no card has several queues with interrupts of their own".into());
    };
    // A card that does not report its node is as near to all processors.
    let node = case.host.cpus.nodes.iter().find(|node| Some(node.number) == card.node);
    let cpus = node.map_or(&case.host.cpus.allowed, |node| &node.cpus);
    let bound = card.interrupts.values().filter(|bound| bound.len() == 1 && cpus.contains(&bound[0]));
    let (near, different) = (bound.clone().count(), bound.collect::<BTreeSet<_>>().len());
    let total = card.interrupts.len();
    let is_spread = near == total && different == total.min(cpus.len());
    let why = format!(
        "{near} of {total} interrupts of {} are bound to one processor near it, and they have {different} of {} processors",
        card.name,
        cpus.len()
    );
    match (is_spread, case.host.cpus.irqbalance) {
        (true, false) => Advice::Keep(why),
        (_, irqbalance) => Advice::set(
            "one processor of the card's node for each /proc/irq/N/smp_affinity_list",
            if irqbalance { why + "; irqbalance moves them: stop it" } else { why },
        ),
    }
}

fn queues_of_guest(case: &Case) -> Advice {
    let (host, card) = (case.host, fastest(case).filter(|card| card.is_device));
    let Some(card) = card.filter(|_| host.surroundings.virtual_machine) else {
        return Advice::Absent("no hypervisor is visible here, or there is no card".into());
    };
    let why = format!("{} has {} queues for {} processors", card.name, card.rx_queues, host.cpus.online);
    match card.rx_queues == 1 && host.cpus.online > 2 {
        true => Advice::set(format!("{} queues for {}, set on the hypervisor", host.cpus.online, card.name), why),
        false => Advice::Keep(why),
    }
}

fn ring(case: &Case) -> Advice {
    let Some((card, (now, most))) = fastest(case).and_then(|card| Some((card, card.rx_ring?))) else {
        return Advice::Absent(NO_RING.into());
    };
    let arriving = sizes::datagrams(case.queries_per_s(), card.rx_queues as u64, sizes::SOFTIRQ_PAUSE_MS);
    let wanted = arriving.next_power_of_two().max(512).min(most);
    let why =
        format!("{arriving} packets reach each of {} queues within {} ms", card.rx_queues, sizes::SOFTIRQ_PAUSE_MS);
    match now >= wanted {
        true => Advice::Keep(format!("{why}; it is enough")),
        false => Advice::Set { value: format!("ethtool -G {} rx {wanted}", card.name), why },
    }
}

/// A mask of processors in hexadecimal words of 32 bits, as /sys writes it.
fn mask(cpus: &[usize]) -> String {
    let mut words = vec![0_u32; cpus.iter().max().map_or(1, |most| most / 32 + 1)];
    for cpu in cpus {
        words[cpu / 32] |= 1 << (cpu % 32);
    }
    let rest = words.iter().rev().skip(1).map(|word| format!(",{word:08x}"));
    format!("{:x}", words.last().copied().unwrap_or(0)) + &rest.collect::<String>()
}

#[cfg(test)]
mod tests {
    #[test]
    fn masks_have_words_of_32_bits() {
        assert_eq!(super::mask(&[1, 2, 3]), "e");
        assert_eq!(super::mask(&[0, 33]), "2,00000001");
        assert_eq!(super::mask(&[]), "0");
    }
}
