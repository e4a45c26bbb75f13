"""The interactive page: plotly figures that zoom."""
