//! Processors: workers, binding, memory nodes, frequency, limits of the cgroup.

use super::evidence::effect;
use super::sources::Document::{Diiner, Microsoft, NlnetLabs, NsdManual};
use super::sources::says;
use super::{Advice, Case, Group, Place, SETTING, Setting, card};

const PROCESSOR: Setting = Setting { group: Group::Processors, place: Place::Habit, ..SETTING };

const WORKERS: &str = "workers and processors";
const GOVERNOR: &str = "CPU governor";
const NUMA: &str = "memory nodes (NUMA)";
const QUOTA: &str = "cgroup limits";

pub(super) const SETTINGS: &[Setting] = &[
    Setting {
        name: WORKERS,
        rule: "one UDP worker for each processor that the server may use; from four processors on, one worker less is worth a trial if the interrupts of a busy card have no processor of their own",
        compute: |case| {
            let processors = case.processors();
            let trial = if processors >= 4 { format!("; try {} as well", processors - 1) } else { String::new() };
            match case.server.workers {
                Some(workers) if processors >= 4 && workers == processors - 1 => Advice::Keep(format!(
                    "{workers} workers for {processors} processors, of which one is left to interrupts"
                )),
                Some(workers) if workers == processors => {
                    Advice::Keep(format!("{workers} workers for {processors} processors{trial}"))
                }
                Some(workers) => Advice::Set {
                    value: processors.to_string(),
                    why: format!("{workers} workers for {processors} processors{trial}"),
                },
                None => Advice::set(processors, format!("{processors} processors{trial}")),
            }
        },
        sources: &[
            says(
                NlnetLabs,
                "on Linux NSD 2 of 4, YADIFA 3 of 4, BIND and Knot 4 of 4; on FreeBSD all: interrupts need the rest",
            ),
            says(Microsoft, "8 receive threads (UdpRecvThreadCount) on more than 12 processors"),
            says(NsdManual, "as many servers as cores"),
        ],
        evidence: &[
            effect("E3", "Answered rate", "2 workers"),
            effect("E3", "Server CPU time per answer", "2 workers"),
        ],
        risk: "more workers than processors take turns, and lose queries while they wait",
        condition: "sources disagree, and differ by server and year; in E3 the second worker shares its processor with the load generator",
        ..PROCESSOR
    },
    Setting {
        name: "binding of workers",
        rule: "left to the server where it binds its own threads, as Zonda does; else one processor for each worker, not shared with an interrupt",
        compute: |case| match case.workload.server {
            super::Server::Zonda => Advice::Keep("zonda binds its UDP threads".into()),
            _ => Advice::Leave("see the server's own options: cpu-affinity (NSD), socket-affinity (Knot)".into()),
        },
        sources: &[
            says(NsdManual, "a dedicated core for each process, no SMT siblings"),
            says(Microsoft, "server threads on the other processors of the card's node"),
        ],
        evidence: &[
            effect("E20", "Server CPU time per answer", "server and load free").only(&["nsd"]),
            effect("E20", "99th percentile latency from the intended send time", "server and load free").only(&["nsd"]),
        ],
        risk: "another program on that processor then stops one worker",
        condition: "Zonda binds its UDP threads in both placements of E20, so that only NSD compares bound with free",
        ..PROCESSOR
    },
    Setting {
        name: NUMA,
        rule: "the server on the memory node of the card, where there are several nodes",
        compute: |case| {
            let nodes = &case.host.cpus.nodes;
            let card = card::fastest(case).and_then(|card| card.node);
            match (nodes.len(), card) {
                (0 | 1, _) => Advice::Keep("there is one memory node".into()),
                (count, Some(node)) => Advice::Set {
                    value: format!("CPUAffinity= and NUMAMask= of node {node} in the server's unit"),
                    why: format!("the card is on node {node} of {count}"),
                },
                (count, None) => Advice::Leave(format!("{count} nodes, and the card does not report its own")),
            }
        },
        sources: &[
            says(Microsoft, "performance falls if RSS and the server are on different nodes"),
            says(NlnetLabs, "a reader suspects NUMA"),
        ],
        risk: "the memory of one node must be enough",
        condition: "several memory nodes",
        ..PROCESSOR
    },
    Setting {
        name: GOVERNOR,
        place: Place::Device,
        rule: "left: under load every governor runs at full speed; performance where the latency of an idle server matters",
        compute: |case| match case.host.cpus.governor.as_deref() {
            None => {
                Advice::Absent("the processor's frequency is not set by this kernel; usual in virtual machines".into())
            }
            Some("performance") => Advice::Keep("it is the fastest".into()),
            Some(_) => {
                Advice::Leave("no effect was found; cpupower frequency-set -g performance for a benchmark".into())
            }
        },
        sources: &[says(Diiner, "performance shows no improvement")],
        risk: "performance takes more power",
        ..PROCESSOR
    },
    Setting {
        name: QUOTA,
        rule: "processor time for all workers, and memory for zones and --connections",
        compute: |case| {
            let surroundings = &case.host.surroundings;
            let allowed = case.host.cpus.usable() as f64;
            match surroundings.cpu_limit {
                Some(limit) if limit < allowed => Advice::Set {
                    value: format!("cpu.max for {allowed} processors, or workers for {}", limit.ceil()),
                    why: format!(
                        "the cgroup {} allows {limit} of {allowed} processors: all workers stop when it is used up",
                        case.whose()
                    ),
                },
                _ if surroundings.memory_limit.is_some() => {
                    Advice::Keep("enough processor time; for memory see memory of connections".into())
                }
                _ => Advice::Keep("there is no limit".into()),
            }
        },
        sources: &[],
        risk: "at the limit of time all threads stop for up to 100 ms; at that of memory the server is killed",
        condition: "containers and systemd slices",
        ..PROCESSOR
    },
    Setting {
        name: "source addresses of a benchmark",
        rule: "many addresses and ports, or RSS gives all packets to one processor",
        compute: |_| Advice::Leave("not a setting of the server: `zonda-load` can send from many addresses".into()),
        sources: &[says(Microsoft, "one client address reaches 260,000 queries per second, random ones 300,000")],
        evidence: &[effect("E8", "Claims", "random source addresses increase the rate by 15 %")
            .only(&["zonda, by the server's CPU", "nsd, by the server's CPU"])],
        risk: "a benchmark from one address measures one processor",
        ..PROCESSOR
    },
    Setting {
        name: "recursion and root hints",
        rule: "off for an authoritative server",
        compute: |case| match case.workload.server {
            super::Server::Bind => Advice::Set {
                value: "recursion no;".into(),
                why: "an authoritative server needs neither cache nor root hints".into(),
            },
            _ => Advice::Keep("this server is authoritative only".into()),
        },
        sources: &[says(Microsoft, "recursion off, root hints removed")],
        ..PROCESSOR
    },
];

/// The current value of a row of this table.
pub(super) fn now(case: &Case, name: &str) -> Option<String> {
    let cpus = &case.host.cpus;
    match name {
        WORKERS => {
            let workers = case.server.workers.map_or(String::new(), |workers| format!("{workers} workers, "));
            Some(format!("{workers}{} processors", cpus.usable()))
        }
        GOVERNOR => cpus.governor.clone(),
        NUMA => Some(cpus.nodes.len().to_string()),
        QUOTA => {
            let surroundings = &case.host.surroundings;
            let limits = [
                surroundings.cpu_limit.map(|limit| format!("{limit} processors")),
                surroundings.memory_limit.map(super::sizes::octets),
                surroundings.task_limit.map(|limit| format!("{limit} tasks")),
            ];
            let limits: Vec<String> = limits.into_iter().flatten().collect();
            (!limits.is_empty()).then(|| format!("{} ({})", limits.join(", "), case.whose()))
        }
        _ => None,
    }
}
