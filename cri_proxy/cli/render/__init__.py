"""Render results for a terminal."""
