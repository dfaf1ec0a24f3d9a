"""Read the NVIDIA GPUs of the node from the driver's files below /proc. Reads files: not on the loop.

A GPU that has fallen off its bus may keep the reader of its file waiting.
"""

from pathlib import Path
from typing import Final

from cri_proxy.cri.device_names.nvidia_gpus import (
    NvidiaGpus,
    in_order,
    read_information,
    read_part_minors,
    read_toolkit,
)

MAX_GPUS: Final = 128
_DRIVER: Final = Path("proc/driver/nvidia")
_PARTS: Final = Path("proc/driver/nvidia-caps/mig-minors")
_TOOLKIT: Final = Path("etc/nvidia-container-runtime/config.toml")
_INFORMATION_BYTES: Final = 16 << 10
_PARTS_BYTES: Final = 1 << 20  # a hundred nodes for each of 32 GPUs come to 100 KiB
_TOOLKIT_BYTES: Final = 64 << 10


def nvidia_gpus(root: Path, *, with_parts: bool) -> NvidiaGpus:
    """Return the GPUs below this root, the directory that holds ``proc/`` and ``etc/``; none without the driver.

    ``with_parts``: a device node of a part of a GPU is to be found.
    """
    directory = root / _DRIVER / "gpus"
    found = [
        read_information(_text(directory / name / "information", _INFORMATION_BYTES), name)
        for name in _names(directory)
    ]
    gpus = in_order(gpu for gpu in found if gpu is not None)
    if not gpus:
        return NvidiaGpus()
    parts = read_part_minors(_text(root / _PARTS, _PARTS_BYTES).splitlines()) if with_parts else ()
    return NvidiaGpus(
        gpus,
        frozenset(gpu.minor for gpu in gpus if _has_parts(root, gpu.minor)),
        parts,
        read_toolkit(_text(root / _TOOLKIT, _TOOLKIT_BYTES)),
    )


def _has_parts(root: Path, minor: int) -> bool:
    directory = root / _DRIVER / "capabilities" / f"gpu{minor}" / "mig"
    return any(name.startswith("gi") for name in _names(directory))


def _names(directory: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in directory.iterdir())[:MAX_GPUS]
    except OSError:
        return []


def _text(path: Path, most_bytes: int) -> str:
    """Return the beginning of a file; '' where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(most_bytes).decode("utf-8", "replace")
    except OSError:
        return ""
