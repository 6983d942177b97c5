"""`zonda-load sample` for tests: reads the zone files of zonegen, with all fields on each line."""

import argparse
import random
from pathlib import Path


def sample(given: argparse.Namespace) -> None:
    """Writes the queries and the expected answers."""
    draw = random.Random(given.seed)
    weights = {name: float(weight) for name, _, weight in (part.partition("=") for part in given.types.split(","))}
    apexes, cuts, own = [], [], dict[str, list[str]]()
    for line in Path(given.zones).read_text().splitlines():
        apex, path = line.split()
        records = [tuple(record.split()[:4:3]) for record in Path(path).read_text().splitlines()]
        here = {owner for owner, rtype in records if rtype == "NS" and owner != apex}
        apexes, cuts = [*apexes, apex], [*cuts, *here]
        for owner, rtype in records:
            if not any(owner == cut or owner.endswith(f".{cut}") for cut in here):
                own.setdefault(rtype, []).append(owner)
    asked, expected = [], []
    for _ in range(given.count):
        at, rtype = draw.random(), draw.choices(list(weights), list(weights.values()))[0]
        if at < given.nxdomain:
            asked.append(f"nx{draw.randrange(10**9)}.{draw.choice(apexes).lstrip('.')} {rtype}")
            expected.append("NXDOMAIN nxdomain")
        elif at < given.nxdomain + given.referral:
            asked.append(f"www.{draw.choice(cuts)} A")
            expected.append("NOERROR referral")
        else:
            asked.append(f"{draw.choice(own[rtype])} {rtype}")
            expected.append("NOERROR answer")
    Path(given.queries).write_text("".join(f"{line}\n" for line in asked))
    Path(given.expect).write_text("".join(f"{line}\n" for line in expected))
