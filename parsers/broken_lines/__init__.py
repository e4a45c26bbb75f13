"""Joins the lines that collectors and terminals broke."""
