"""Rules about ranks that came late, or come late to call after call."""
