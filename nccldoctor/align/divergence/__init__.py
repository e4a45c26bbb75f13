"""Compares what the ranks of a group called, and what their scripts counted."""
