"""Statistical tests, computed by scipy, scikit-posthocs and statsmodels.

A sample has one value per start (the unit of replication); a block contains every treatment once. Effects are ratios,
computed on logarithms, because all metrics are positive and noise is proportional.
"""

ALPHA = 0.05
