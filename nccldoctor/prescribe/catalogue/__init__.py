"""The remedies: one TOML file for each, in a folder for each topic. ``load`` reads them; ``schema`` says what they
hold.
"""
