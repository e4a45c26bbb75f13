"""Builds the documentation site: see ``docs/build.py``."""
