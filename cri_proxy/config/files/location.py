"""Where a node's configuration is looked for, and what stands there now: read as one, never raised."""

import os
import stat
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from cri_proxy.config.addresses import optional_name
from cri_proxy.config.files.inotify import ANY
from cri_proxy.config.files.mountinfo import mount_warning, own_mounts
from cri_proxy.config.files.sections import MARK, SectionStart, assembled, may_be_section
from cri_proxy.config.files.symlinks import DATA_LINK, is_directory, leads_to, looked_up, of_one_generation
from cri_proxy.config.layouts import MAX_BYTES, file_names, is_whole, missing
from cri_proxy.errors import ConfigError

# Beside the configuration: the node's group, one word, written by ``cri-proxy config-agent``.
GROUP_FILE = "node-group"
_GROUP_BYTES = 1024


@dataclass(frozen=True, slots=True)
class Source:
    """What was found. ``problem`` is why ``text`` cannot be had ('' = it can), ``line`` where (0 = unknown).

    ``file`` is the one that applies, ``group`` the node's group. Where files are the sections of a configuration
    ``file`` is their directory, and ``parts`` tell which lines are whose. Two are equal when nothing has changed.
    """

    file: Path
    text: str
    group: str = ""
    problem: str = ""
    line: int = 0
    parts: tuple[SectionStart, ...] = ()

    @property
    def digest(self) -> str:
        """What ``sha256sum`` prints for the file (for sections: their ConfigMap object); '' when it cannot be read."""
        return "" if self.problem else sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class ConfigLocation:
    """A file or a directory (see ``layouts.file_names``), and the names that choose in it.

    ``node_group`` is the command line's; '' = what the file ``node-group`` beside the configuration says.
    """

    path: Path
    node_name: str = ""
    node_group: str = ""

    def read(self, *, may_wait: bool = False) -> Source:
        """What stands there now; blocks on the disk.

        ``may_wait``: a pipe is read too, once, as at start. All of a volume's files are of one generation.
        """
        return of_one_generation(self.path, lambda: self._look(may_wait=may_wait))

    def names(self, group: str = "") -> tuple[str, ...]:
        """The files that apply in a directory, best first; ``group`` is the node's."""
        return file_names(self.node_name, self.node_group or group)

    def lookups(self) -> dict[Path, frozenset[str]]:
        """The directories in which the way to the configuration is decided, each with the names that matter there.

        All are physical, and were there a moment ago. Links are followed, so that the swap of one is seen.
        """
        group = self._group()[0]
        sections = self._sections(group)
        inside = {GROUP_FILE, DATA_LINK, MARK, *self.names(group), *sections}
        targets = [self.path.parent / GROUP_FILE, self.path]
        if is_directory(self.path):
            targets += [self.path / name for name in sorted(inside)]
        found = looked_up(targets)
        if sections:
            found.setdefault(Path(os.path.realpath(self.path)), set()).add(ANY)  # a section may be added
        return {directory: frozenset(names) for directory, names in found.items()}

    def warnings(self) -> tuple[str, ...]:
        """Why a change here may never be seen, and that others can make one, a sentence each."""
        found = (mount_warning(self.path, own_mounts()), *map(_mode_warning, self._applying()))
        return tuple(warning for warning in found if warning)

    def _applying(self) -> tuple[Path, ...]:
        """The files that apply, with that of the group where there is one; those that are there."""
        if not is_directory(self.path):
            return (self.path,)
        group = self._group()[0]
        names = (self._first(group), *self._sections(group), "" if self.node_group else GROUP_FILE)
        standing = (_standing(self.path, name) for name in names if name)
        return tuple(file for file in standing if file)

    def _first(self, group: str) -> str:
        """The file that applies, whole; '' where there is none."""
        return next((name for name in self.names(group) if _standing(self.path, name)), "")

    def _sections(self, group: str) -> tuple[str, ...]:
        """The files that apply together, each a section; none where one applies whole, or would on another node."""
        found = _listed(self.path)
        if self._first(group) or MARK not in found or any(map(is_whole, found)):
            return ()
        return found

    def _look(self, *, may_wait: bool) -> Source:
        group, problem = self._group()
        if problem:
            return Source(self.path, "", group, problem)
        try:
            if is_directory(self.path):
                return self._look_inside(group)
            return Source(self.path, _text(self.path, MAX_BYTES, may_wait=may_wait), group)
        except ConfigError as error:
            return Source(Path(error.path), "", group, error.problem, error.line)

    def _look_inside(self, group: str) -> Source:
        """What applies in the directory. A link that leads nowhere applies: what is behind it is meant."""
        if name := self._first(group):
            return Source(self.path / name, self._text_of(name), group)
        if sections := self._sections(group):
            whole = assembled((self.path / name, self._text_of(name)) for name in sections)
            return Source(self.path, whole.text, group, parts=whole.parts)
        raise ConfigError(str(self.path), 0, "", missing(self.names(group), _listed(self.path)))

    def _text_of(self, name: str) -> str:
        file = self.path / name
        return _text(_standing(self.path, name) or file, MAX_BYTES, shown=file)

    def _group(self) -> tuple[str, str]:
        """The node's group, and what is wrong with it."""
        if self.node_group:
            return self.node_group, ""
        standing = _standing(self.path if is_directory(self.path) else self.path.parent, GROUP_FILE)
        if standing is None:
            return "", ""
        try:
            return optional_name(_text(standing, _GROUP_BYTES).strip()), ""
        except (ConfigError, ValueError) as error:
            return "", f"{GROUP_FILE}: {error.problem if isinstance(error, ConfigError) else error}"


