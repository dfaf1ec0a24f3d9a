"""Find and read this node's configuration file as a ``Source``; list directories to watch; warn of mount and mode."""

import os
import re
import stat
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

from cri_proxy.config.addresses import optional_name
from cri_proxy.config.files.section_files import REQUIRED_SECTION, SectionStart, join_sections, may_be_section
from cri_proxy.config.layouts import MAX_BYTES, file_names, is_whole, missing
from cri_proxy.device_files.mounts import Mounts
from cri_proxy.errors import ConfigError
from cri_proxy.in_force.symlinks import (
    ANY,
    DATA_LINK,
    directories_to_watch,
    is_directory,
    link_target,
    of_one_generation,
)

# Beside the configuration: the node's group, one word, written by ``cri-proxy config-agent``.
GROUP_FILE = "node-group"
_GROUP_BYTES = 1024
# The directory of one generation of a volume, as the kubelet's atomic writer names it. The root of a mount with subPath
# has such a part (a bind mount shows what it was made of), that of a mount of the whole volume has none.
_GENERATION = re.compile(r"/\.\.\d{4}(_\d\d){5}\.\d+(/|$)")
_SUB_PATHS = "/volume-subpaths/"


@dataclass(frozen=True, slots=True)
class Source:
    """The result of reading a location.

    ``problem`` is why ``text`` cannot be read ('' = it can), ``line`` where (0 = unknown).
    ``file`` is the one that applies, ``group`` the node's group. Where files are the sections of a configuration,
    ``file`` is their directory and ``parts`` say which lines come from which file. Equal sources: nothing has changed.
    ``warnings`` are why changes may never be seen, and who else can make them, one sentence each.
    """

    file: Path
    text: str
    group: str = ""
    problem: str = ""
    line: int = 0
    parts: tuple[SectionStart, ...] = ()
    warnings: tuple[str, ...] = field(default=(), compare=False)

    @property
    def digest(self) -> str:
        """The SHA-256 of the file (of sections: of their ConfigMap object) in hexadecimal; '' when unreadable."""
        return "" if self.problem else sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class ConfigLocation:
    """A file or a directory (see ``layouts.file_names``), and the node's names, which choose a file in it.

    ``node_group`` is the command line's; '' = the one in the file ``node-group`` beside the configuration.
    """

    path: Path
    node_name: str = ""
    node_group: str = ""

    def read(self, *, may_wait: bool = False) -> Source:
        """Return what is there now, all files of one generation of a volume. Blocks on the disk.

        ``may_wait``: a pipe is read too, as at start.
        """
        # Group and file together: of two generations the file of another group could apply for a moment.
        found = of_one_generation(self.path, lambda: self._look(may_wait=may_wait))
        warnings = [*map(_mode_warning, self._applying())]
        with suppress(OSError):  # where there is no /proc
            warnings.insert(0, mount_warning(self.path, Mounts.read()))
        return replace(found, warnings=tuple(filter(None, warnings)))

    def names(self, group: str = "") -> tuple[str, ...]:
        """Return the names of files that apply in a directory, best first; ``group`` is the node's."""
        return file_names(self.node_name, self.node_group or group)

    def lookups(self) -> dict[Path, frozenset[str]]:
        """Return the directories on the path to the configuration, each with the names that matter there.

        All are physical directories that existed during the call. Links are followed, so a swapped link is noticed.
        """
        group = self._group()[0]
        sections = self._sections(group)
        inside = {GROUP_FILE, DATA_LINK, REQUIRED_SECTION, *self.names(group), *sections}
        targets = [self.path.parent / GROUP_FILE, self.path]
        if is_directory(self.path):
            targets += [self.path / name for name in sorted(inside)]
        found = directories_to_watch(targets)
        if sections:
            found.setdefault(Path(os.path.realpath(self.path)), set()).add(ANY)  # a section may be added
        return {directory: frozenset(names) for directory, names in found.items()}

    def _applying(self) -> tuple[Path, ...]:
        """Return the existing files that apply, with that of the group."""
        if not is_directory(self.path):
            return (self.path,)
        group = self._group()[0]
        names = (self._first(group), *self._sections(group), "" if self.node_group else GROUP_FILE)
        standing = (_standing(self.path, name) for name in names if name)
        return tuple(file for file in standing if file)

    def _first(self, group: str) -> str:
        """Return the name of the whole configuration that applies; '' where there is none."""
        return next((name for name in self.names(group) if _standing(self.path, name)), "")

    def _sections(self, group: str) -> tuple[str, ...]:
        """Return the files that are sections of one configuration; none where a whole one is there for any node."""
        found = () if self._first(group) else _listed(self.path)
        # A whole configuration for other nodes: then the files are no sections, and none of them applies here.
        return () if REQUIRED_SECTION not in found or any(map(is_whole, found)) else found

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
        """Return what applies in the directory. A dangling link counts as present: reading it fails."""
        if name := self._first(group):
            return Source(self.path / name, self._text_of(name), group)
        if sections := self._sections(group):
            text, parts = join_sections((self.path / name, self._text_of(name)) for name in sections)
            return Source(self.path, text, group, parts=parts)
        raise ConfigError(str(self.path), 0, "", missing(self.names(group), _listed(self.path)))

    def _text_of(self, name: str) -> str:
        file = self.path / name
        return _text(_standing(self.path, name) or file, MAX_BYTES, shown=file)

    def _group(self) -> tuple[str, str]:
        """Return the node's group, and what is wrong with it."""
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
    """No configuration but the command line's, which never changes."""

    source: Source

    def read(self) -> Source:
        """Return the source found at start."""
        return self.source

    def lookups(self) -> dict[Path, frozenset[str]]:
        """Return no directory: there is nothing to watch."""
        return {}


