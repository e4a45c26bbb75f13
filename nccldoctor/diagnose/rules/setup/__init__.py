"""Rules about communicators, stores and rendezvous that never came up."""
