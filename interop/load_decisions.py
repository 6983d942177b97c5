"""Compares which mutated zones Zonda loads with what the zone checkers of NSD, Knot and BIND load.

Zonda must load what at least two of them load with the same records, with these records, and refuse what all refuse.
Other decisions are free. `ODDITIES` lists the differences between the peers.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import dns.exception
import dns.name
import dns.query
import dns.rdata
import dns.rdataclass
import dns.tokenizer
import dns.zonefile

from names import wire_name
from servers import HOST, Server, Zone
from zone_data import RecordCollector
from zone_mutations import BASE_ZONE, mutated_zone

# Owner, type, RDATA in canonical form.
Contents = frozenset[tuple[dns.name.Name, int, bytes]]
ZONES_PER_BATCH = 500
FULL, QUICK = 2000, 120
TIMEOUT_S = 20


@dataclass(frozen=True)
class LoadDecision:
    """Whether a server loads a zone: None if its checker gave no result; contents None if unknown."""

    loads: bool | None
    contents: Contents | None = None
    log: str = ""


@dataclass(frozen=True)
class LoadCase:
    """A mutated zone, and the decision of each server."""

    seed: int
    text: str
    ours: LoadDecision
    peers: dict[str, LoadDecision]

    @property
    def loading(self) -> dict[str, LoadDecision]:
        return {name: decision for name, decision in self.peers.items() if decision.loads}

    @property
    def agreed(self) -> Contents | None:
        """The contents that at least two peers load; unknown contents never agree."""
        counts = Counter(decision.contents for decision in self.loading.values() if decision.contents is not None)
        return next((contents for contents, count in counts.items() if count > 1), None)

    def difference(self) -> str | None:
        """The rule that Zonda violates, if any."""
        if self.ours.loads:
            if self.peers and all(decision.loads is False for decision in self.peers.values()) and len(self.peers) > 1:
                return "loaded, but all others refuse it"
            is_theirs = self.ours.contents in {None, *(decision.contents for decision in self.loading.values())}
            if self.agreed is not None and not is_theirs:
                return "loaded with records that no other has"
            return None
        return "refused, but at least two others load it" if self.agreed is not None else None


@dataclass(frozen=True)
class Oddity:
    """What some servers load and others refuse, recognized in the zone file, or in the log of Zonda or BIND."""

    name: str
    loads: str
    text: str = "(?!)"
    zonda: str = "(?!)"
    bind: str = "(?!)"

    def is_in(self, case: LoadCase) -> bool:
        bind = case.peers["bind"].log if "bind" in case.peers else ""
        places = (self.text, case.text), (self.zonda, case.ours.log), (self.bind, bind)
        return any(re.search(pattern, where, re.MULTILINE) for pattern, where in places)


ODDITIES = [
    Oddity("no TTL before the SOA record", "nsd knot", zonda="there is no TTL: neither"),
    Oddity("no blank beside a quote", "nsd bind", zonda="a blank is missing"),
    Oddity("quoted owner", "nsd bind", zonda="the owner is in quotes"),
    Oddity("out-of-zone owner", "knot bind", zonda="out-of-zone"),
    Oddity("records below a DNAME", "bind", zonda="a record below a DNAME"),
    Oddity("DNAME and NS", "nsd bind", zonda="DNAME and NS"),
    Oddity("names below DNAME and NS", "bind", zonda=r"DNAME and NS(.|\n)*below a delegation"),
    Oddity("name that begins with a dollar sign", "bind", text=r"^[^$\n][^\n]*\s\$\S"),
    Oddity("CAA tag that is not alphanumeric", "knot", zonda="the tag does not consist of letters and digits"),
    Oddity("no NS at the apex", "nsd knot", zonda="no NS record at its apex"),
    Oddity("name servers of the zone without an address, or below its DNAME", "nsd knot", bind="no address records|is below a DNAME|is a CNAME"),
    # BIND 9.18 loads it, BIND 9.21 does not.
    Oddity("KEY beside CNAME", "", zonda="beside CNAME"),
    # NSD 4.6 and Knot 3.2 load them, as they know fewer types and check fewer.
    Oddity("octets that do not fit their type", "", zonda=r"of the type \S+: the (?!\w+ list|text).*(is cut off|left over|is not a domain name)"),
    Oddity("two SOA records", "knot bind", text=r"SOA (.|\n)*SOA "),
    Oddity("relative $ORIGIN", "bind", text=r"^\$ORIGIN [^\n]*[^.\s]\s*$"),
    Oddity("NS at a wildcard", "nsd knot", text=r"^\*\S* .*NS "),
    Oddity("carriage returns", "bind", text="\r"),
    Oddity("NAPTR regular expression that BIND rejects", "nsd knot", text=r'NAPTR (?!.*"!\^\.\*\$!sip:[a-z@.]*!" )'),
    Oddity("string over two lines", "nsd", text=r'^(?:[^"\n]*"[^"\n]*")*[^"\n]*"[^"\n]*$'),
    Oddity("other lines inside parentheses", "bind", text=r"\([^)\n]*\n[^\s)]"),
]


def no_peer_loads_all_oddities(case: LoadCase) -> bool:
    """Zonda loads the zone, and no peer loads all its oddities."""
    accepted_by = [oddity.loads.split() for oddity in ODDITIES if oddity.is_in(case)]
    return bool(case.ours.loads and accepted_by) and not frozenset(case.peers).intersection(*accepted_by)


@dataclass
class LoadComparison:
    """The results of a run."""

    cases: int = 0
    loaded: Counter[str] = field(default_factory=Counter)
    explained: list[LoadCase] = field(default_factory=list)
    unexplained: list[tuple[str, LoadCase]] = field(default_factory=list)

    def add(self, case: LoadCase) -> None:
        self.cases += 1
        self.loaded.update([*case.loading, *(["zonda"] if case.ours.loads else [])])
        if (difference := case.difference()) is None:
            return
        if no_peer_loads_all_oddities(case):
            self.explained.append(case)
        else:
            self.unexplained.append((difference, case))

    def report(self) -> str:
        lines = [f"{self.cases:,} mutated zones; loaded by: " + ", ".join(f"{name} {count:,}" for name, count in sorted(self.loaded.items()))]
        if self.explained:
            lines.append(f"{len(self.explained):>9,}  explained: no peer loads all oddities of the zone; e.g. seed {self.explained[0].seed}")
        for difference, case in self.unexplained:
            decisions = ", ".join(f"{name} {'loads' if d.loads else 'refuses'}" for name, d in case.peers.items())
            lines += ["", f"--- UNEXPLAINED: seed {case.seed}: {difference} ({decisions})", *changed_lines(case.text), case.ours.log.strip()]
        return "\n".join(lines)


def changed_lines(zone: str) -> list[str]:
    """The lines that differ from the base zone."""
    base, mutated = BASE_ZONE.splitlines(), zone.splitlines()
    added = [f"  + {line}" for line in mutated if line not in base]
    return added + [f"  - {line}" for line in base if line not in mutated] or ["  (duplicated or reordered lines)"]


# --- Getting the decisions


def compare(zonda: type[Server], folder: Path, seed: int, count: int) -> LoadComparison:
    """Generates `count` zones and compares the decisions about them."""
    found = LoadComparison()
    checkers = {name: checker for name, checker in CHECKERS.items() if checker.is_usable()}
    for name in CHECKERS.keys() - checkers.keys():
        print(f"{name:8} left out: its zone checker {CHECKERS[name].name} is not on PATH, or cannot print zones")
    for start in range(seed, seed + count, ZONES_PER_BATCH):
        for case in load_cases(zonda, folder / str(start), range(start, min(start + ZONES_PER_BATCH, seed + count)), checkers):
            found.add(case)
    return found


def load_cases(zonda: type[Server], folder: Path, seeds: range, checkers: dict[str, Checker]) -> Iterator[LoadCase]:
    folder.mkdir(parents=True)
    zones = {seed: Zone(wire_name(f"m{seed}.mutant."), f"m{seed}.mutant.", folder / f"m{seed}.mutant.zone") for seed in seeds}
    for seed, zone in zones.items():
        zone.file.write_bytes(mutated_zone(seed).encode("latin-1"))
    logs = check_logs(zonda, list(zones.values()))
    loading = [zone for zone in zones.values() if ": error: " not in logs[zone.name]]
    ours = zonda_contents(zonda, folder, loading)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        tasks = {(seed, name): pool.submit(checker.decide, zone) for seed, zone in zones.items() for name, checker in checkers.items()}
        for seed, zone in zones.items():
            decision = LoadDecision(zone in loading, ours.get(zone.name), logs[zone.name])
            yield LoadCase(seed, mutated_zone(seed), decision, {name: tasks[seed, name].result() for name in checkers})


def check_logs(zonda: type[Server], zones: list[Zone]) -> dict[str, str]:
    """The output of `zonda check`, by zone."""
    arguments = [f"--zone={zone.name}={zone.file}" for zone in zones]
    done = subprocess.run([zonda.program(), "check", *arguments], capture_output=True, text=True, errors="replace", check=False)
    lines = dict.fromkeys((zone.name for zone in zones), "")
    for line in done.stdout.splitlines():
        if found := re.search(r"\[zone (\S+)\]$", line):
            lines[found[1]] += re.sub(r"^/\S*/", "  ", line) + "\n"
    return lines


def zonda_contents(zonda: type[Server], folder: Path, zones: list[Zone]) -> dict[str, Contents | None]:
    """The contents that Zonda transfers, by zone; it must serve every zone without errors."""
    server = zonda(zones, folder)
    try:
        server.start()
        return {zone.name: transferred_contents(server.address, zone) for zone in zones}
    finally:
        server.stop()


def transferred_contents(address: tuple[str, int], zone: Zone) -> Contents | None:
    """The records of a transfer; None if dnspython rejects one of them."""
    messages = dns.query.xfr(HOST, zone.name, port=address[1], relativize=False, timeout=TIMEOUT_S, lifetime=TIMEOUT_S)
    try:
        return frozenset(record_key(rrset.name, rdata) for message in messages for rrset in message.answer for rdata in rrset)
    except dns.exception.FormError:
        return None


@dataclass(frozen=True)
class Checker:
    """The zone checker of another server, and how to interpret its result."""

    name: str
    arguments: tuple[str, ...]
    refuses: Callable[[subprocess.CompletedProcess[str]], bool | None]
    print_option: str = ""  # named in --help if the checker can print zones

    def program(self) -> str | None:
        return shutil.which(self.name, path=os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin")

    def is_usable(self) -> bool:
        """Whether the checker is installed and can print zones (kzonecheck of Knot 3.2 cannot)."""
        if not (program := self.program()) or not self.print_option:
            return program is not None
        return self.print_option in subprocess.run([program, "--help"], capture_output=True, text=True, check=False).stdout

    def decide(self, zone: Zone) -> LoadDecision:
        arguments = [argument.format(zone=zone.name, file=zone.file) for argument in self.arguments]
        done = subprocess.run(
            [str(self.program()), *arguments], capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S, check=False, cwd=zone.file.parent
        )
        refuses = self.refuses(done) if done.returncode >= 0 else None
        if refuses is not False:
            return LoadDecision(None if refuses is None else False, log=done.stderr)
        return LoadDecision(True, contents_of(done.stdout, zone.name), done.stderr)


def contents_of(printed: str, apex: str) -> Contents | None:
    """The records that a checker printed; None if dnspython rejects them."""
    collector = RecordCollector(dns.name.from_text(apex))
    try:
        dns.zonefile.Reader(dns.tokenizer.Tokenizer(printed, apex), dns.rdataclass.IN, collector).read()
    except (dns.exception.DNSException, ValueError, UnicodeError):
        return None
    return frozenset(record_key(name, rdata) for name, _, rdata in collector.records)


def record_key(owner: dns.name.Name, rdata: dns.rdata.Rdata) -> tuple[dns.name.Name, int, bytes]:
    return owner.canonicalize(), int(rdata.rdtype), rdata.to_digestable()


def knot_refuses(done: subprocess.CompletedProcess[str]) -> bool:
    """Whether the error is serious: Knot loads zones with other semantic errors (`semantic-checks: off`)."""
    return done.returncode != 0 and ("serious semantic error" in done.stderr or "failed to run" in done.stderr)


BIND_IGNORES = tuple(f"-{check}{'none' if check == 'i' else 'ignore'}" for check in "iknmMSWr")
CHECKERS = {
    "nsd": Checker("nsd-checkzone", ("-p", "{zone}", "{file}"), lambda done: done.returncode != 0),
    "knot": Checker("kzonecheck", ("-p", "-o", "{zone}", "{file}"), knot_refuses, "--print"),
    "bind": Checker("named-checkzone", (*BIND_IGNORES, "-D", "-o", "-", "{zone}", "{file}"), lambda done: done.returncode != 0),
}
