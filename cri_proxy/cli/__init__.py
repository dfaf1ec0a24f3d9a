"""The command line: ``main`` runs one module per command; ``admin``, ``output`` and ``render`` serve the commands."""

from cri_proxy.daemon.late_modules import load_late

# Before dataclasses and asyncio, which import inspect, and that Python's parser, for what a daemon does not do; pathlib
# and traceback import the others. 1.4 MB, in the launcher of helpers too.
load_late("inspect", "ipaddress", "textwrap")
