"""The configuration: its options, loading it from YAML and the command line, and its CPUs on a machine."""
