"""The command line: ``main`` runs one module per command; ``admin``, ``output`` and ``render`` serve the commands."""

from cri_proxy.daemon.late_modules import load_late

# Before dataclasses and asyncio, which import inspect, and that Python's parser, for what no daemon does; pathlib,
# traceback, asyncio, protobuf and our search over costs import the others. 2 MB, most of it in the helpers' launcher.
load_late("inspect", "ipaddress", "textwrap", "locale", "subprocess", "calendar", "random", "asyncio.sslproto")
