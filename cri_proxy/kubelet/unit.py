"""Work out the command line of the kubelet's next start from its systemd unit, drop-ins and environment files.

Sources: systemd.unit(5) for the directories, systemd.exec(5) for ``Environment=`` (a file's value beats it, the last
file wins), systemd.service(5) for variables in ``ExecStart=``.
"""

import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cri_proxy.kubelet.files import ASSUMED, configuration_files, read_file
from cri_proxy.kubelet.reservation import KubeletReserve
from cri_proxy.kubelet.settings import KubeletFile, Word, merge_settings

UNIT: Final = "kubelet.service"
# From the weakest on: of two files of a name the later directory's is used.
DIRECTORIES: Final = ("usr/lib/systemd/system", "lib/systemd/system", "run/systemd/system", "etc/systemd/system")
KUBEADM_FLAGS: Final = "/var/lib/kubelet/kubeadm-flags.env"
KUBEADM_INSTANCE: Final = "/var/lib/kubelet/instance-config.yaml"
# What kubeadm's packages install (10-kubeadm.conf), for a node whose unit is kept elsewhere.
_KUBEADM_UNIT: Final = """\
[Service]
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
EnvironmentFile=-/etc/sysconfig/kubelet
ExecStart=/usr/bin/kubelet $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
"""
CONFIG_FILE: Final = "config.yaml"  # below the kubelet's directory: where kubeadm and most installers write it
_VARIABLE = re.compile(r"\$(\w+)|\$\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Variable:
    """An environment variable of the unit; ``hidden`` is the ``Environment=`` of a unit file that a file beats."""

    name: str
    value: str
    where: str
    hidden: "Variable | None" = None


@dataclass(frozen=True, slots=True)
class KubeletUnit:
    """The unit as its files say: the next command line, its variables, and the names of its files."""

    words: tuple[Word, ...] = ()
    variables: tuple[Variable, ...] = ()
    files: tuple[str, ...] = ()

    def variable(self, name: str) -> Variable | None:
        """Return the variable of this name."""
        return next((variable for variable in self.variables if variable.name == name), None)


def read_unit(root: Path) -> KubeletUnit:
    """Return the kubelet's unit below ``root``; with kubeadm's own command line where no file has one."""
    files = list(unit_files(root, UNIT))
    # kubeadm's lines come first, so that every file beats them.
    has_command = any(value for file in files for key, value in assignments(file.text or "") if key == "ExecStart")
    standard = () if has_command else (KubeletFile(ASSUMED, _KUBEADM_UNIT),)
    variables, environment_files, command = _read_lines([*standard, *files])
    for path in environment_files:
        for variable in _file_variables(root, path):
            before = variables.get(variable.name)
            hidden = before.hidden or before if before else None
            variables[variable.name] = Variable(variable.name, variable.value, variable.where, hidden)
    words = tuple(_expanded(command, variables)) if command else ()
    return KubeletUnit(words, tuple(variables.values()), tuple(file.path for file in files))


def read_reserve(root: Path, kubelet_root: Path) -> KubeletReserve | None:
    """Return the CPU that the kubelet keeps from pods, by the files of its next start; None where these do not say.

    Without a unit below ``root`` only the configuration in the kubelet's own directory is read. Blocks.
    """
    unit = read_unit(root)
    files = configuration_files(root, unit.words)
    if not files and not unit.files:
        own = read_file(kubelet_root, CONFIG_FILE)
        if own is None:
            return None
        files = (own,)
    settings = merge_settings(unit.words, files)
    return None if settings.problems else settings.reserve


def unit_files(root: Path, unit: str) -> Iterator[KubeletFile]:
    """Yield a unit's file and its drop-ins, in the order in which systemd reads them."""
    units = [f"/{directory}/{unit}" for directory in reversed(DIRECTORIES)]
    yield from [file for path in units if (file := read_file(root, path)) is not None][:1]
    drop_ins: dict[str, str] = {}
    for directory in DIRECTORIES:
        for path in (root / directory / f"{unit}.d").glob("*.conf"):
            drop_ins[path.name] = f"/{directory}/{unit}.d/{path.name}"
    # By file name, in whichever directory each lies (systemd.unit(5)).
    for _, name in sorted(drop_ins.items()):
        if (file := read_file(root, name)) is not None:
            yield file


def assignments(text: str, wanted: str = "Service") -> Iterator[tuple[str, str]]:
    """Yield key and value of the ``wanted`` section, lines that a backslash continues joined."""
    section = ""
    for raw in text.replace("\\\n", " ").splitlines():
        line = raw.strip()
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
        elif section == wanted and line[:1] not in ("#", ";") and "=" in line:
            key, _, value = line.partition("=")
            yield key.strip(), value.strip()


def _read_lines(files: list[KubeletFile]) -> tuple[dict[str, Variable], list[str], Word | None]:
    """Return the variables, the environment files and the command that the lines give; an empty value resets."""
    variables: dict[str, Variable] = {}
    environment_files: list[str] = []
    command = None
    for file in files:
        for key, value in assignments(file.text or ""):
            match key, value:
                case "ExecStart", _:
                    command = Word(value, file.path) if value else None
                case "Environment", "":
                    variables.clear()
                case "Environment", _:
                    for name, _, text in (word.partition("=") for word in _split(value)):
                        variables[name] = Variable(name, text, file.path)
                case "EnvironmentFile", "":
                    environment_files.clear()
                case "EnvironmentFile", _:
                    # "-": that file may be missing (systemd.exec(5)); here any may.
                    environment_files.append(value.removeprefix("-"))
    return variables, environment_files, command


def _file_variables(root: Path, path: str) -> Iterator[Variable]:
    file = read_file(root, path)
    for line in (file.text or "").splitlines() if file else ():
        name, equals, rest = line.strip().partition("=")
        if equals and not name.startswith(("#", ";")):
            yield Variable(name.removeprefix("export ").strip(), " ".join(_split(rest)), path)


def _expanded(command: Word, variables: dict[str, Variable]) -> Iterator[Word]:
    """Yield the words of a command; ``$NAME`` as a word of its own becomes as many words as its value has."""
    values = {variable.name: variable.value for variable in variables.values()}
    for word in _split(command.text):
        whole = _VARIABLE.fullmatch(word)
        if whole and whole[1]:
            variable = variables.get(whole[1])
            if variable:
                yield from (Word(part, variable.where) for part in _split(variable.value))
            continue
        yield Word(_VARIABLE.sub(lambda m: values.get(m[1] or m[2], ""), word), command.where)


def _split(text: str) -> list[str]:
    """Return the words, without quotes; a text with an open quote as it stands."""
    with suppress(ValueError):
        return shlex.split(text, comments=False)
    return text.split()
