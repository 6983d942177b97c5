"""The false-alarm rate of a run: how often a program differs from itself."""

from collections.abc import Sequence

from zonda_lab.analysis.analysis import AaPair
from zonda_lab.report.document import Text
from zonda_lab.statistics import ALPHA, intervals


def false_alarms(pairs: Sequence[AaPair]) -> list[Text]:
    """The share of all A/A pairs that differ significantly, with its exact interval; 5 % are expected."""
    if not pairs:
        text = "no A/A pair has enough starts, so the rate of false alarms is unknown."
        return [Text(text, "False alarms:")]
    count = sum(pair.alarm for pair in pairs)
    low, high = intervals.exact_share(count, len(pairs))
    text = f"{count} of {len(pairs)} A/A pairs of all experiments and metrics differ significantly: "
    text += (
        f"{count / len(pairs):.1%} (95 % interval {low:.1%} – {high:.1%}, taking pairs as independent; 5 % expected). "
    )
    if low > ALPHA:
        text += "More than expected: the starts of this run are not independent."
    return [Text(text.strip(), "False alarms:")]
