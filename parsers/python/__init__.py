"""Python exceptions, tracebacks, crashes and memory errors."""
