"""Prints the results of a run: the classes of differences, the rule violations, and each unexplained difference in dig style."""

from __future__ import annotations

import struct
from typing import Any

from answer_comparison import FLAGS, SECTIONS, Reply, section_of
from answer_rules import Rule
from comparison_run import Tally, UnexplainedDifference
from dns_numbers import DO, QR
from known_differences import KnownDifference
from message import Query, class_text, parse, rcode_text, type_text
from names import Malformed, name_text

SHOWN = 3


def text(tally: Tally, subject: str | None) -> str:
    """The complete report."""
    parts = [suites(tally), classes(tally, subject), rule_violations(tally, subject), transfers(tally), unexplained(tally)]
    return "\n\n".join(part for part in parts if part)


def suites(tally: Tally) -> str:
    return "\n".join(["Queries sent to each server", *(f"{count:>9,}  {name}" for name, count in tally.asked.items())])


def classes(tally: Tally, subject: str | None) -> str:
    """One line per class of differences: counts per pair of servers, the RFC and the ruling."""
    pairs = sorted({(a, b) for _, a, b in tally.classes})
    rows = sorted({entry for entry, _, _ in tally.classes}, key=lambda entry: entry.name)
    if not rows:
        return "No differences."
    heads = [f"{a}/{b}" for a, b in pairs] + (["alone"] if subject else [])
    lines = [
        "Explained differences" + (f" (alone: {subject} differs from all peers)" if subject else ""),
        "".join(f"{head:>12}" for head in heads) + f"  {'class':52} {'RFC':22} who is right",
    ]
    for entry in rows:
        counts = [tally.classes[entry, a, b] for a, b in pairs] + ([tally.alone[entry]] if subject else [])
        lines.append("".join(f"{count:>12,}" for count in counts) + f"  {entry.name:52} {entry.rfc:22} {entry.ruling}")
        lines.append(" " * 12 * len(counts) + f"    e.g. {shortened(str(tally.examples[entry]))}")
    return "\n".join(lines)


