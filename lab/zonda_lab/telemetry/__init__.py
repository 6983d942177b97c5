"""Samples of a machine's counters: taken there, collected, and read as series."""
