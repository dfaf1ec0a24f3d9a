"""The command line: ``main`` runs one module per command; ``admin``, ``output`` and ``render`` serve the commands."""
