"""Find out which distribution a node is of, and the command line with which it starts the kubelet."""

import shlex
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from cri_proxy.bounded_yaml import YamlError
from cri_proxy.config.addresses import optional_name
from cri_proxy.config.settings import host_node_name
from cri_proxy.kubelet.distributions import DISTRIBUTIONS, KubernetesDistribution, known_by
from cri_proxy.kubelet.files import read_file
from cri_proxy.kubelet.settings import HOSTNAME, KubeletFile, Word, document_of, merge_settings
from cri_proxy.kubelet.unit import read_unit, unit_files
from cri_proxy.unix_socket import socket_path

_ARG: Final = "kubelet-arg"
_OTHER_RUNTIME: Final = "container-runtime-endpoint"  # of the distribution itself: another containerd than its own


def distribution_of(root: Path) -> KubernetesDistribution:
    """Return the distribution of the node below ``root``. Blocks."""
    signs = [sign for each in DISTRIBUTIONS for sign in each.signs if (root / sign).exists()]
    release = read_file(root, "/etc/os-release") or read_file(root, "/usr/lib/os-release")
    lines = (release.text or "").splitlines() if release else []
    ids = (line.partition("=")[2].strip("\"' ") for line in lines if line.startswith("ID="))
    found = known_by(signs, next(ids, ""))
    found = found.running_as([unit for unit in found.units if any(unit_files(root, unit))])
    chosen = [endpoint for _, document in _documents(root, found) if (endpoint := document.get(_OTHER_RUNTIME))]
    return replace(found, runtime=str(socket_path(str(chosen[-1])))) if chosen else found


def distribution_words(root: Path, found: KubernetesDistribution) -> tuple[Word, ...]:
    """Return the kubelet's command line as the distribution's own files have it; () where a unit has it. Blocks."""
    if found.config:
        return tuple(_from_config(root, found))
    if found.arguments and (file := read_file(root, found.arguments)) is not None:
        return tuple(_from_lines(file, found))
    return ()


def kubelet_node_name(root: Path = Path("/")) -> str:
    """Return the name of the kubelet's node: that of its flag, as its next start has it, else the host's. Blocks."""
    words = distribution_words(root, distribution_of(root)) or read_unit(root).words
    name = merge_settings(words, ()).get(HOSTNAME).value.strip().lower()
    try:
        return optional_name(name) or host_node_name()
    except ValueError:
        return host_node_name()


def _from_config(root: Path, found: KubernetesDistribution) -> Iterator[Word]:
    """Yield what k3s and RKE2 pass on: their own drop-ins, then ``kubelet-arg``, which beats what they choose."""
    if (root / found.drop_ins.lstrip("/")).is_dir():
        yield Word(f"--config-dir={found.drop_ins}", found.name)
    else:
        yield Word(f"--container-runtime-endpoint=unix://{found.runtime}", found.name)
    for path, document in _documents(root, found):
        if name := document.get("node-name"):
            yield Word(f"--hostname-override={name}", path)
        # "KEY+" adds to the list of an earlier file, where KEY replaces it (k3s, "Configuration Options").
        for key in (_ARG, f"{_ARG}+"):
            given = document.get(key)
            yield from (Word(f"--{arg}", path) for arg in (given if isinstance(given, list) else [given]) if arg)


def _documents(root: Path, found: KubernetesDistribution) -> Iterator[tuple[str, dict[object, object]]]:
    """Yield the files of the distribution's own configuration."""
    beside = sorted((root / f"{found.config}.d".lstrip("/")).glob("*.yaml")) if found.config else []
    for path in (found.config, *(f"{found.config}.d/{each.name}" for each in beside)):
        with suppress(YamlError):  # the distribution itself does not start with it
            file = read_file(root, path) if path else None
            yield path, document_of(file) if file else {}


def _from_lines(file: KubeletFile, found: KubernetesDistribution) -> Iterator[Word]:
    text = file.text or ""
    for variable, value in found.variables:
        text = text.replace(variable, value)
    for line in text.splitlines():
        with suppress(ValueError):
            yield from (Word(word, file.path) for word in shlex.split(line, comments=True))
