"""The rules: each judges the facts of a node and returns findings. Pure."""
