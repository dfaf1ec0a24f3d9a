"""Files are found beneath a directory as the kernel finds them by openat2(2) with RESOLVE_BENEATH."""

import ctypes
import errno
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cri_proxy.foreign_files.beneath import FileRefused, read_text

OPENAT2: Final = 437  # of every architecture: openat2 came after their numbers had been made the same
RESOLVE_BENEATH: Final = 0x08
PLACES: Final = ("d", "d/x", "d/x/y", "out")
NAMES: Final = ("a", "b", "c")

parts = st.sampled_from([*NAMES, *NAMES, "x", "y", "..", ".", "", "d", "out"])
likely = st.sampled_from(["b", "c", "x/a", "x/y/b", "../a", "../../c", "x/../b", "x/y", "../out/a", "../d/a"])
targets = likely | st.builds("/".join, st.lists(parts, min_size=1, max_size=4)).filter(bool)
entries = st.dictionaries(
    st.tuples(st.sampled_from(PLACES), st.sampled_from(NAMES)), st.none() | targets, min_size=4, max_size=12
)


class How(ctypes.Structure):
    """``struct open_how``."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def by_the_kernel(directory: Path, name: str) -> str | None:
    """The text of a regular file; None where there is none beneath."""
    how = How(os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC, 0, RESOLVE_BENEATH)
    at = os.open(directory, os.O_PATH)
    try:
        library = ctypes.CDLL(None, use_errno=True)
        found = library.syscall(OPENAT2, at, name.encode(), ctypes.byref(how), ctypes.sizeof(how))
    finally:
        os.close(at)
    if found < 0:
        assert ctypes.get_errno() in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV)
        return None
    try:
        return os.read(found, 100).decode()
    except IsADirectoryError:
        return None
    finally:
        os.close(found)


def by_us(directory: Path, name: str) -> str | None:
    try:
        return read_text(directory / name, 100)
    except (OSError, FileRefused):
        return None


def write(root: Path, tree: Mapping[tuple[str, str], str | None]) -> None:
    for place in PLACES:
        (root / place).mkdir(parents=True)
    for (place, name), target in tree.items():
        if target is None:
            (root / place / name).write_text(f"{place}/{name}")
        else:
            (root / place / name).symlink_to(target)


@pytest.fixture(scope="module", autouse=True)
def _kernel_has_it() -> None:
    if ctypes.CDLL(None).syscall(OPENAT2, -1, None, None, 0) < 0 and ctypes.get_errno() == errno.ENOSYS:
        pytest.skip("the kernel has no openat2: it came with Linux 5.6")


@given(entries)
def test_a_name_leads_to_the_same_file(tree: Mapping[tuple[str, str], str | None]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        write(root, tree)
        for name in NAMES:
            assert by_us(root / "d", name) == by_the_kernel(root / "d", name)
