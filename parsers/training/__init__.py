"""Lines of training loops: heartbeats, progress, phases, NaN and warnings of libraries."""
