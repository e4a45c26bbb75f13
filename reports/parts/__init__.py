"""The parts that reports share: wording, tables, quotes, advice, redaction."""
