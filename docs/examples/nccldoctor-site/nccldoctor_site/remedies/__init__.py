"""The remedies of this site, ``<topic>/<id>.toml``."""
