"""Which version this is."""

from functools import cache


@cache
def version() -> str:
    """The installed version, as its metadata says."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("cri-proxy")
    except PackageNotFoundError:
        return "unknown (not installed)"
