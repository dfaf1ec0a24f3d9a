"""The door of a room: the names that others import from it, each loaded when it is first imported.

So the configuration, which names a few words of a room, does not load what decides (PEP 562).
"""

import sys
from collections.abc import Callable
from importlib import import_module


def door(room: str, rows: str) -> Callable[[str], object]:
    """Return the ``__getattr__`` of a package; each row is a module of it and its names: ``model: GPU, WHOLE``.

    Their types stand in the package's ``__init__.pyi``. No name is that of a module, which would hide it.

    >>> door("sysfs", "cpuset: CpuSet, NodeSet")("NodeSet")
    <class 'sysfs.cpuset.NodeSet'>
    """
    pairs = (row.split(": ") for row in rows.strip().splitlines())
    module_of = {name: module.strip() for module, names in pairs for name in names.split(", ")}

    def load(name: str) -> object:
        if name not in module_of:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        found: object = getattr(import_module(f"{room}.{module_of[name]}"), name)
        setattr(sys.modules[room], name, found)  # it is asked for once
        return found

    return load
