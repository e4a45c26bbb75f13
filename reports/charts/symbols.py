"""Shapes and colours of symbols as SVG attributes: what remains where style sheets are stripped."""

from __future__ import annotations

HEAT = ("#eef1f5", "#cddff0", "#8fb9de", "#2f76b5", "#0b416b", "#fdf0e7", "#ffffff")
"""Fill of each level of lateness; a single hue, so that order survives in grey."""

PATHS = {
    "timeout": "M0 -6L6 0 0 6 -6 0z",
    "exit": "M-5 -6.5L0 -1.5 5 -6.5 6.5 -5 1.5 0 6.5 5 5 6.5 0 1.5 -5 6.5 -6.5 5 -1.5 0 -6.5 -5z",
    "exception": "M0 -6L6.5 5.5H-6.5z",
    "trouble": "M1.5 -7L-5 1H-.5L-1.5 7 5 -1H.5z",
    "dump": "M-6 -5.5H6L0 6z",
    "stack": "M-5 -5H5V5H-5z",
    "life": "M0 -4A4 4 0 1 1 0 4A4 4 0 1 1 0 -4z",
}
"""A shape of its own for each kind of mark, around the origin."""

FILLS = {
    "timeout": "#c98a12",
    "exit": "#18202a",
    "exception": "#a84300",
    "trouble": "#a84300",
    "dump": "#0b5a9c",
    "stack": "#0b5a9c",
    "life": "#00664b",
}
