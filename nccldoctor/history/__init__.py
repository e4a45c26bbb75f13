"""Remembers incidents: reads saved reports, keeps them in a database, and says what returns more often than by chance."""
