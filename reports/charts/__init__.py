"""Drawings as plain numbers, one chart a module; the templates turn them into SVG."""
