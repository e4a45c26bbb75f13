"""The folder that Python searches first as it becomes a captured script; ``sitecustomize`` alone is in it."""
