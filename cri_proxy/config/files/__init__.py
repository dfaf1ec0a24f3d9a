"""Find and watch the files of the configuration."""
