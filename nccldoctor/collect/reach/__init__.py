"""Runs the collector on every node of a job, with one module for each way to reach a node."""
