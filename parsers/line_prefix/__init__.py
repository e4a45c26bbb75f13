"""Prefixes of launchers, collectors and loggers, and which rank they name."""
