"""Zones and queries, generated from a seed or taken from a capture."""
