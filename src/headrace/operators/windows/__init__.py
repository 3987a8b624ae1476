"""Windows, one module per kind. Shared parts: `window.py` (the description), `panes.py` (the pure step)."""
