"""Write the feature file of a node for node-feature-discovery's ``local`` source, by which labels come to the node."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from cri_proxy.errors import FileError
from cri_proxy.private_files import put_file

FEATURE_DIRECTORY: Final = Path("/etc/kubernetes/node-feature-discovery/features.d")
"""Where nfd-worker looks. Its ``local`` source passes over files whose name begins with a dot."""
_MODE: Final = 0o644
# Source: MaxFeatureFileSize of source/local/local.go; a larger file is passed over.
_MAX_BYTES: Final = 1 << 16


class FeatureFileError(FileError):
    """A feature file cannot be written."""


def feature_text(labels: Mapping[str, str], comment: str) -> str:
    r"""Return the content of a feature file: a comment, and a line NAME=VALUE for each label.

    >>> feature_text({"a.io/b": "1"}, "Why.")
    '# Why.\na.io/b=1\n'
    """
    return "".join([f"# {comment}\n", *(f"{name}={value}\n" for name, value in labels.items())])


def write_feature_file(path: Path, text: str) -> bool:
    """Replace the file as a whole; return False where it had this text already, and is left alone.

    nfd-worker reads at any time, and looks again at each change. Raises FeatureFileError.
    """
    content = text.encode()
    if len(content) > _MAX_BYTES:
        raise FeatureFileError(str(path), f"{len(content)} bytes; nfd-worker reads at most {_MAX_BYTES}")
    if not path.name or path.name.startswith("."):
        raise FeatureFileError(str(path), "nfd-worker reads files that have a name without a dot in front; name one")
    try:
        return put_file(path, content, _MODE, is_synced=True)
    except IsADirectoryError:
        raise FeatureFileError(str(path), "is a directory; name a file in it") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise FeatureFileError(str(path), f"cannot be written: {reason}; is {path.parent} a directory?") from None
