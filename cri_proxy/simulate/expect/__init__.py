"""The expressions of expect steps."""
