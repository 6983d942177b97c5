"""From window records to effects, outcomes, claims and the number of blocks."""
