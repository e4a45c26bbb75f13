"""What a job has left of itself: logs, recorder dumps, the folder of capture."""
