"""Find, read and watch the files of the configuration."""