def shortened(line: str, length: int = 110) -> str:
    return line if len(line) <= length else line[: length // 2] + " ... " + line[-length // 2 :]


def rule_violations(tally: Tally, subject: str | None) -> str:
    """The rule violations: of the subject with an example in full, of other servers in one line each."""
    of_subject = [key for key in tally.violations if key[0] == subject]
    of_peers = sorted((key for key in tally.violations if key[0] != subject), key=lambda key: (key[0], key[1].sentence, key[2]))
    parts = ["\n".join(["Rules that peers violate", *(violation_line(key, tally) for key in of_peers)])] if of_peers else []
    for key in of_subject:
        example = tally.violation_examples[key]
        instructions = repeat_instructions(example.scene, example.query)
        parts.append("\n".join([f"--- WRONG:{violation_line(key, tally)}", instructions, *reply_in_full(example.reply)]))
    return "\n\n".join(parts) or "No response violates a rule."


def violation_line(key: tuple[str, Rule, str], tally: Tally) -> str:
    server, rule, oddity = key
    example = tally.violation_examples[key]
    about = next(violation.about for violation in example.reply.violations if violation.rule is rule)
    query = "" if oddity else f"; e.g. {shortened(str(example.query), 70)}"
    return f"{tally.violations[key]:>9,}  {server}: {rule.sentence}{': ' + shortened(about, 90) if about else ''} (RFC {rule.rfc}){query}"


def transfers(tally: Tally) -> str:
    if not tally.transfers:
        return "All transfers match the zone files, record by record."
    return "\n".join([f"Transfers that differ from the zone files ({len(tally.transfers)})", *map(shortened, tally.transfers[:40])])


def unexplained(tally: Tally) -> str:
    """Each kind of unexplained difference, with some examples in full."""
    if not tally.unexplained:
        return "No unexplained differences."
    parts = [f"UNEXPLAINED: {sum(tally.unexplained_count.values()):,} differences"]
    for key, findings in sorted(tally.unexplained.items(), key=lambda item: -tally.unexplained_count[item[0]]):
        ours, theirs, fields = key
        parts.append(f"--- {ours} and {theirs} differ in {', '.join(sorted(fields))}: {tally.unexplained_count[key]:,} times")
        parts += [difference_in_full(finding) for finding in findings[:SHOWN]]
    return "\n\n".join(parts)


def difference_in_full(finding: UnexplainedDifference) -> str:
    """A difference with both responses, and how to repeat it."""
    difference = finding.difference
    lines = [f"{finding.suite}: {difference.query}", repeat_instructions(finding.scene, difference.query)]
    return "\n".join([*lines, *reply_in_full(difference.ours), *reply_in_full(difference.theirs)])


def reply_in_full(reply: Reply) -> list[str]:
    return [f"{reply.server}:", *("  " + line for line in dig_style(reply.wire).splitlines()), *(f"  violates: {v}" for v in reply.violations)]


def repeat_instructions(scene: str, query: Query) -> str:
    return f"  repeat: interop/run.py --hold {scene}, then {repeat_command(query)}"


def repeat_command(query: Query) -> str:
    """The command that repeats the query at $PORT."""
    if query.raw is not None:
        framed = (len(query.raw).to_bytes(2) if query.tcp else b"") + query.raw
        return f"echo {framed.hex()} | xxd -r -p | nc {'' if query.tcp else '-u '}-w1 127.0.0.1 $PORT | xxd"
    options = ["+norec", "+nocookie", "+noedns" if query.payload is None else f"+bufsize={query.payload}"]
    options += ["+dnssec"] * query.dnssec + ["+tcp" if query.tcp else "+notcp +ignore"]
    return f"dig @127.0.0.1 -p $PORT {' '.join(options)} -q '{name_text(query.name)}' -t {type_text(query.qtype)}"


def as_json(tally: Tally, versions: dict[str, str]) -> dict[str, Any]:
    """The report as a JSON value."""
    return {
        "servers": versions,
        "asked": tally.asked,
        "classes": [class_json(entry, tally) for entry in sorted({entry for entry, _, _ in tally.classes}, key=lambda entry: entry.name)],
        "violations": [
            {"server": key[0], "rule": key[1].sentence, "count": count, "text": violation_line(key, tally)} for key, count in tally.violations.items()
        ],
        "transfers": tally.transfers,
        "unexplained": [
            {"servers": [a, b], "fields": sorted(fields), "count": count, "examples": list(map(difference_in_full, tally.unexplained[a, b, fields]))}
            for (a, b, fields), count in tally.unexplained_count.items()
        ],
    }


def class_json(entry: KnownDifference, tally: Tally) -> dict[str, Any]:
    counts = {f"{a}/{b}": count for (found, a, b), count in tally.classes.items() if found is entry}
    found = {"counts": counts, "alone": tally.alone[entry], "example": str(tally.examples[entry])}
    return {"class": entry.name, "rfc": entry.rfc, "ruling": entry.ruling, **found}


def dig_style(wire: bytes | None) -> str:
    """A message in the style of `dig`."""
    if wire is None:
        return ";; no response"
    try:
        response = parse(wire)
    except Malformed as error:
        return f";; malformed: {error}\n;; {wire.hex()}"
    flags = " ".join(["qr"] * response.has(QR) + [name for name, bit in FLAGS.items() if response.has(bit)])
    lines = [f";; opcode: {response.opcode}, status: {rcode_text(response.rcode)}, flags: {flags}, {response.size} octets"]
    if response.edns:
        e = response.edns
        options = "".join(f", option {c} {v.hex()}" for c, v in e.options)
        lines.append(f";; EDNS: version {e.version}, flags:{' do' if e.flags & DO else ''}, udp: {e.payload}{options}")
    if response.question:
        qtype, qclass = struct.unpack(">HH", response.question[-4:])
        lines.append(f";; QUESTION {name_text(response.question[:-4])} {class_text(qclass)} {type_text(qtype)}")
    for title in SECTIONS:
        section = section_of(response, title)
        if section:
            lines += [f";; {title.upper()}", *sorted(str(r) for r in section)]
    return "\n".join(lines)
