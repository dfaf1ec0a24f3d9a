"""Which version this is."""

from typing import Final

# As in pyproject.toml; a test holds the two together. To ask the installed metadata for it would load dozens of
# modules, a megabyte of memory, into every daemon whose metrics are read.
VERSION: Final = "0.1.0"


def version() -> str:
    """The version of this program."""
    return VERSION
