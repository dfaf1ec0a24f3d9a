"""The names of CDI devices, ``vendor.com/class=device``, and what is valid in them. Pure.

Source: the CDI specification, "Kind" and "CDI Devices": a vendor and a class begin with a letter, a device with a
letter or a digit, and all end with one of these.
"""

import re
from typing import Final

_KIND: Final = re.compile(r"[A-Za-z](?:[\w.-]*[A-Za-z0-9])?/[A-Za-z](?:[\w.-]*[A-Za-z0-9])?", re.ASCII)
_DEVICE: Final = re.compile(r"[A-Za-z0-9](?:[\w.:-]*[A-Za-z0-9])?", re.ASCII)


def cdi_name(device: str) -> str:
    """Return the CDI name of a device of a cost file: its type is the kind, as ``vendor.com/class``.

    >>> cdi_name("example.com/gpu/gpu0")
    'example.com/gpu=gpu0'
    """
    kind, _, name = device.rpartition("/")
    return f"{kind}={name}"


def is_kind(text: str) -> bool:
    """Return whether this may be the ``kind`` of a specification.

    >>> is_kind("nvidia.com/gpu"), is_kind("gpu"), is_kind("a/b/c"), is_kind("0.com/gpu")
    (True, False, False, False)
    """
    return _KIND.fullmatch(text) is not None


def is_device(text: str) -> bool:
    """Return whether this may be the name of a device in a specification.

    >>> is_device("0"), is_device("GPU-4cf8db2d:1"), is_device("-"), is_device("a=b")
    (True, True, False, False)
    """
    return _DEVICE.fullmatch(text) is not None
