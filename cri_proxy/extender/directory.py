"""A directory with a file for each node, named like it: what nodes publish, where the scheduler sends only names."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from cri_proxy.bounded_yaml import Dialect
from cri_proxy.foreign_files.beneath import DirectoryBeneath, FileBeneath, FileRefused, open_beneath
from cri_proxy.in_force.file_cache import ParsedFiles
from cri_proxy.link_file import read_link_text
from cri_proxy.yaml_fields import DocumentError
from policies.devices.links import LinkError, link_annotation

# The name of a node is a DNS subdomain (RFC 1123), so that it is a file name, and none with a dot in front.
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_MOST_FILES: Final = 20_000  # as many as nodes of a question
_DIALECT: Final = Dialect(max_bytes=1 << 20, max_depth=20, max_nodes=100_000)


@dataclass(frozen=True, slots=True)
class FileWord:
    """The word of a file, or why its present content has none: then it is the last good one, '' = there is none."""

    word: str = ""
    problem: str = ""


class LinkDirectory:
    """Reads files of words or of matrices. Looked at with each question, so never stale."""

    def __init__(self, path: Path) -> None:
        """Read nothing yet."""
        self.path = path
        self._files = ParsedFiles(_word)
        self._good: dict[str, FileWord] = {}

    def words(self, names: Iterable[str]) -> Mapping[str, FileWord]:
        """Return the words in the files of these nodes; a node without a file is left out. Blocks."""
        names = [name for name in names if _NAME.fullmatch(name)]
        found: dict[str, FileWord | None] = {}
        try:
            with open_beneath(self.path) as directory:
                found.update((name, self._found(directory, self.path / name)) for name in names)
        except (FileNotFoundError, NotADirectoryError):
            self._files.keep(())
        except OSError as error:
            found.update(dict.fromkeys(names, FileWord(problem=f"{self.path}: cannot be read: {error.strerror}")))
        for name in names:
            word = found.get(name)
            if word is None:
                # A file that was removed takes its word with it; one that is spoilt does not.
                self._good.pop(name, None)
            elif not word.problem:
                self._good[name] = word
            elif name in self._good:
                found[name] = FileWord(self._good[name].word, word.problem)
        return {name: word for name, word in found.items() if word is not None}

    def read_all(self) -> None:
        """Read the files of all nodes. Blocks; what cannot be read is told with the first question about its node."""
        try:
            with open_beneath(self.path) as directory:
                names = list(islice((name for name in directory.names() if _NAME.fullmatch(name)), _MOST_FILES))
        except (OSError, FileRefused):
            return
        self.words(names)

    def kept(self, names: Iterable[str]) -> Mapping[str, FileWord]:
        """Return the words of these nodes from when their files could be used last."""
        return {name: self._good[name] for name in names if name in self._good}

    def _found(self, directory: DirectoryBeneath, path: Path) -> FileWord | None:
        try:
            return self._files.of(directory, path)
        except FileNotFoundError:
            return None
        except OSError as error:
            return FileWord(problem=f"{path}: cannot be read: {error.strerror}")
        except FileRefused as error:
            return FileWord(problem=str(DocumentError(str(path), error.line, error.problem)))


def _word(file: FileBeneath, path: Path) -> FileWord:
    """Return the word of a file with a matrix in a form of ``cri-proxy gpu``, which the word itself is too.

    Raises OSError and FileRefused.
    """
    text = file.text(_DIALECT.max_bytes)
    try:
        return FileWord(link_annotation(read_link_text(text, str(path), _DIALECT)))
    except (DocumentError, LinkError) as error:
        return FileWord(problem=str(error))
