"""Lays the ranks side by side: progress, waits, mismatches, failures. Nothing is judged here."""
