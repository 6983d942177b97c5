"""Which zones are loaded: Zonda's decisions about zones with mistakes beside those of the checkers of NSD, Knot and BIND.

What at least two of them load, with the same records, Zonda must load with these records; what all refuse, it must refuse.
The rest is left free. Exceptions stand in `ROWS`.
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

from mutations import ZONE, text
from names import wire_name
from servers import HOST, Server, Zone
from zonedata import Collector

# Owner, type, RDATA in canonical form.
Contents = frozenset[tuple[dns.name.Name, int, bytes]]
BATCH = 500
FULL, QUICK = 2000, 120
TIMEOUT_S = 20


@dataclass(frozen=True)
class Decision:
    """What a server does with a zone: `loads` is None where the checker gave no answer; contents None where they are not known."""

    loads: bool | None
    contents: Contents | None = None
    log: str = ""


@dataclass(frozen=True)
class Case:
    """A zone with mistakes, and what everybody does with it."""

    seed: int
    text: str
    ours: Decision
    peers: dict[str, Decision]

    @property
    def loading(self) -> dict[str, Decision]:
        return {name: decision for name, decision in self.peers.items() if decision.loads}

    @property
    def agreed(self) -> Contents | None:
        """What at least two peers load; contents that could not be read agree with none."""
        counts = Counter(decision.contents for decision in self.loading.values() if decision.contents is not None)
        return next((contents for contents, count in counts.items() if count > 1), None)

    def difference(self) -> str | None:
        """Which rule Zonda breaks, if any."""
        if self.ours.loads:
            if self.peers and all(decision.loads is False for decision in self.peers.values()) and len(self.peers) > 1:
                return "loaded, and all others refuse it"
            is_theirs = self.ours.contents in {None, *(decision.contents for decision in self.loading.values())}
            if self.agreed is not None and not is_theirs:
                return "loaded with other records than all others"
            return None
        return "refused, and at least two others load it" if self.agreed is not None else None


@dataclass(frozen=True)
class Row:
    """A class of differences that a rule explains."""

    name: str
    rfc: str
    matches: Callable[[Case], bool]


@dataclass(frozen=True)
class Oddity:
    """What some servers load and others refuse: seen in the text, in what Zonda says, or in what BIND says."""

    name: str
    loads: frozenset[str]
    text: str = "(?!)"
    zonda: str = "(?!)"
    bind: str = "(?!)"

    def is_in(self, case: Case) -> bool:
        bind = case.peers["bind"].log if "bind" in case.peers else ""
        places = (self.text, case.text), (self.zonda, case.ours.log), (self.bind, bind)
        return any(re.search(pattern, where, re.MULTILINE) for pattern, where in places)


def oddity(name: str, loads: str, text: str = "(?!)", zonda: str = "(?!)", bind: str = "(?!)") -> Oddity:
    return Oddity(name, frozenset(loads.split()), text, zonda, bind)


ODDITIES = [
    oddity("no TTL before the SOA record", "nsd knot", zonda="there is no TTL: neither"),
    oddity("a blank is missing beside a quote", "nsd bind", zonda="a blank is missing"),
    oddity("an owner in quotes", "nsd bind", zonda="the owner is in quotes"),
    oddity("out of the zone", "knot bind", zonda="out of the zone"),
    oddity("below a DNAME", "bind", zonda="a record below a DNAME"),
    oddity("DNAME and NS", "nsd bind", zonda="DNAME and NS"),
    oddity("names below DNAME and NS", "bind", zonda=r"DNAME and NS(.|\n)*below a delegation"),
    oddity("a dollar sign in a name", "bind", text=r"^[^$\n][^\n]*\s\$\S"),
    oddity("a CAA tag that is not letters and digits", "knot", zonda="the tag does not consist of letters and digits"),
    oddity("no NS at the apex", "nsd knot", zonda="no NS record at its apex"),
    oddity("servers of the zone without an address, or below its DNAME", "nsd knot", bind="no address records|is below a DNAME|is a CNAME"),
    oddity("KEY beside CNAME", "bind", zonda="beside CNAME"),
    oddity("SOA twice", "knot bind", text=r"SOA (.|\n)*SOA "),
    oddity("a relative $ORIGIN", "bind", text=r"^\$ORIGIN [^\n]*[^.\s]\s*$"),
    oddity("a wildcard that delegates", "nsd knot", text=r"^\*\S* .*NS "),
    oddity("carriage returns", "bind", text="\r"),
    oddity("an expression in NAPTR that BIND does not read", "nsd knot", text=r'NAPTR (?!.*"!\^\.\*\$!sip:[a-z@.]*!" )'),
    oddity("a string over two lines", "nsd", text=r'^(?:[^"\n]*"[^"\n]*")*[^"\n]*"[^"\n]*$'),
    oddity("other lines in parentheses", "bind", text=r"\([^)\n]*\n[^\s)]"),
]


def nobody_loads_all(case: Case) -> bool:
    """Each oddity is loaded by somebody, and none of the others loads all of them."""
    seen = [oddity.loads for oddity in ODDITIES if oddity.is_in(case)]
    return bool(case.ours.loads and seen) and not frozenset(case.peers).intersection(*seen)


ROWS: list[Row] = [Row("each oddity is loaded by some, and all of them by none", "1035 5", nobody_loads_all)]


@dataclass
class Decisions:
    """What a run has found."""

    cases: int = 0
    loaded: Counter[str] = field(default_factory=Counter)
    explained: dict[str, list[Case]] = field(default_factory=dict)
    unexplained: list[tuple[str, Case]] = field(default_factory=list)

    def note(self, case: Case) -> None:
        self.cases += 1
        self.loaded.update([*case.loading, *(["zonda"] if case.ours.loads else [])])
        if (difference := case.difference()) is None:
            return
        row = next((row for row in ROWS if row.matches(case)), None)
        if row is None:
            self.unexplained.append((difference, case))
        else:
            self.explained.setdefault(f"{row.name} (RFC {row.rfc})", []).append(case)

    def report(self) -> str:
        lines = [f"{self.cases:,} zones with mistakes; loaded by: " + ", ".join(f"{name} {count:,}" for name, count in sorted(self.loaded.items()))]
        lines += [f"{len(cases):>9,}  {name}; e.g. seed {cases[0].seed}" for name, cases in sorted(self.explained.items())]
        for difference, case in self.unexplained:
            decisions = ", ".join(f"{name} {'loads' if d.loads else 'refuses'}" for name, d in case.peers.items())
            lines += ["", f"--- UNEXPLAINED: seed {case.seed}: {difference} ({decisions})", *changed_lines(case.text), case.ours.log.strip()]
        return "\n".join(lines)


def changed_lines(zone: str) -> list[str]:
    """The lines that the mistakes are in, and what is gone."""
    good, now = ZONE.splitlines(), zone.splitlines()
    added = [f"  + {line}" for line in now if line not in good]
    return added + [f"  - {line}" for line in good if line not in now] or ["  (lines twice or in another order)"]


# --- the decisions


def compare(zonda: type[Server], folder: Path, seed: int, count: int) -> Decisions:
    """Makes so many zones and compares the decisions about them."""
    found = Decisions()
    checkers = {name: checker for name, checker in CHECKERS.items() if checker.program()}
    for name in CHECKERS.keys() - checkers.keys():
        print(f"{name:8} left out: its zone checker {CHECKERS[name].name} is not on PATH")
    for start in range(seed, seed + count, BATCH):
        for case in batch(zonda, folder / str(start), range(start, min(start + BATCH, seed + count)), checkers):
            found.note(case)
    return found


def batch(zonda: type[Server], folder: Path, seeds: range, checkers: dict[str, Checker]) -> Iterator[Case]:
    folder.mkdir(parents=True)
    zones = {seed: Zone(wire_name(f"m{seed}.mutant."), f"m{seed}.mutant.", folder / f"m{seed}.mutant.zone") for seed in seeds}
    for seed, zone in zones.items():
        zone.file.write_bytes(text(seed).encode("latin-1"))
    logs = checked(zonda, list(zones.values()))
    loading = [zone for zone in zones.values() if ": error: " not in logs[zone.name]]
    ours = served(zonda, folder, loading)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        tasks = {(seed, name): pool.submit(checker.decide, zone) for seed, zone in zones.items() for name, checker in checkers.items()}
        for seed, zone in zones.items():
            decision = Decision(zone in loading, ours.get(zone.name), logs[zone.name])
            yield Case(seed, text(seed), decision, {name: tasks[seed, name].result() for name in checkers})


def checked(zonda: type[Server], zones: list[Zone]) -> dict[str, str]:
    """What `zonda check` says, by zone."""
    arguments = [f"--zone={zone.name}={zone.file}" for zone in zones]
    done = subprocess.run([zonda.program(), "check", *arguments], capture_output=True, text=True, errors="replace", check=False)
    lines = dict.fromkeys((zone.name for zone in zones), "")
    for line in done.stdout.splitlines():
        if found := re.search(r"\[zone (\S+)\]$", line):
            lines[found[1]] += re.sub(r"^/\S*/", "  ", line) + "\n"
    return lines


def served(zonda: type[Server], folder: Path, zones: list[Zone]) -> dict[str, Contents | None]:
    """What Zonda transfers of zones that have no errors: it must serve them all."""
    server = zonda(zones, folder)
    try:
        server.start()
        return {zone.name: transferred(server.address, zone) for zone in zones}
    finally:
        server.stop()


def transferred(address: tuple[str, int], zone: Zone) -> Contents | None:
    """The records of a transfer; None if dnspython does not read one of them."""
    messages = dns.query.xfr(HOST, zone.name, port=address[1], relativize=False, timeout=TIMEOUT_S, lifetime=TIMEOUT_S)
    try:
        return frozenset(key(rrset.name, rdata) for message in messages for rrset in message.answer for rdata in rrset)
    except dns.exception.FormError:
        return None


@dataclass(frozen=True)
class Checker:
    """The program of another server that checks a zone file, and how to tell from it what the server does."""

    name: str
    arguments: tuple[str, ...]
    refuses: Callable[[subprocess.CompletedProcess[str]], bool | None]

    def program(self) -> str | None:
        return shutil.which(self.name, path=os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin")

    def decide(self, zone: Zone) -> Decision:
        arguments = [argument.format(zone=zone.name, file=zone.file) for argument in self.arguments]
        done = subprocess.run(
            [str(self.program()), *arguments], capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S, check=False, cwd=zone.file.parent
        )
        refuses = self.refuses(done) if done.returncode >= 0 else None
        if refuses is not False:
            return Decision(None if refuses is None else False, log=done.stderr)
        return Decision(True, contents_of(done.stdout, zone.name), done.stderr)


def contents_of(printed: str, apex: str) -> Contents | None:
    """The records of a zone as a checker prints it, read by dnspython; None if that does not read it."""
    collector = Collector(dns.name.from_text(apex))
    try:
        dns.zonefile.Reader(dns.tokenizer.Tokenizer(printed, apex), dns.rdataclass.IN, collector).read()
    except (dns.exception.DNSException, ValueError, UnicodeError):
        return None
    return frozenset(key(name, rdata) for name, _, rdata in collector.records)


def key(owner: dns.name.Name, rdata: dns.rdata.Rdata) -> tuple[dns.name.Name, int, bytes]:
    return owner.canonicalize(), int(rdata.rdtype), rdata.to_digestable()


def knot_refuses(done: subprocess.CompletedProcess[str]) -> bool:
    """Knot loads zones with semantic errors that are not serious (`semantic-checks: off`)."""
    return done.returncode != 0 and ("serious semantic error" in done.stderr or "failed to run" in done.stderr)


BIND_IGNORES = tuple(f"-{check}{'none' if check == 'i' else 'ignore'}" for check in "iknmMSWr")
CHECKERS = {
    "nsd": Checker("nsd-checkzone", ("-p", "{zone}", "{file}"), lambda done: done.returncode != 0),
    "knot": Checker("kzonecheck", ("-p", "-o", "{zone}", "{file}"), knot_refuses),
    "bind": Checker("named-checkzone", (*BIND_IGNORES, "-D", "-o", "-", "{zone}", "{file}"), lambda done: done.returncode != 0),
}
