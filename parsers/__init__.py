"""Parsers of logs, dumps and stacks, one folder for each family. ``load`` puts every parser on its shelf."""
