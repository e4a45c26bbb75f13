"""Real gloo jobs with one fault each, for ``nccldoctor demo --live``."""
