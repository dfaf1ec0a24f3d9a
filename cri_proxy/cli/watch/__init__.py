"""``status --watch``: changes as lines, or a window on the terminal."""
