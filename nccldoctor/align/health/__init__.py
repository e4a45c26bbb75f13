"""Whether a job is well: the proof of it, and what speaks against it."""
