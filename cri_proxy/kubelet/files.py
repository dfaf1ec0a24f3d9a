"""Read the files that the kubelet reads, below a root: the configuration and its drop-ins, with their last change."""

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from cri_proxy.kubelet import settings as keys
from cri_proxy.kubelet.settings import KubeletFile, KubeletSettings, Word, flag_settings, merge_settings

ASSUMED: Final = "kubeadm's unit"
"""The place of words that no file holds: kubeadm's usual command line."""


def read_settings(root: Path, words: Sequence[Word]) -> KubeletSettings:
    """Return what a kubelet with this command line uses, by its files as they are now below ``root``. Blocks."""
    return merge_settings(words, configuration_files(root, words))


def read_file(root: Path, path: str) -> KubeletFile | None:
    """Return a file below ``root`` with its last change; None where there is none. Blocks."""
    place = root / path.lstrip("/")
    try:
        with open(place, "rb", opener=_without_waiting) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                return KubeletFile(path, None)
            # One byte more than is parsed: a longer file is refused and not cut.
            text = file.read(keys.MAX_BYTES + 1).decode(errors="replace")
            # The change time: a file that is moved here keeps its time of modification.
            return KubeletFile(path, text, status.st_ctime)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return KubeletFile(path, None)


def _without_waiting(path: str, flags: int) -> int:
    """Open a file; a FIFO without a writer, too, at once."""
    return os.open(path, flags | os.O_NONBLOCK)


def configuration_files(root: Path, words: Sequence[Word]) -> tuple[KubeletFile, ...]:
    """Return the configuration and drop-ins that this command line names, the weakest first. Blocks.

    A directory of drop-ins is an empty file of its name: it changes when a drop-in comes or goes.
    """
    named = {setting.key: setting for setting in flag_settings(words) if setting.value}
    found = []
    if config := named.get(keys.CONFIG):
        file = read_file(root, config.value)
        if file is not None or config.where != ASSUMED:
            found.append(file or KubeletFile(config.value, None))
    if drop_ins := named.get(keys.CONFIG_DIRECTORY):
        found += _drop_ins(root, drop_ins.value, is_assumed=drop_ins.where == ASSUMED)
    return tuple(found)


def _drop_ins(root: Path, directory: str, *, is_assumed: bool) -> Iterator[KubeletFile]:
    """Yield the directory, then its ``*.conf`` by name, those of directories below it in their place."""
    base = root / directory.lstrip("/")
    try:
        yield KubeletFile(directory, "", base.stat().st_ctime)
        paths = sorted((path for path in base.rglob("*.conf") if path.is_file()), key=lambda path: path.parts)
    except OSError:
        if not is_assumed:  # the kubelet does not start without it
            yield KubeletFile(directory, None)
        return
    for path in paths:
        file = read_file(root, f"{directory.rstrip('/')}/{path.relative_to(base)}")
        if file is not None:
            yield replace(file, is_drop_in=True)
