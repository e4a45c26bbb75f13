"""Logs inside the records of a collector: Docker, Kubernetes, journald, Loki and the clouds."""
