"""Measures which ranks came late to the recorded calls of their groups."""
