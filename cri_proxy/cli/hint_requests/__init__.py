"""Read the requests of ``hints generate``: a module for each provider."""
