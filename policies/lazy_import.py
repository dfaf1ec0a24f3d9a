"""The door of a room: the names that others import from it, each loaded when it is first imported.

So the configuration, which names a few words of a room, does not load what decides (PEP 562).
"""

import re
import sys
from collections.abc import Callable
from importlib import import_module
from pkgutil import get_data


def door(room: str) -> Callable[[str], object]:
    """Return the ``__getattr__`` of a package. Its names are those of its stub, ``__init__.pyi``, as for type checkers.

    No name is that of a module, which would hide it.
    """
    stub = (get_data(room, "__init__.pyi") or b"").decode()
    module_of = {name: module for module, name in re.findall(r"^from (\S+) import (\w+) as", stub, re.MULTILINE)}

    def load(name: str) -> object:
        if name not in module_of:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        found: object = getattr(import_module(module_of[name]), name)
        setattr(sys.modules[room], name, found)  # it is asked for once
        return found

    return load
