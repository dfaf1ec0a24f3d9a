"""The node as status, explain and metrics show it."""
