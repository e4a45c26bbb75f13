"""Rules about ranks that are not in the call that their peers wait in."""
