"""The version of this program, as a constant that a test compares with pyproject.toml, and the commit that it is of."""

from pathlib import Path
from typing import Final

# As in pyproject.toml; a test compares them. Reading the installed metadata would load dozens of modules, a megabyte
# of memory, into every daemon with metrics.
VERSION: Final = "0.1.0"
COMMIT: Final = ""  # written by packaging/node/build.sh


def version() -> str:
    """Return the version of this program."""
    return VERSION


def commit() -> str:
    """Return the commit, in 12 digits: of a package the one that it was built from, in a clone HEAD, else ''."""
    git = Path(__file__).parent.parent / ".git"
    try:
        head = (git / "HEAD").read_text().strip()
        return (git / head.removeprefix("ref: ")).read_text().strip()[:12] if head.startswith("ref: ") else head[:12]
    except OSError:
        return COMMIT
