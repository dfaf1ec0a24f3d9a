"""Configuration: the model of options, and loading it from YAML."""
