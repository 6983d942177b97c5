"""Fixed texts of a report: how to read it, how each interval was made, what the limits of the rig are."""

INTERVALS = """Medians over independent starts: order statistics with exact coverage of at least 95 % from six \
starts on, Student's t on logarithms for three to five, none for fewer. Ratios and differences: pairs of the \
same block, BCa bootstrap of the Hodges-Lehmann estimate from eight blocks on, Student's t for three to seven, \
none for fewer; 95 % each, not corrected; those of a claim contain the values of all its conditions with 95 % \
(Bonferroni). A peak's interval reaches from the last passing to the first failing rate. For a share of few queries \
the interval also contains every loss rate that so few queries would miss one time in twenty. “At least” and “at \
most” mark values that a timeout, a ceiling or the rig cut off. P values, equivalence and minimum detectable effects \
are corrected for the comparisons of one table part (Holm)."""
READING = """Each block runs every treatment once in random order and the baseline twice: “again” marks the second \
run. If the two runs differ significantly and are not equivalent within the margin (an A/A alarm), verdicts at those \
levels are withheld. An outcome follows from p (Holm), the interval and the minimum detectable effect; Dunn's and \
Dunnett's tests are shown for comparison. Equivalent means: with 95 % confidence, the difference is smaller than the \
stated margin, even if it is not zero. CPU time per answer is compared only where equal shares of the queries were \
answered. A claim is confirmed or refuted if its interval lies inside or outside the claimed range, and inconclusive \
otherwise. It names its comparison in advance, so it is corrected for its own conditions only, and may be decided \
where the comparison of all levels is not. A difference below the minimum detectable effect is inconclusive. Windows \
that broke a validity rule fixed in advance are excluded; each experiment lists how many and why. Where the offered \
rate is a share of a server's capacity, the echo server's latency beside it is at that share of its own capacity."""
DISTURBED = """Windows disturbed by other programs on the machine are counted as if they were valid. This shows \
that the experiments work, but none of the values below may be quoted."""
LIMITS_OF_RIG = """\
An echo server without DNS took the place of the server, in the same rig, with the same kind of traffic, \
in a closed loop. Its rate is bounded by the sockets, by the generator, which would have been fully busy at the rate \
beside it, or over long delays by the number of outstanding queries. Offered rates that are shares of echo are shares \
of the first such rate of the run. In an open loop queries arrive in larger batches, which cost less, so that a \
server may answer more than echo did here. Each value is one window of at most 2 s and has no interval: differences \
between rows, and shares above 100 %, may be chance."""
