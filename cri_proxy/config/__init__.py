"""The configuration: options, loading from YAML and flags, resolving CPUs on a machine, the last known good copy."""
