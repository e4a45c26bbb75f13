"""How numbers, times, names and lists are written, in every sentence and every report."""
