"""The bundled incidents, a folder each: ``nccldoctor demo`` writes one out, and ``expected.toml`` says what must be found in it."""
