"""Modules of Python's that are loaded once something of them is used. Imports none that imports one of those."""

import sys
import threading
from importlib import import_module
from types import ModuleType
from typing import Final

_LOCK: Final = threading.Lock()


class LateModule(ModuleType):
    """Stands for a module until something of it is used, for the modules that have imported it too."""

    def __getattr__(self, name: str) -> object:
        """Load the module. The import system asks for names with underscores, which load nothing."""
        if name.startswith("__"):
            raise AttributeError(name)
        with _LOCK:
            # Else the import below would find this stand-in and return it.
            if sys.modules.get(self.__name__) is self:
                del sys.modules[self.__name__]
            module = import_module(self.__name__)
        vars(self).update(vars(module))
        found: object = getattr(module, name)
        return found


def load_late(*names: str) -> None:
    """Load these when something of them is used; nothing changes for those that are loaded already.

    ``importlib.util.LazyLoader`` loads a module as soon as a second one imports it.
    """
    for name in names:
        sys.modules.setdefault(name, LateModule(name))
