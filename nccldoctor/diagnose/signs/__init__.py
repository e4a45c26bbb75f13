"""Observations that several rules ask for."""
