"""Follows a job that runs: analyses what is new, and says who is behind and what moves."""
