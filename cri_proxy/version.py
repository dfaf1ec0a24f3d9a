"""The version of this program, as a constant that a test compares with pyproject.toml."""

from typing import Final

# As in pyproject.toml; a test compares them. Reading the installed metadata would load dozens of modules, a megabyte
# of memory, into every daemon with metrics.
VERSION: Final = "0.1.0"


def version() -> str:
    """Return the version of this program."""
    return VERSION
