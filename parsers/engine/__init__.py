"""The scanner: one search for all literals, then the parsers on the lines that were hit."""
