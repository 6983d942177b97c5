"""The highest rate that a server answers in full, or nearly so: bisection where every trial is noisy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from zonda_lab.experiment import Settings
from zonda_lab.harness import Harness, Server
from zonda_lab.procedures.queries import measure_window, warm_up
from zonda_lab.validity import ACHIEVED
from zonda_lab.window import Recorder, Window

GOALS = {"peak_99_qps": 0.99, "peak_999_qps": 0.999, "peak_9999_qps": 0.9999, "peak_100_qps": 1.0}
CONFIRM, TRIALS = 2, 3  # a rate counts if two of three trials reach the goal: one dip is noise, two are the server
HEADROOM = 1.5  # the search begins at so many times the closed loop's capacity
STEP = 1.25  # and goes down by this factor until a rate passes


@dataclass(frozen=True)
class Trial:
    """Shares of the scheduled queries: a query that was never sent is not answered either."""

    answered: float
    sent: float = 1.0


@dataclass
class Search:
    """Trials so far, by rate."""

    attempt: Callable[[float], Trial]
    tolerance: float = 0.03
    trials: dict[float, list[Trial]] = field(default_factory=dict)

    def passes(self, rate: float, goal: float) -> bool:
        """Do `CONFIRM` of at most `TRIALS` trials at `rate` reach the goal? Earlier trials count."""
        trials = self.trials.setdefault(rate, [])
        while True:
            good = sum(trial.answered >= goal for trial in trials)
            if good >= CONFIRM:
                return True
            if len(trials) - good > TRIALS - CONFIRM:
                return False
            trials.append(self.attempt(rate))

    def peak(self, goal: float, top: float) -> float:
        """The highest passing rate up to `top`, to within the tolerance; 0 if even a hundredth of `top` fails."""
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
        """The lowest rate at which any trial lost a query: the farther below the peak, the noisier."""
        return min((rate for rate, trials in self.trials.items() if any(t.answered < 1 for t in trials)), default=0.0)

    def generator_failed_above(self, peak: float) -> bool:
        """Was it the generator that could not do more? Then the peak is only a lower bound."""
        above = sorted(rate for rate in self.trials if rate > peak)
        return not above or any(trial.sent < ACHIEVED for trial in self.trials[above[0]])


def peak(harness: Harness, recorder: Recorder) -> None:
    """Each goal in turn, the easiest first: its peak is the next one's upper end."""
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
            window.notes.append("the generator could not send more: peaks are lower bounds")
        recorder.add(window)


def _attempt(
    harness: Harness, server: Server, settings: Settings, levels: dict[str, str], recorder: Recorder
) -> Callable[[float], Trial]:
    """One window at a rate, repeated if it does not count."""

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
