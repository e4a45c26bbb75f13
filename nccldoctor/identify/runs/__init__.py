"""Tells the run that is diagnosed from others: restarts, other jobs, dumps of earlier hangs."""
