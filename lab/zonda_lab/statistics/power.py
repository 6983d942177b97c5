"""The power calculation: what a number of blocks detects, and how many an effect needs."""

import bisect
import math

from scipy import stats

from zonda_lab.statistics import ALPHA

POWER = 0.80
MOST_BLOCKS = 2_000


def minimum_detectable(sigma: float, n: int, comparisons: int = 1) -> float:
    """Minimum detectable effect: (t(1 - alpha/2) + t(power)) sigma / sqrt(n), as a ratio minus one.

    With several comparisons alpha is divided by their number, the first and strictest step of Holm's correction.
    """
    if n < 2 or not math.isfinite(sigma):
        return math.inf
    quantiles = stats.t.ppf(1 - ALPHA / 2 / max(1, comparisons), n - 1) + stats.t.ppf(POWER, n - 1)
    return math.expm1(min(700.0, float(quantiles) * sigma / math.sqrt(n)))


def blocks_needed(sigma: float, effect: float, comparisons: int = 1) -> int | None:
    """Blocks that detect a relative effect with 80 % power, from the standard deviation of paired log ratios.

    None above `MOST_BLOCKS`.
    """
    enough = bisect.bisect_left(
        range(2, MOST_BLOCKS + 1), True, key=lambda n: minimum_detectable(sigma, n, comparisons) <= effect
    )
    return enough + 2 if enough + 2 <= MOST_BLOCKS else None
