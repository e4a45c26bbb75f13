"""The commands for jobs that still run: ``collect``, ``live`` and ``watch``."""
