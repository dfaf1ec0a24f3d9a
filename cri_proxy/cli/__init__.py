"""The command line: ``main`` dispatches, each other module is one command, ``admin`` and ``output`` serve them."""
