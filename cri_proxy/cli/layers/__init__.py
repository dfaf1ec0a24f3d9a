"""``check-config --all``: every configuration of a ConfigMap, a manifest or a directory."""
