"""The proof of a verdict: a peer's deed, the culprit's, and how the culprit was then."""