def _standing(directory: Path, name: str) -> Path | None:
    """Return the path under which to read the file of this name; None = there is none."""
    # In a volume the new ``..data`` counts: the kubelet creates and removes the links through it afterwards.
    link, volume = directory / name, directory / DATA_LINK
    if is_directory(volume):
        if os.path.lexists(volume / name):
            return volume / name
        if link_target(link) == Path(DATA_LINK, name):
            return None
    # lexists: a dangling link must not let a lesser file apply in its place.
    return link if os.path.lexists(link) else None


def _listed(directory: Path) -> tuple[str, ...]:
    """Return the files of a directory that may be keys of a ConfigMap, in order; none where it is no directory."""
    volume = directory / DATA_LINK
    inside = volume if is_directory(volume) else directory
    try:
        names = sorted(path.name for path in inside.iterdir())
    except OSError:
        return ()
    return tuple(n for n in names if n != GROUP_FILE and may_be_section(n) and not is_directory(inside / n))


def _mode_warning(file: Path) -> str:
    """Return that others may write to this file, as a sentence; '' where they may not."""
    # Directories do not count: the kubelet makes those of its volumes with mode 0777 and mounts them read-only.
    try:
        mode = stat.S_IMODE(file.stat().st_mode)
    except OSError:
        return ""
    return f"{file} has mode {mode:04o}, others may write to it: chmod go-w {file}" if mode & 0o022 else ""


def _text(path: Path, most_bytes: int, *, may_wait: bool = False, shown: Path | None = None) -> str:
    """Return a file's text; errors name it as ``shown``. Raises ConfigError."""
    name = str(shown or path)
    try:
        # Opening a pipe without O_NONBLOCK would block until another process writes to it.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | (0 if may_wait else os.O_NONBLOCK)), "rb") as file:
            # After the open: a look before it could be at another file.
            if not may_wait and not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ConfigError(name, 0, "", "is not a regular file: put one there")
            # One more than may be: a longer file is told from one of exactly that length.
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


def mount_warning(path: Path, mounts: Mounts) -> str:
    """Return why changes of this file or directory will not be seen, as a sentence; '' where they will."""
    there = Path(os.path.realpath(path))  # Path.resolve() raises for a circle of links
    mount = mounts.of(str(there))
    if mount is None:
        return ""
    # The kubelet swaps ``..data`` of the volume; a bind mount of a file in it stays with the old generation.
    if _GENERATION.search(mount.root) or _SUB_PATHS in mount.root:
        return f"{path} is mounted with subPath, which Kubernetes never updates: mount the whole ConfigMap instead"
    if mount.directory == str(there) and not there.is_dir():
        return (
            f"{path} is a bind mount of a single file: when an editor or a tool replaces the file, the old one stays "
            "here; mount its directory instead"
        )
    return ""
