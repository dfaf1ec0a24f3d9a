"""The expression language of ``expect`` steps in scenarios."""
