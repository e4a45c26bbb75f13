"""Judges: rules look at each stall, and the findings are weighed and ordered."""
