"""One track for each rank: what it did, in order, and between which times each thing began."""
