"""Every sentence of a diagnosis, by theme: rules call these functions and hold no prose. See docs/voice.md."""
