"""Says what to do: remedies, restart, settings to change, and what to capture next time."""
