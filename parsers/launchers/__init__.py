"""Lines of torchrun and other launchers, and of the shells that start workers."""
