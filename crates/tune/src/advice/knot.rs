//! Options of Knot DNS.

use super::evidence::medians;
use super::sources::Document::{KnotManual, NlnetLabs};
use super::sources::says;
use super::workload::{Role, Server};
use super::{Advice, Group, Place, SETTING, Setting, card, descriptors};

const KNOT: Setting = Setting { group: Group::Server, place: Place::Config(Server::Knot), ..SETTING };

/// Knot's own default for few processors.
const TCP_WORKERS: u64 = 10;

pub(super) const SETTINGS: &[Setting] = &[
    Setting {
        name: "udp-workers",
        rule: "left: one for each processor is the default; set where a cgroup or CPUAffinity gives fewer than are online",
        compute: |case| match case.processors() {
            few if few < case.host.cpus.online as u64 => {
                Advice::set(few, format!("{few} of {} processors may be used", case.host.cpus.online))
            }
            _ => Advice::Leave("the default is one for each processor".into()),
        },
        sources: &[says(KnotManual, "the number of online processors"), says(NlnetLabs, "4 of 4 cores on Linux")],
        ..KNOT
    },
    Setting {
        name: "tcp-workers",
        rule: "left: one for each processor, at least 10, is the default",
        compute: |_| {
            Advice::Leave(format!(
                "the default is one for each processor, at least {TCP_WORKERS}, so that slow clients and transfers leave some"
            ))
        },
        sources: &[says(KnotManual, "the number of online processors, at least 10")],
        ..KNOT
    },
    Setting {
        name: "background-workers",
        rule: "left, except for a secondary or primary of many zones: then one for each processor, at least 10, because a thread waits while it transfers a zone",
        compute: |case| match case.is_role(&[Role::Secondary, Role::Primary]) && case.workload.zones > 10_000 {
            true => Advice::set(
                case.processors().max(TCP_WORKERS),
                "zones are loaded and transferred by these threads, which wait during transfers; the default is one for each processor, at most 10",
            ),
            false => Advice::Leave("the default is one for each processor, at most 10".into()),
        },
        sources: &[says(KnotManual, "the number of online processors, at most 10")],
        ..KNOT
    },
    Setting {
        name: "tcp-max-clients",
        rule: "left: the default is half of the limit of open files, and LimitNOFILE has room for --connections",
        compute: |_| Advice::Leave(format!("half of {} by default; see there", descriptors::UNIT)),
        sources: &[says(KnotManual, "below the limit of open files; half of it by default")],
        evidence: &[medians("E18", "Connections open").only(&["knot, 15,000 idle"])],
        ..KNOT
    },
    Setting {
        name: "tcp-reuseport",
        rule: "on for a secondary that answers many TCP queries, off for a primary",
        compute: |case| match case.workload.role {
            Role::Tcp => Advice::set("on", "each thread accepts for itself"),
            Role::Primary => {
                Advice::Leave("off, the default: transfers would delay the queries that wait at the same thread".into())
            }
            _ => Advice::Leave("off, the default".into()),
        },
        sources: &[says(KnotManual, "advisable on secondaries; transfers may delay other clients")],
        risk: "a thread that is busy with a transfer keeps its clients waiting",
        ..KNOT
    },
    Setting {
        name: "socket-affinity",
        rule: "on where the card has at least as many queues as there are workers",
        compute: |case| {
            let queues = card::fastest(case).map_or(0, |card| card.rx_queues as u64);
            match queues >= case.processors() && queues > 1 {
                true => Advice::set("on", format!("{queues} queues for {} workers", case.processors())),
                false => Advice::Leave(format!("{queues} queues are fewer than {} workers", case.processors())),
            }
        },
        sources: &[says(KnotManual, "not recommended with fewer queues than workers")],
        ..KNOT
    },
    Setting {
        name: "tcp-io-timeout",
        rule: "left at 500 ms: it ends clients that read or write one octet at a time",
        compute: |_| Advice::Leave("as low as possible on public servers".into()),
        sources: &[says(KnotManual, "500 ms; as low as possible against slow clients")],
        risk: "transfers to slow secondaries are cut",
        ..KNOT
    },
    Setting {
        name: "xdp.listen",
        rule: "left: AF_XDP answers without the kernel's network stack, but needs privileges and a fit driver",
        compute: |_| Advice::Leave("try it where the kernel's packet work is the limit".into()),
        sources: &[says(KnotManual, "listen on the address as well, for TCP")],
        risk: "firewall and packet capture do not see these packets",
        ..KNOT
    },
];
