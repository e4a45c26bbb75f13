"""Stacks printed by py-spy, faulthandler, gdb, cuda-gdb and pystack."""
