"""A progress line with the remaining time; plain lines without a terminal."""

import sys
import time
from typing import TextIO

from zonda_lab.results.window_record import WindowRecord

WIDTH = 24


class Progress:
    """Scales the estimate of the remaining time by how accurate it was so far."""

    def __init__(self, total_s: float, stream: TextIO | None = None) -> None:
        self.total_s, self.stream = max(total_s, 0.1), stream or sys.stderr
        self.live = self.stream.isatty()
        self.began = time.monotonic()
        self.done_s = self.step_s = 0.0
        self.what = ""
        self.reported: set[tuple[str, str]] = set()  # reasons for skipping already reported, per experiment
        self.counted = {"valid": 0, "valid except latency": 0, "invalid": 0, "skipped": 0}

    def begin(self, what: str, estimate_s: float) -> None:
        """Called when a start begins."""
        self.what, self.step_s = what, estimate_s
        self._draw()

    def window(self, record: WindowRecord) -> None:
        """Called after a window; reports why it is skipped or invalid."""
        late = "valid except latency" if record.latency_reasons else "valid"
        state = "skipped" if record.skipped else late if record.valid else "invalid"
        self.counted[state] += 1
        why = record.skipped or "; ".join(record.reasons or record.latency_reasons)
        if why and (record.experiment, record.skipped) not in self.reported:
            self._line(f"{record.experiment} {self.what.partition(' ')[2]}: {state}: {why.splitlines()[0]}")
            self.reported |= {(record.experiment, record.skipped)} if record.skipped else set()
        self._draw()

    def end(self) -> None:
        """Called when a start has ended."""
        self.done_s += self.step_s
        self._draw()

    def close(self) -> None:
        """Ends the line with a summary."""
        took = time.monotonic() - self.began
        counts = ", ".join(f"{count} {state}" for state, count in self.counted.items() if count)
        self._line(f"done in {format_duration(took)}: {counts or 'nothing to do'}")

    def left_s(self) -> float:
        """The estimated remaining time in seconds."""
        pace = (time.monotonic() - self.began) / self.done_s if self.done_s else 1.0
        return (self.total_s - self.done_s) * pace

    def _draw(self) -> None:
        if not self.live:
            return
        share = min(1.0, self.done_s / self.total_s)
        bar = "█" * round(share * WIDTH) + "░" * (WIDTH - round(share * WIDTH))
        self.stream.write(f"\r\x1b[K{bar} {share:4.0%}  {format_duration(self.left_s())} left  {self.what[:70]}")
        self.stream.flush()

    def _line(self, text: str) -> None:
        self.stream.write(f"\r\x1b[K{text}\n" if self.live else f"{text}\n")
        self.stream.flush()


def format_duration(seconds: float) -> str:
    """Formats seconds as `4 min 05 s`."""
    minutes, rest = divmod(round(max(0.0, seconds)), 60)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
