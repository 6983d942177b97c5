"""The highest rate that a server answers in full, or nearly so: bisection where every trial is noisy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from zonda_lab.experiment import Settings
from zonda_lab.outcome import Outcome, Recorder
from zonda_lab.procedures.queries import warm_up, window
from zonda_lab.stage import Server, Stage

GOALS = {"peak_99_qps": 0.99, "peak_999_qps": 0.999, "peak_9999_qps": 0.9999, "peak_100_qps": 1.0}
CONFIRM, TRIALS = 2, 3  # a rate counts if two of three trials reach the goal: one dip is noise, two are the server
HEADROOM = 1.5  # the search begins at so many times the closed loop's capacity
STEP = 1.25  # and goes down by this factor until a rate passes


@dataclass
class Search:
    """Trials so far: rate -> shares answered."""

    trial: Callable[[float], float]
    tolerance: float = 0.03
    shares: dict[float, list[float]] = field(default_factory=dict)

    def passes(self, rate: float, goal: float) -> bool:
        """Do `CONFIRM` of at most `TRIALS` trials at `rate` reach the goal? Earlier trials count."""
        shares = self.shares.setdefault(rate, [])
        while True:
            good = sum(share >= goal for share in shares)
            if good >= CONFIRM:
                return True
            if len(shares) - good > TRIALS - CONFIRM:
                return False
            shares.append(self.trial(rate))

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
        return min((rate for rate, shares in self.shares.items() if min(shares, default=1.0) < 1.0), default=0.0)


def peak(stage: Stage, recorder: Recorder) -> None:
    """Each goal in turn, the easiest first: its peak is the next one's upper end."""
    server = stage.start_server()
    stage.wait_ready(server)
    warm_up(stage, server)
    for levels, settings in recorder.windows:
        capacity = stage.capacity(settings, server)
        with stage.span(server) as span:
            search = Search(_trial(stage, server, settings, levels, recorder), settings.timing.tolerance)
            top, found = capacity * HEADROOM, dict[str, float]()
            for name, goal in GOALS.items():
                found[name] = top = search.peak(goal, top)
                if not top:
                    break
        metrics = found | {"first_loss_qps": search.first_loss, "capacity_qps": capacity}
        points = sorted((rate, share) for rate, shares in search.shares.items() for share in shares)
        recorder.add(Outcome(span, metrics, within=levels, detail={"points": points}, died=not server.process.alive))


def _trial(
    stage: Stage, server: Server, settings: Settings, levels: dict[str, str], recorder: Recorder
) -> Callable[[float], float]:
    """One window at a rate; windows in which the generator failed are repeated and do not speak."""

    def trial(rate: float) -> float:
        for attempt in range(settings.timing.retries + 1):
            outcome = window(stage, server, settings, rate)
            outcome.within, outcome.detail = levels, {"trial": True}
            if recorder.add(outcome, attempt):
                break
        return outcome.metrics["answered_share"]

    return trial
