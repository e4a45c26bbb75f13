"""The parts that reports share: wording, quotes, advice, redaction."""
