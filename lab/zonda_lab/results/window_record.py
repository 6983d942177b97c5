"""One window: its treatment, metrics, validity, and which of its values are only bounds."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from zonda_lab.errors import LabError
from zonda_lab.experiments.metrics import METRICS

SCHEMA = 1
Bound = Literal["", "at least", "at most"]
LATE_SENDS = "queries left more than 1 ms after their time"  # text printed by zonda-load

# Parts of the reasons of invalid windows that other load on the machine explains; `measurement.validity` words them.
DISTURBANCES = (
    "the hypervisor took",
    "other programs used",
    "something waited for a disk",
    "telemetry came",
    "no telemetry",
    "the generator was",
    "the generator sent",
    "the generator waited",
    "the server waited",
    "scheduled queries were never sent",
    LATE_SENDS,
)
# Zones that never arrive: the time to transfer all is longer than the patience, and the rate of all lower.
# All zones use more than those that arrived did.
CENSORED: dict[str, Bound] = {
    "transfer_s": "at least",
    "all_zones_s": "at least",
    "zones_per_s": "at most",
    "records_per_s": "at most",
    "cpu_us_per_record": "at least",
    "primary_cpu_us_per_record": "at least",
    "bytes_per_record": "at least",
    "bytes_per_zone": "at least",
    "rss_mb": "at least",
    "pss_mb": "at least",
    "peak_mb": "at least",
}


@dataclass
class WindowRecord:
    """One window: its treatment, metrics and validity."""

    experiment: str
    start: str
    block: int
    order: int
    treatment: dict[str, str]
    copy: int = 0
    within: dict[str, str] = field(default_factory=dict)
    attempt: int = 0
    server: dict[str, str] = field(default_factory=dict)
    began: str = ""
    window: list[float] = field(default_factory=list)
    metrics: dict[str, float] = field(default_factory=dict)
    valid: bool = True
    reasons: list[str] = field(default_factory=list)
    latency_reasons: list[str] = field(default_factory=list)  # why only its latencies are invalid
    notes: list[str] = field(default_factory=list)
    predictions: dict[str, float] = field(default_factory=dict)
    saturated: list[list[Any]] = field(default_factory=list)
    detail: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    skipped: str = ""
    bounds: dict[str, Bound] = field(default_factory=dict)  # metrics whose true value is beyond the recorded one
    rig_bound: str = ""  # why the rig was the limit, and not the server
    echo: dict[str, float] = field(default_factory=dict)  # metrics of the echo in the same rig, hour and transport
    schema: int = SCHEMA

    @property
    def levels(self) -> dict[str, str]:
        """The levels of all factors, between and within starts."""
        return {**self.treatment, **self.within}

    @property
    def counts(self) -> bool:
        """Whether the window may be analysed."""
        return self.valid and not self.skipped

    def counts_for(self, metric: str) -> bool:
        """Whether this metric of the window may be analysed."""
        return self.counts and not (self.latency_reasons and METRICS[metric].is_latency)

    def has(self, metric: str) -> bool:
        """Whether it has a value of this metric that may be analysed."""
        return metric in self.metrics and self.counts_for(metric)

    def bound(self, metric: str) -> Bound:
        """Whether the recorded value is only a bound: the rig, a ceiling or a timeout ended the measurement."""
        if metric in self.bounds:
            return self.bounds[metric]
        return CENSORED.get(metric, "") if self.metrics.get("zones_missing") else ""

    @property
    def served_share(self) -> float:
        """The share of the queries that were answered, in the window or, as the last of a closed loop, after it."""
        lost, late = self.metrics.get("lost", 0.0), self.metrics.get("late_answers", 0.0)
        missing = 1.0 - self.metrics.get("answered_share", 1.0)
        return 1.0 - missing * (lost / (lost + late) if lost + late else 1.0)

    def counted(self, metric: str) -> int:
        """How many queries, connections or updates this share is of; 0 if that is not known.

        Nothing but the probes uses UDP while connections are open, and nothing else opens connections. Rates are taken
        over the window, which is a little longer than the load.
        """
        client = self.detail.get("counters", {}).get("client", {})
        seconds = self.window[1] - self.window[0] if self.window else 0.0
        match metric:
            case "answered_share":
                return int(self.metrics.get("sent_qps", 0.0) * seconds)
            case "udp_answered_share":
                return int(client.get("Udp.OutDatagrams", 0))
            case "late_share" | "failed_share":
                return int(client.get("Tcp.ActiveOpens", 0))
            case "updates_failed_share":
                accepted = 1.0 - self.metrics.get(metric, 0.0)
                return int(self.metrics.get("updates_per_s", 0.0) / accepted * seconds) if accepted else 0
        return 0

    @property
    def disturbed(self) -> bool:
        """Whether it is invalid only because of other load on the machine."""
        return bool(self.metrics) and disturbed([*self.reasons, *self.latency_reasons])


def parse_record(line: str) -> WindowRecord:
    """Parses one line of records.jsonl."""
    table = json.loads(line)
    if table.get("schema") != SCHEMA:
        raise LabError(f"records of schema {table.get('schema')}, this lab reads {SCHEMA}")
    return WindowRecord(**table)


def disturbed(reasons: Sequence[str]) -> bool:
    """Whether other load on the machine explains all reasons."""
    return bool(reasons) and all(any(words in reason for words in DISTURBANCES) for reason in reasons)


def selected(records: Iterable[WindowRecord], **levels: str) -> list[WindowRecord]:
    """The records with all those levels."""
    return [record for record in records if all(record.levels.get(name) == level for name, level in levels.items())]
