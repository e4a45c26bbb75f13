"""A benchmark for tools that diagnose hung training jobs: labelled jobs, adapters, scores and a page of results."""
