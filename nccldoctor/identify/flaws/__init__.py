"""Finds in a source itself that it is not as its writer left it."""
