"""Save the options in force as JSON in the state directory; find and decode them for a start with an invalid file.

Never the file itself: that may be a whole ConfigMap object with other data.
"""

import json
import os
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from cri_proxy.config.layouts import MAX_BYTES
from cri_proxy.config.model import Config, known_options
from cri_proxy.config.option import Raw, read_value
from cri_proxy.config.values import differences, show_value, with_values
from cri_proxy.errors import ConfigError, StoreError
from cri_proxy.private_files import open_directory, open_private, private_directory, replace_file

FILE: Final = "config-in-force.json"
_FILE_MODE: Final = 0o600
# To be raised by a version that gives a key of the document another meaning.
_VERSION = 1
# The end of the year 9999, the last that a date can have.
_LATEST_SECONDS = 253_402_300_800


@dataclass(frozen=True, slots=True)
class KnownGood:
    """A configuration that was in force, without the options of a command line.

    ``path`` is the value of ``--config``, ``file`` the one that applied there for this ``group``; ``digest`` is the
    SHA-256 of its text, ``since_seconds`` (since the epoch) when it came into force.
    """

    config: Config
    path: Path
    file: Path
    group: str
    digest: str
    since_seconds: float

    @property
    def since(self) -> str:
        """The time when it came into force, in UTC (RFC 3339)."""
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.since_seconds))


def save_known_good(directory: Path, kept: KnownGood) -> None:
    """Save this for the next start; it is on disk when this returns. Blocks.

    The same configuration from the same file is not rewritten, so its ``since`` stays. Raises StoreError,
    and has changed nothing then.
    """
    with suppress(ConfigError):  # one that cannot be used is replaced
        before = find_known_good(directory, kept.path)
        if before is not None and replace(before, since_seconds=kept.since_seconds) == kept:
            return
    private_directory(directory)
    try:
        with open_directory(directory) as at:
            replace_file(at, FILE, encode(kept).encode(), _FILE_MODE, is_synced=True)
    except OSError as error:
        raise StoreError(str(directory / FILE), f"cannot write: {error.strerror}; check the disk") from error


def find_known_good(directory: Path, path: Path) -> KnownGood | None:
    """Return what was saved of the configuration at this ``--config`` path; None = nothing. Blocks.

    Raises ConfigError, with the reason, for a file that cannot be used.
    """
    file = directory / FILE
    if not os.path.lexists(file):
        return None
    try:
        with os.fdopen(open_private(file, os.O_RDONLY), "rb") as opened:
            raw = opened.read(MAX_BYTES + 1)
    except StoreError as error:
        raise ConfigError(error.path, 0, "", error.problem) from error
    except OSError as error:
        raise ConfigError(str(file), 0, "", f"cannot read: {error.strerror}") from error
    kept = decode(raw, str(file))
    return kept if kept.path == path else None


def encode(kept: KnownGood) -> str:
    """Return the document."""
    # Without defaults, so that an older version finds few options that it does not know.
    changed = differences(Config(), kept.config, known_options())
    document = {
        "version": _VERSION,
        "path": str(kept.path),
        "file": str(kept.file),
        "group": kept.group,
        "sha256": kept.digest,
        "since_seconds": kept.since_seconds,
        "options": {known.key: _written(value) for known, _, value in changed},
    }
    return json.dumps(document, indent=1) + "\n"


def _written(value: object) -> str | list[str]:
    """Return a value as ``read_value`` takes it."""
    if isinstance(value, tuple):
        return [str(item) for item in value]
    return value if isinstance(value, str) else show_value(value)


def decode(raw: bytes, name: str) -> KnownGood:
    """Return what the document says; ``name`` is its file. Raises ConfigError for what ``encode`` does not write."""
    if len(raw) > MAX_BYTES:
        raise ConfigError(name, 0, "", f"larger than {MAX_BYTES} bytes: cri-proxy did not write it")
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ConfigError(name, 0, "", f"not JSON: {error}") from error
    if not isinstance(document, dict) or document.get("version") != _VERSION:
        raise ConfigError(name, 0, "version", f"expected {_VERSION}: another version of cri-proxy wrote it")
    since = document.get("since_seconds")
    texts = [document.get(key) for key in ("path", "file", "group", "sha256")]
    if not isinstance(since, int | float) or not 0 <= since < _LATEST_SECONDS:
        raise ConfigError(name, 0, "since_seconds", f"expected seconds since the epoch, got {since!r}")
    if not all(isinstance(text, str) for text in texts):
        raise ConfigError(name, 0, "", "not as cri-proxy writes it")
    path, file, group, digest = map(str, texts)
    return KnownGood(_config(document.get("options"), name), Path(path), Path(file), group, digest, since)


def _config(options: object, name: str) -> Config:
    if not isinstance(options, dict):
        raise ConfigError(name, 0, "options", "expected an object")
    known_by_key = {".".join(path): known for known in known_options() for path in known.paths}
    values = []
    for key, value in options.items():
        if key not in known_by_key:
            raise ConfigError(name, 0, key, "unknown option: another version of cri-proxy wrote it")
        try:
            values.append((known_by_key[key], read_value(known_by_key[key], _raw(value))))
        except ValueError as error:
            raise ConfigError(name, 0, key, str(error)) from None
    return with_values(Config(), values)


def _raw(value: object) -> Raw:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise ValueError(f"expected a string or a list of strings, got {value!r}")
