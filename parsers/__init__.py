"""Parsers of logs, dumps and stacks, one folder for each family. ``registry`` finds every parser."""
