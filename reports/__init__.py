"""Reports of a diagnosis: JSON, terminal text, Markdown, one HTML page, a notebook card."""