@dataclass(frozen=True, slots=True)
class FixedSource:
    """No configuration but the command line's: what was found at start is found for ever."""

    source: Source

    def read(self) -> Source:
        """Always the same."""
        return self.source

    def lookups(self) -> dict[Path, frozenset[str]]:
        """Nothing to look at."""
        return {}


def _standing(directory: Path, name: str) -> Path | None:
    """Where the file of this name is to be read; None = there is none.

    In a volume the new ``..data`` is what counts: the kubelet makes and removes the links to it afterwards.
    """
    link, volume = directory / name, directory / DATA_LINK
    if is_directory(volume):
        if os.path.lexists(volume / name):
            return volume / name
        if leads_to(link) == Path(DATA_LINK, name):
            return None
    return link if os.path.lexists(link) else None


def _listed(directory: Path) -> tuple[str, ...]:
    """The files in a directory that may have come from a ConfigMap, in order; none where it is no directory."""
    volume = directory / DATA_LINK
    inside = volume if is_directory(volume) else directory
    try:
        names = sorted(path.name for path in inside.iterdir())
    except OSError:
        return ()
    return tuple(n for n in names if n != GROUP_FILE and may_be_section(n) and not is_directory(inside / n))


def _mode_warning(file: Path) -> str:
    """That others may write what decides about every container, as a sentence; '' where they may not.

    Of the file alone: the kubelet makes the directories of its volumes with mode 0777, and mounts them read-only.
    """
    try:
        mode = stat.S_IMODE(file.stat().st_mode)
    except OSError:
        return ""
    return f"{file} has mode {mode:04o}, others may write to it: chmod go-w {file}" if mode & 0o022 else ""


def _text(path: Path, most_bytes: int, *, may_wait: bool = False, shown: Path | None = None) -> str:
    """A file's text; errors name it as ``shown``. Raises ConfigError."""
    name = str(shown or path)
    try:
        # Without O_NONBLOCK a pipe that somebody put there would hold us for ever.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | (0 if may_wait else os.O_NONBLOCK)), "rb") as file:
            if not may_wait and not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ConfigError(name, 0, "", "is not a regular file: put one there")
            raw = file.read(most_bytes + 1)
    except OSError as error:
        raise ConfigError(name, 0, "", f"cannot read: {error.strerror}") from error
    if len(raw) > most_bytes:
        raise ConfigError(name, 0, "", f"larger than {most_bytes} bytes, the most that {_holder(most_bytes)}")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError(name, line, "", f"not UTF-8: byte {raw[error.start]:#04x}") from error


def _holder(most_bytes: int) -> str:
    return "a ConfigMap holds" if most_bytes == MAX_BYTES else "a group's name needs"
