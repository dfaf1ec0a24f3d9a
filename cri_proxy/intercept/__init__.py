"""Intercept the few CRI methods that place, resize and release containers."""
