"""Environment variables, timeouts and versions, wherever they are written."""
