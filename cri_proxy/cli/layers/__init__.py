"""Check configurations: the report of one, and all of a ConfigMap, a manifest or a directory (``--all``)."""
