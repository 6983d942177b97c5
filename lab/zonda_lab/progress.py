"""One line that tells where a run is and how long it still takes; plain lines where there is no terminal."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from zonda_lab.results import WindowRecord

WIDTH = 24


class Progress:
    """Measures its own estimate: what is left is scaled by how the past compared with its estimate."""

    def __init__(self, total_s: float, stream: TextIO | None = None) -> None:
        self.total_s, self.stream = max(total_s, 0.1), stream or sys.stderr
        self.live = self.stream.isatty()
        self.began = time.monotonic()
        self.done_s = self.step_s = 0.0
        self.what = ""
        self.told: set[tuple[str, str]] = set()  # what is skipped again for the same reason is told once
        self.counted = {"valid": 0, "valid but for latency": 0, "invalid": 0, "skipped": 0}

    def begin(self, what: str, estimate_s: float) -> None:
        """A start begins."""
        self.what, self.step_s = what, estimate_s
        self._draw()

    def window(self, record: WindowRecord) -> None:
        """A window is done; reasons are told at once."""
        late = "valid but for latency" if record.latency_reasons else "valid"
        state = "skipped" if record.skipped else late if record.valid else "invalid"
        self.counted[state] += 1
        why = record.skipped or "; ".join(record.reasons or record.latency_reasons)
        if why and (record.experiment, record.skipped) not in self.told:
            self._line(f"{record.experiment} {self.what.partition(' ')[2]}: {state}: {why.splitlines()[0]}")
            self.told |= {(record.experiment, record.skipped)} if record.skipped else set()
        self._draw()

    def end(self) -> None:
        """The start is done."""
        self.done_s += self.step_s
        self._draw()

    def close(self) -> None:
        """Ends the line."""
        took = time.monotonic() - self.began
        counts = ", ".join(f"{count} {state}" for state, count in self.counted.items() if count)
        self._line(f"done in {clock(took)}: {counts or 'nothing to do'}")

    def left_s(self) -> float:
        """Seconds still to go."""
        pace = (time.monotonic() - self.began) / self.done_s if self.done_s else 1.0
        return (self.total_s - self.done_s) * pace

    def _draw(self) -> None:
        if not self.live:
            return
        share = min(1.0, self.done_s / self.total_s)
        bar = "█" * round(share * WIDTH) + "░" * (WIDTH - round(share * WIDTH))
        self.stream.write(f"\r\x1b[K{bar} {share:4.0%}  {clock(self.left_s())} left  {self.what[:70]}")
        self.stream.flush()

    def _line(self, text: str) -> None:
        self.stream.write(f"\r\x1b[K{text}\n" if self.live else f"{text}\n")
        self.stream.flush()


def clock(seconds: float) -> str:
    """`4 min 05 s`."""
    minutes, rest = divmod(round(max(0.0, seconds)), 60)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
