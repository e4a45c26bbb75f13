"""Tells from a stack what its thread was doing."""
