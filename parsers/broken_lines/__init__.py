"""Joins the lines that collectors, terminals and editors broke, before any parser reads them."""
