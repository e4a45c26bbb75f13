"""Plotly figures for a notebook, which zoom."""
