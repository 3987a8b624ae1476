"""Windows, one file a kind. What they share: `window.py` (the description), `panes.py` (the pure step)."""
