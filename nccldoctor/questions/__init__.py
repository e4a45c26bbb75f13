"""Typed questions about ranks, calls and hosts: each is answered in one place, for rules, remedies and reports alike."""
