"""Gathers evidence of a running job from its nodes into a bundle."""
