"""Answers for agents: read-only, over folders that the user named, with the id of the evidence behind each claim."""
