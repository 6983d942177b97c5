"""Prints what a run has found: the table of classes, the laws broken, and every unexplained difference as `dig` would show it."""

from __future__ import annotations

import struct
from typing import Any

from campaign import Finding, Tally
from compare import FLAGS, SECTIONS, Reply, section_of
from explanations import Explanation
from faults import Rule
from message import DO, QR, Question, class_text, parse, rcode_text, type_text
from names import Malformed, name_text

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
    """Which rules are broken by answers in themselves: by the subject, with an answer each in full; by the others, for the record."""
    mine = [key for key in tally.faults if key[0] == subject]
    others = sorted((key for key in tally.faults if key[0] != subject), key=lambda key: (key[0], key[1].sentence, key[2]))
    parts = ["\n".join(["Rules that others break, whoever else does", *(law(key, tally) for key in others)])] if others else []
    for key in mine:
        broken = tally.broken[key]
        parts.append("\n".join([f"--- WRONG:{law(key, tally)}", again(broken.scene, broken.question), *reply_in_full(broken.reply)]))
    return "\n\n".join(parts) or "No answer breaks a rule."


def law(key: tuple[str, Rule, str], tally: Tally) -> str:
    server, rule, note = key
    broken = tally.broken[key]
    about = next(fault.about for fault in broken.reply.faults if fault.rule is rule)
    example = "" if note else f"; e.g. {shortened(str(broken.question), 70)}"
    return f"{tally.faults[key]:>9,}  {server}: {rule.sentence}{': ' + shortened(about, 90) if about else ''} (RFC {rule.rfc}){example}"


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
    lines = [f"{finding.suite}: {difference.question}", again(finding.scene, difference.question)]
    return "\n".join([*lines, *reply_in_full(difference.ours), *reply_in_full(difference.theirs)])


def reply_in_full(reply: Reply) -> list[str]:
    return [f"{reply.server}:", *("  " + line for line in dig_style(reply.wire).splitlines()), *(f"  breaks: {fault}" for fault in reply.faults)]


def again(scene: str, question: Question) -> str:
    return f"  again: interop/run.py --hold {scene}, then {command(question)}"


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
        "faults": [{"server": key[0], "rule": key[1].sentence, "count": count, "text": law(key, tally)} for key, count in tally.faults.items()],
        "transfers": tally.transfers,
        "unexplained": [
            {"servers": [a, b], "fields": sorted(fields), "count": count, "examples": [in_full(f) for f in tally.unexplained[a, b, fields]]}
            for (a, b, fields), count in tally.unexplained_count.items()
        ],
    }


def class_json(row: Explanation, tally: Tally) -> dict[str, Any]:
    counts = {f"{a}/{b}": count for (found, a, b), count in tally.classes.items() if found is row}
    return {"class": row.name, "rfc": row.rfc, "right": row.right, "counts": counts, "alone": tally.alone[row], "example": str(tally.examples[row])}


def dig_style(wire: bytes | None) -> str:
    """A message as `dig` would print it."""
    if wire is None:
        return ";; no answer"
    try:
        message = parse(wire)
    except Malformed as error:
        return f";; malformed: {error}\n;; {wire.hex()}"
    flags = " ".join(["qr"] * message.has(QR) + [name for name, bit in FLAGS.items() if message.has(bit)])
    lines = [f";; opcode: {message.opcode}, status: {rcode_text(message.rcode)}, flags: {flags}, {message.size} octets"]
    if message.edns:
        e = message.edns
        options = "".join(f", option {c} {v.hex()}" for c, v in e.options)
        lines.append(f";; EDNS: version {e.version}, flags:{' do' if e.flags & DO else ''}, udp: {e.payload}{options}")
    if message.question:
        qtype, qclass = struct.unpack(">HH", message.question[-4:])
        lines.append(f";; QUESTION {name_text(message.question[:-4])} {class_text(qclass)} {type_text(qtype)}")
    for title in SECTIONS:
        section = section_of(message, title)
        if section:
            lines += [f";; {title.upper()}", *sorted(str(r) for r in section)]
    return "\n".join(lines)
