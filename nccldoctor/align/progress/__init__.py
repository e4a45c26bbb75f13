"""Tells how far each rank enqueued and completed the calls of each process group."""
