"""Find, read and watch the configuration's files on disk; copy a mounted ConfigMap to the host."""
