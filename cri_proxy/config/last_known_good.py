"""Save the options in force as JSON in the state directory; find and decode them for a start with an invalid file.

Never the file itself: that may be a whole ConfigMap object with other data.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cri_proxy.config.layouts import MAX_BYTES
from cri_proxy.config.model import Config, known_options
from cri_proxy.config.option import Raw, read_value
from cri_proxy.config.values import differences, show_value, with_values
from cri_proxy.in_force.state_file import StateFile

# The end of the year 9999, the last that a date can have.
_LATEST_SECONDS = 253_402_300_800


@dataclass(frozen=True, slots=True)
class KnownGood:
    """A configuration that was in force, without the options of a command line.

    ``path`` is the value of ``--config``, ``file`` the one that applied there for this ``group``; ``digest`` is the
    SHA-256 of its text, ``since_seconds`` (since the epoch) when it came into force first: no part of what is compared.
    """

    config: Config
    path: Path
    file: Path
    group: str
    digest: str
    since_seconds: float = field(compare=False)

    @property
    def since(self) -> str:
        """The time when it came into force, in UTC (RFC 3339)."""
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.since_seconds))


def find_known_good(directory: Path, path: Path) -> KnownGood | None:
    """Return what was saved of the configuration at this ``--config`` path; None = nothing. Blocks.

    Raises StoreError, with the reason, for a file that cannot be used.
    """
    kept = KNOWN_GOOD.find(directory)
    # Of this --config only: a start by hand with another file must not run what the service had.
    return kept if kept is not None and kept.path == path else None


def _keys(kept: KnownGood) -> Mapping[str, object]:
    # Without defaults, so that an older version finds few options that it does not know.
    changed = differences(Config(), kept.config, known_options())
    return {
        "path": str(kept.path),
        "file": str(kept.file),
        "group": kept.group,
        "sha256": kept.digest,
        "since_seconds": kept.since_seconds,
        "options": {known.key: _written(value) for known, _, value in changed},
    }


def _written(value: object) -> str | list[str]:
    """Return a value as ``read_value`` takes it."""
    if isinstance(value, tuple):
        return [str(item) for item in value]
    return value if isinstance(value, str) else show_value(value)


def _read(document: Mapping[str, object]) -> KnownGood:
    since = document.get("since_seconds")
    texts = [document.get(key) for key in ("path", "file", "group", "sha256")]
    if not isinstance(since, int | float) or not 0 <= since < _LATEST_SECONDS:
        raise ValueError(f"since_seconds: expected seconds since the epoch, got {since!r}")
    if not all(isinstance(text, str) for text in texts):
        raise ValueError
    path, file, group, digest = map(str, texts)
    return KnownGood(_config(document.get("options")), Path(path), Path(file), group, digest, since)


def _config(options: object) -> Config:
    if not isinstance(options, dict):
        raise ValueError("options: expected an object")
    known_by_key = {".".join(path): known for known in known_options() for path in known.paths}
    values = []
    for key, value in options.items():
        # Refused as a whole (docs/adr/0011-kept-configuration.md): without this option it is not what was in force.
        if key not in known_by_key:
            raise ValueError(f"{key}: unknown option: another version of cri-proxy wrote it")
        try:
            values.append((known_by_key[key], read_value(known_by_key[key], _raw(value))))
        except ValueError as error:
            raise ValueError(f"{key}: {error}") from None
    return with_values(Config(), values)


def _raw(value: object) -> Raw:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise ValueError(f"expected a string or a list of strings, got {value!r}")


KNOWN_GOOD: Final = StateFile("config-in-force.json", MAX_BYTES, _keys, _read, uncompared=frozenset({"since_seconds"}))
"""The configuration in force; the same one from the same file is not saved again, so that its ``since`` stays."""
