"""Gathers what the reports draw: coverage, rank table, lateness, timeline, event sequence, differences."""
