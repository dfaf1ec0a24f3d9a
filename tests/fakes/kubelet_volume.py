"""A ConfigMap volume as the kubelet writes it: every step of its atomic writer, one at a time.

Source: kubernetes pkg/volume/util/atomic_writer.go, the numbered steps of its ``Write``.
"""

import itertools
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path


class KubeletVolume:
    """The volume's directory. ``write`` does it all; ``steps`` stops after each step."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self._count = itertools.count(1)

    def write(self, data: Mapping[str, str]) -> None:
        for _ in self.steps(data):
            pass

    def steps(self, data: Mapping[str, str]) -> Iterator[str]:
        link = self.directory / "..data"
        old = link.readlink() if link.is_symlink() else None
        stale = {p.name for p in self.directory.iterdir() if not p.name.startswith("..")} - data.keys()
        fresh = self.directory / f"..2026_01_02_03_04_05.{next(self._count):09d}"
        fresh.mkdir(mode=0o755)
        yield "timestamped directory"
        for name, text in data.items():
            (fresh / name).write_text(text)
        yield "files"
        (self.directory / "..data_tmp").symlink_to(fresh.name)
        yield "..data_tmp"
        (self.directory / "..data_tmp").rename(link)
        yield "..data"
        for name in data:
            if not (self.directory / name).is_symlink():
                (self.directory / name).symlink_to(f"..data/{name}")
        yield "links"
        for name in stale:
            (self.directory / name).unlink()
        yield "stale links"
        if old is not None:
            shutil.rmtree(self.directory / old)
        yield "old directory"
