"""The terminal summary, block by block: verdict with its proof, ranks, help."""
