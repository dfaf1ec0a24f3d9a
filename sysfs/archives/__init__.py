"""Tar archives of machines: write one (``capture``), read one (``tar``), and which files belong in it."""
