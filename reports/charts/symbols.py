"""Colours of marks and of levels of lateness."""

from __future__ import annotations

HEAT = ("#eef1f5", "#cddff0", "#8fb9de", "#2f76b5", "#0b416b", "#fdf0e7", "#ffffff")
"""Fill of each level of lateness; a single hue, so that order survives in grey."""

FILLS = {
    "timeout": "#c98a12",
    "exit": "#18202a",
    "exception": "#a84300",
    "trouble": "#a84300",
    "dump": "#0b5a9c",
    "stack": "#0b5a9c",
    "life": "#00664b",
}
