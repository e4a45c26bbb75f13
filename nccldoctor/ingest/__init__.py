"""Reads every input: text becomes events, dumps become columns, and what fails becomes a gap."""
