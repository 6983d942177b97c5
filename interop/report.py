"""Prints what a run has found: the table of classes, the laws broken, and every unexplained difference as `dig` would show it."""

from __future__ import annotations

from typing import Any

from campaign import Finding, Tally
from explanations import Explanation
from message import Question, dig_style, name_text, type_text

SHOWN = 3


def text(tally: Tally, subject: str | None) -> str:
    """The whole report."""
    parts = [suites(tally), classes(tally, subject), laws(tally, subject), transfers(tally), unexplained(tally)]
    return "\n\n".join(part for part in parts if part)


def suites(tally: Tally) -> str:
    return "\n".join(["Questions asked of every server", *(f"{count:>9,}  {name}" for name, count in tally.asked.items())])


def classes(tally: Tally, subject: str | None) -> str:
    """One line a class: how often each pair differs in it, what the RFC is and who is right."""
    pairs = sorted({(a, b) for _, a, b in tally.classes})
    rows = sorted({row for row, _, _ in tally.classes}, key=lambda row: row.name)
    if not rows:
        return "No differences."
    heads = [f"{a}/{b}" for a, b in pairs] + (["alone"] if subject else [])
    lines = [
        "Differences that are explained" + (f" (alone: {subject} differs from every peer)" if subject else ""),
        "".join(f"{head:>12}" for head in heads) + f"  {'class':52} {'RFC':22} who is right",
    ]
    for row in rows:
        counts = [tally.classes[row, a, b] for a, b in pairs] + ([tally.alone[row]] if subject else [])
        lines.append("".join(f"{count:>12,}" for count in counts) + f"  {row.name:52} {row.rfc:22} {row.right}")
        lines.append(" " * 12 * len(counts) + f"    e.g. {shortened(str(tally.examples[row]))}")
    return "\n".join(lines)


def shortened(line: str, length: int = 110) -> str:
    return line if len(line) <= length else line[: length // 2] + " ... " + line[-length // 2 :]


def laws(tally: Tally, subject: str | None) -> str:
    """Which answers break a rule by themselves; the same rule broken for many names is one line."""
    grouped: dict[tuple[str, str], list[tuple[str, Question]]] = {}
    for (server, fault), questions in tally.faults.items():
        grouped.setdefault((server, fault[fault.rfind("(RFC") :]), []).extend((fault, q) for q in questions)
    lines = []
    for (server, _), found in sorted(grouped.items(), key=lambda item: (item[0][0] != subject, item[0])):
        lines.append(f"{len(found):>9,}  {server}: {shortened(found[0][0])}")
        lines.append(" " * 13 + f"e.g. {shortened(str(found[0][1]))}")
    return "\n".join(["Answers that break a rule whoever else does", *lines]) if lines else "No answer breaks a rule."


def transfers(tally: Tally) -> str:
    if not tally.transfers:
        return "Transfers hold the zones of the files, record by record."
    return "\n".join([f"Transfers that differ from the files ({len(tally.transfers)})", *map(shortened, tally.transfers[:40])])


def unexplained(tally: Tally) -> str:
    """Every kind of unexplained difference, a few of each in full."""
    if not tally.unexplained:
        return "No difference is left unexplained."
    parts = [f"UNEXPLAINED: {sum(tally.unexplained_count.values()):,} differences"]
    for key, findings in sorted(tally.unexplained.items(), key=lambda item: -tally.unexplained_count[item[0]]):
        ours, theirs, fields = key
        parts.append(f"--- {ours} and {theirs} differ in {', '.join(sorted(fields))}: {tally.unexplained_count[key]:,} times")
        parts += [in_full(finding) for finding in findings[:SHOWN]]
    return "\n\n".join(parts)


def in_full(finding: Finding) -> str:
    """A difference with both answers and the way to see it again."""
    difference = finding.difference
    lines = [f"{finding.suite}: {difference.question}", f"  again: interop/run.py --hold {finding.scene}, then {command(difference.question)}"]
    for reply in (difference.ours, difference.theirs):
        lines += [
            f"{reply.server}:",
            *("  " + line for line in dig_style(reply.wire).splitlines()),
            *(f"  breaks: {fault}" for fault in reply.faults),
        ]
    return "\n".join(lines)


def command(question: Question) -> str:
    """The command that asks the question once more at $PORT."""
    if question.raw is not None:
        framed = (len(question.raw).to_bytes(2) if question.tcp else b"") + question.raw
        return f"echo {framed.hex()} | xxd -r -p | nc {'' if question.tcp else '-u '}-w1 127.0.0.1 $PORT | xxd"
    options = ["+norec", "+nocookie", "+noedns" if question.payload is None else f"+bufsize={question.payload}"]
    options += ["+dnssec"] * question.dnssec + ["+tcp" if question.tcp else "+notcp +ignore"]
    return f"dig @127.0.0.1 -p $PORT {' '.join(options)} -q '{name_text(question.name)}' -t {type_text(question.qtype)}"


def as_json(tally: Tally, versions: dict[str, str]) -> dict[str, Any]:
    """The same for machines."""
    return {
        "servers": versions,
        "asked": tally.asked,
        "classes": [class_json(row, tally) for row in sorted({row for row, _, _ in tally.classes}, key=lambda row: row.name)],
        "faults": [
            {"server": server, "fault": fault, "count": len(questions), "example": str(questions[0])}
            for (server, fault), questions in tally.faults.items()
        ],
        "transfers": tally.transfers,
        "unexplained": [
            {"servers": [a, b], "fields": sorted(fields), "count": count, "examples": [in_full(f) for f in tally.unexplained[a, b, fields]]}
            for (a, b, fields), count in tally.unexplained_count.items()
        ],
    }


def class_json(row: Explanation, tally: Tally) -> dict[str, Any]:
    counts = {f"{a}/{b}": count for (found, a, b), count in tally.classes.items() if found is row}
    return {"class": row.name, "rfc": row.rfc, "right": row.right, "counts": counts, "alone": tally.alone[row], "example": str(tally.examples[row])}
