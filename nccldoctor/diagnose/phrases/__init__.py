"""Every sentence of a diagnosis, by theme, in TOML: rules name a sentence and give its values. See docs/voice.md."""
