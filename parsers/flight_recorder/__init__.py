"""Flight-recorder dumps, loaded in a sandboxed child process."""
