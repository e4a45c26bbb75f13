"""Rules about ranks that issued other calls than their peers, or the same ones in another order."""
