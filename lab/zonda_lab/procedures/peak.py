"""Procedure: the peak rate for each required share of answers, by bisection over noisy trials."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from zonda_lab.experiment import Settings
from zonda_lab.harness import Harness, Server
from zonda_lab.procedures.queries import measure_window, warm_up
from zonda_lab.validity import ACHIEVED
from zonda_lab.window import Recorder, Window

GOALS = {"peak_99_qps": 0.99, "peak_999_qps": 0.999, "peak_9999_qps": 0.9999, "peak_100_qps": 1.0}
CONFIRM, TRIALS = 2, 3  # a rate passes if two of three trials do: one dip may be noise
HEADROOM = 1.5  # the search starts at this multiple of the closed-loop capacity
STEP = 1.25  # and decreases by this factor until a rate passes


@dataclass(frozen=True)
class Trial:
    """The shares of the scheduled queries that were answered and sent."""

    answered: float
    sent: float = 1.0


@dataclass
class Search:
    """A peak search and its trials so far, by rate."""

    attempt: Callable[[float], Trial]
    tolerance: float = 0.03
    trials: dict[float, list[Trial]] = field(default_factory=dict)

    def passes(self, rate: float, goal: float) -> bool:
        """Whether `CONFIRM` of at most `TRIALS` trials at `rate` reach the goal; reuses earlier trials."""
        trials = self.trials.setdefault(rate, [])
        while True:
            good = sum(trial.answered >= goal for trial in trials)
            if good >= CONFIRM:
                return True
            if len(trials) - good > TRIALS - CONFIRM:
                return False
            trials.append(self.attempt(rate))

    def peak(self, goal: float, top: float) -> float:
        """The highest passing rate up to `top`, within the tolerance; 0 if 1 % of `top` fails."""
        low = high = top
        while not self.passes(low, goal):
            low, high = round(low / STEP), low
            if low < top / 100:
                return 0.0
        while high / low > 1 + self.tolerance:
            middle = round((low * high) ** 0.5)
            low, high = (middle, high) if self.passes(middle, goal) else (low, middle)
        return low

    @property
    def first_loss(self) -> float:
        """The lowest rate with a lost query; far below the peak it indicates noise."""
        return min((rate for rate, trials in self.trials.items() if any(t.answered < 1 for t in trials)), default=0.0)

    def generator_failed_above(self, peak: float) -> bool:
        """Whether the generator limited the search; the peak is then a lower bound."""
        above = sorted(rate for rate in self.trials if rate > peak)
        return not above or any(trial.sent < ACHIEVED for trial in self.trials[above[0]])


def peak(harness: Harness, recorder: Recorder) -> None:
    """Searches the goals from lowest to highest; each peak bounds the next search from above."""
    server = harness.start_server()
    harness.wait_ready(server)
    warm_up(harness, server)
    for levels, settings in recorder.windows:
        capacity = harness.capacity(settings, server)
        search = Search(_attempt(harness, server, settings, levels, recorder), settings.timing.tolerance)
        with harness.span(server) as span:
            top, found = capacity * HEADROOM, dict[str, float]()
            for name, goal in GOALS.items():
                found[name] = top = search.peak(goal, top)
                if not top:
                    break
        window = Window(span, found | {"first_loss_qps": search.first_loss, "capacity_qps": capacity}, within=levels)
        window.died = not server.process.alive
        window.detail["points"] = sorted((rate, t.answered) for rate, trials in search.trials.items() for t in trials)
        if search.generator_failed_above(found["peak_99_qps"]):
            window.notes.append("the load generator could not send more: peak rates are lower bounds")
        recorder.add(window)


def _attempt(
    harness: Harness, server: Server, settings: Settings, levels: dict[str, str], recorder: Recorder
) -> Callable[[float], Trial]:
    """A function that measures a window at a rate and repeats it if it is invalid."""

    def attempt(rate: float) -> Trial:
        for number in range(settings.timing.retries + 1):
            window = measure_window(harness, server, settings, rate)
            window.within, window.detail = levels, {"trial": True}
            if recorder.add(window, number):
                break
        result = window.result
        if result is None:
            return Trial(0.0, 0.0)
        scheduled = max(result.scheduled or 0.0, result.sent, 1.0)
        return Trial(result.answered / scheduled, result.sent / scheduled)

    return attempt
