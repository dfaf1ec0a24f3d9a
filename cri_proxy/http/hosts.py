"""Whom a request over loopback may name as its host: nobody but this machine.

A browser on the node can be made to take the name of a foreign page for 127.0.0.1 (DNS rebinding); its requests would
pass for local ones, but they name the foreign page in ``Host``. No I/O.
"""

import ipaddress
import re

_HOST = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[^:\[\]@/]+))(?::\d{1,5})?")


def is_loopback(address: str) -> bool:
    """Whether this numeric address is of this machine alone; anything else is not."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def names_this_machine(host: str) -> bool:
    """Whether a ``Host`` field is a numeric address or ``localhost``, with or without a port, or not there ('').

    >>> [names_this_machine(host) for host in ("127.0.0.1:8891", "[::1]", "localhost:8891", "page.example:8891")]
    [True, True, True, False]
    """
    if not host:  # HTTP/1.0; browsers always say it
        return True
    match = _HOST.fullmatch(host)
    if match is None:
        return False
    name = match["six"] or match["name"].lower().removesuffix(".")
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name == "localhost"
    return True
